"""What `hf-elmo predict` does with a tagger: a label for each word of each sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING

from .delivery import deliver
from .prediction_arguments import PredictionArguments
from .text_input import warn_of_raw_text

if TYPE_CHECKING:
    from ..inference.html_pages import Drawing
    from ..inference.tagger import TaggedWord


def predict_labels(arguments: PredictionArguments) -> None:
    """Show or write the labels of the words of a text.

    Raises: ValueError or OSError naming the argument, what it was and what to do.
    """
    from ..inference.tagger import ElmoTagger

    if arguments.text_pair is not None:
        raise ValueError(f"text_pair is {arguments.text_pair!r}, but the checkpoint labels words; leave it out.")
    lines = arguments.lines()
    tagger = ElmoTagger(
        arguments.model_name_or_path, arguments.device, arguments.max_words_per_batch, arguments.pre_tokenizer
    )
    has_spans = _has_spans(tagger.model.config.label_names)
    if arguments.convert_scheme is not None and not has_spans:
        raise ValueError(
            f"convert_scheme is {arguments.convert_scheme!r}, but the checkpoint labels single words, not spans; leave "
            "it out."
        )
    if arguments.input_file is not None:
        warn_of_raw_text(arguments, tagger.tokenizer.pre_tokenizer)
    tagged = tagger.tag(map(str.split, lines) if arguments.text_is_tokenized else lines)
    if arguments.convert_scheme is not None:
        tagged = _converted(tagged, arguments.convert_scheme)
    show = _in_brackets if has_spans else _with_slashes
    draw = _draw_spans if has_spans else _draw_labels
    deliver(arguments, tagged, "sentences", lambda sentence: [show(sentence)], _write, draw)


def _write(file: IO[str], tagged: Iterable[list[TaggedWord]]) -> str:
    num_sentences = num_words = 0
    for sentence in tagged:
        file.writelines(f"{word}\t{label}\n" for word, label, _ in sentence)
        if sentence:
            file.write("\n")
        num_sentences, num_words = num_sentences + 1, num_words + len(sentence)
    return f"{num_sentences:,} sentences of {num_words:,} words with their labels"


def _draw_spans(tagged: Sequence[list[TaggedWord]]) -> Drawing:
    from ..inference.html_pages import draw_entities
    from ..tasks.metrics.entities import read_any_spans

    return draw_entities(
        ([word.word for word in sentence], read_any_spans([word.label for word in sentence])) for sentence in tagged
    )


def _draw_labels(tagged: Sequence[list[TaggedWord]]) -> Drawing:
    from ..inference.html_pages import draw_labels

    return draw_labels(tagged)


def _has_spans(labels: Sequence[str]) -> bool:
    from ..tasks.metrics.entities import tag_scheme_of

    try:
        return tag_scheme_of(labels) == "spans"
    except ValueError:
        return False


def _converted(tagged: Iterable[list[TaggedWord]], scheme: str) -> Iterator[list[TaggedWord]]:
    from ..model.modeling_elmo_tasks import write_spans
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
