"""Apply a checkpoint of a task to text of one's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

from ..given.flags import check_choices
from .command_line import run_command
from .prediction_arguments import PredictionArguments
from .text_input import warn_of_raw_text

if TYPE_CHECKING:
    from ..inference.tagger import TaggedWord

_EXAMPLES = """
examples:
  hf-elmo predict "Alice flew to New York ." --model_name_or_path output/my-tagger
  hf-elmo predict --model_name_or_path output/my-tagger --input_file text.txt --output_file tagged.conll
  hf-elmo predict "A man sleeps ." --text_pair "Nobody is awake ." --model_name_or_path output/my-entailment
  hf-elmo predict "Who sat ?" --text_pair "The cat sat ." --model_name_or_path output/my-reader
  hf-elmo predict --model_name_or_path output/my-coreference --input_file chapter.txt --output_file clusters.json
  cat text.txt | hf-elmo predict --model_name_or_path output/my-tagger --input_file -
"""


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_command(PredictionArguments, predict, argv, prog, __doc__, _EXAMPLES)


def predict(arguments: PredictionArguments) -> None:
    """Show or write what a checkpoint says of a text, by what kind of model it is.

    Raises: ValueError or OSError naming the argument, what it was and what to do.
    """
    from ..checkpoints.loading import load_config

    check_choices(arguments)
    if (arguments.input_file is None) == (arguments.text is None):
        given = "no text" if arguments.text is None else f"both sentences and input_file {arguments.input_file!r}"
        raise ValueError(f"{given} given; wanted sentences in quotes, or --input_file FILE (- for standard input).")
    architectures = load_config(arguments.model_name_or_path).architectures or []
    for name, predictor in _PREDICTORS.items():
        if name in architectures:
            return predictor(arguments)
    found = ", ".join(architectures) or "no class"
    raise ValueError(
        f"model_name_or_path {arguments.model_name_or_path!r} is a checkpoint of {found}; wanted one that was trained "
        f"for a task: {', '.join(_PREDICTORS)}."
    )


def _predict_labels(arguments: PredictionArguments) -> None:
    """Label the words of a text by a tagger."""
    from ..checkpoints.writing import check_output_file, files_written_aside
    from ..inference.tagger import ElmoTagger
    from ..text.progress import track

    target = None
    if arguments.output_file is not None:
        target = check_output_file(arguments.output_file, arguments.overwrite_output_file)
    lines = arguments.lines()
    tagger = ElmoTagger(
        arguments.model_name_or_path, arguments.device, arguments.max_words_per_batch, arguments.pre_tokenizer
    )
    if arguments.input_file is not None:
        warn_of_raw_text(arguments, tagger.tokenizer.pre_tokenizer)
    tagged = tagger.tag(map(str.split, lines) if arguments.text_is_tokenized else lines)
    if arguments.convert_scheme is not None:
        tagged = _converted(tagged, arguments.convert_scheme)
    if target is None:
        show = _in_brackets if _has_spans(cast("dict[int, str]", tagger.model.config.id2label)) else _with_slashes
        for sentence in tagged:
            print(show(sentence))
        return
    num_sentences = num_words = 0
    with files_written_aside(target) as (aside,), open(aside, "w", encoding="utf-8", newline="\n") as file:
        for sentence in track(tagged, "predicting", "sentences"):
            file.writelines(f"{word}\t{label}\n" for word, label, _ in sentence)
            if sentence:
                file.write("\n")
            num_sentences, num_words = num_sentences + 1, num_words + len(sentence)
    print(f"Wrote {arguments.output_file}: {num_sentences:,} sentences of {num_words:,} words with their labels.")


def _predict_classes(arguments: PredictionArguments) -> None:
    """Label whole texts, or pairs of them, by a classifier."""
    from .predict_classes import predict_classes

    predict_classes(arguments)


def _predict_answers(arguments: PredictionArguments) -> None:
    """Answer questions by a reader."""
    from .predict_answers import predict_answers

    predict_answers(arguments)


def _predict_clusters(arguments: PredictionArguments) -> None:
    """Find the clusters of a document by a coreference model."""
    from .predict_clusters import predict_clusters

    predict_clusters(arguments)


def _predict_roles(arguments: PredictionArguments) -> None:
    """Label the arguments of the predicates of a text by a labeller of semantic roles."""
    from .predict_roles import predict_roles

    predict_roles(arguments)


_PREDICTORS = {
    "ElmoForTokenClassification": _predict_labels,
    "ElmoForSequenceClassification": _predict_classes,
    "ElmoForQuestionAnswering": _predict_answers,
    "ElmoForCoreferenceResolution": _predict_clusters,
    "ElmoForSemanticRoleLabeling": _predict_roles,
}


def _has_spans(id2label: dict[int, str]) -> bool:
    from ..tasks.metrics.entities import tag_scheme_of

    try:
        return tag_scheme_of(id2label.values()) == "spans"
    except ValueError:
        return False


def _converted(tagged: Iterable[list[TaggedWord]], scheme: str) -> Iterator[list[TaggedWord]]:
    from ..model.tag_schemes_elmo import write_spans
    from ..tasks.metrics.entities import read_any_spans

    for sentence in tagged:
        labels = write_spans(read_any_spans([word.label for word in sentence]), len(sentence), scheme)
        yield [word._replace(label=label) for word, label in zip(sentence, labels, strict=True)]


def _in_brackets(sentence: list[TaggedWord]) -> str:
    """The words with their spans in brackets: `[PER Alice Smith] sleeps .`"""
    from ..tasks.metrics.entities import read_any_spans

    words = [word.word for word in sentence]
    for span in read_any_spans([word.label for word in sentence]):
        words[span.start] = f"[{span.type} {words[span.start]}"
        words[span.stop - 1] += "]"
    return " ".join(words)


def _with_slashes(sentence: list[TaggedWord]) -> str:
    """The words, each with its label: `Alice/PROPN sleeps/VERB ./PUNCT`."""
    return " ".join(f"{word.word}/{word.label}" for word in sentence)
