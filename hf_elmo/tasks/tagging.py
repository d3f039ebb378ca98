"""The token classification task: tagged sentences in, a trained tagger, its scores and its predictions out."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from datasets import Dataset
from huggingface_hub.errors import StrictDataclassError
from torch import nn
from tqdm.auto import tqdm
from transformers import (
    DataCollatorForTokenClassification,
    PreTrainedTokenizer,
    PrinterCallback,
    ProgressCallback,
    Trainer,
    TrainerCallback,
    set_seed,
)
from transformers.trainer_utils import IntervalStrategy

from ..checkpoints.loading import find_file, load_config, load_what_is_there
from ..checkpoints.loading import load_tokenizer as checkpoint_tokenizer
from ..checkpoints.provenance import describe_run, write_json
from ..checkpoints.writing import check_keeps_inputs, check_output_directory, written_aside
from ..model.configuration_elmo import ElmoConfig
from ..model.modeling_elmo import IGNORED_LABEL, ElmoForTokenClassification
from ..model.tokenization_elmo import ElmoCharTokenizer
from .arguments import STEPS, DataArguments, ModelArguments, TaskTrainingArguments
from .metrics.entities import EntityMetric, tag_scheme_of
from .readers.columns import TaggedSentences, load_tagged_dataset, read_tagged_file, tagged_from_dataset

# What the Trainer calls the results on each split.
_RESULT_PREFIXES = {"validation": "eval", "test": "predict"}

# New task layers learn fast; a pre-trained biLM that is trained along with them must not be torn up.
_TASK_LEARNING_RATE = 1e-3
_BILM_LEARNING_RATE = 1e-4


@dataclass
class TokenClassificationTask:
    """A task that has been checked and is ready to run.

    Args:
        model: The tagger.
        tokenizer: Its tokenizer.
        splits: Tagged sentences for what is to be done: "train", "validation", "test".
        training_args: The Trainer's arguments.
        tag_scheme: "spans" or "words", see `EntityMetric`.
        description: One line about the model, for the log.
    """

    model: ElmoForTokenClassification
    tokenizer: PreTrainedTokenizer
    splits: dict[str, TaggedSentences]
    training_args: TaskTrainingArguments
    tag_scheme: str
    description: str

    def run(self) -> dict[str, Any]:
        """Train, evaluate and predict, as far as there are splits for it, and write the output directory.

        The directory appears when everything has gone well: `results.json` with all scores and how they came about,
        `validation_predictions.conll` and `test_predictions.conll` (tabs between word, gold label and predicted label;
        a blank line between sentences), and after training the model with its tokenizer.

        Returns: What `results.json` holds; scores lie in [0, 1].
        """
        args = self.training_args
        target = Path(args.output_dir)
        results: dict[str, Any] = {"model": self.description, "tag_scheme": self.tag_scheme, **describe_run()}
        self._say(f"Model: {self.description}")
        label2id = self.model.config.label2id
        datasets = {split: encode(sentences, self.tokenizer, label2id) for split, sentences in self.splits.items()}
        with _written_aside_together(target, args.overwrite_output_dir) as aside:
            args.output_dir = str(aside)
            trainer = self._make_trainer(datasets)
            if "train" in self.splits:
                results.update(self._train(trainer))
            for split in _RESULT_PREFIXES:
                if split in self.splits:
                    results.update(self._evaluate(trainer, split, datasets[split]))
            args.output_dir = str(target)
            if "train" in self.splits:
                trainer.save_model(str(aside))
            if trainer.is_world_process_zero():
                _point_to(aside, target.absolute())
                write_json(aside / "results.json", results)
        self._say(f"\nWritten to {target}.")
        return results

    def _make_trainer(self, datasets: dict[str, Dataset]) -> Trainer:
        trainer = Trainer(
            model=self.model,
            args=self.training_args,
            data_collator=DataCollatorForTokenClassification(self.tokenizer, label_pad_token_id=IGNORED_LABEL),
            train_dataset=datasets.get("train"),
            eval_dataset=datasets.get("validation"),
            processing_class=self.tokenizer,
            compute_metrics=self._overall_scores,
            preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(dim=-1),
            callbacks=[_LogLines()],
        )
        trainer.remove_callback(PrinterCallback)
        if trainer.pop_callback(ProgressCallback) is not None:
            trainer.add_callback(_Bars)
        return trainer

    def _train(self, trainer: Trainer) -> dict[str, Any]:
        args = self.training_args
        output = trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
        if args.load_best_model_at_end and not args.checkpoints_asked and trainer.is_world_process_zero():
            # The best one has been loaded; it was saved for nothing else.
            for checkpoint in Path(args.output_dir).glob("checkpoint-*"):
                shutil.rmtree(checkpoint)
            trainer.state.best_model_checkpoint = None
        if args.load_best_model_at_end and trainer.state.best_metric is not None:
            name, score = args.metric_for_best_model.removeprefix("eval_"), trainer.state.best_metric
            self._say(f"Kept the model of step {trainer.state.best_global_step}: validation {name} {score:.4f}.")
        trainer.save_state()
        return {**output.metrics, "train_samples": len(self.splits["train"])}

    def _evaluate(self, trainer: Trainer, split: str, dataset: Dataset) -> dict[str, Any]:
        """Score and write the predictions of a split."""
        prefix = _RESULT_PREFIXES[split]
        sentences = self.splits[split]
        output = trainer.predict(dataset, metric_key_prefix=prefix)
        predicted = self._labels_of(output.predictions, output.label_ids)
        report = self._score(predicted, sentences.labels)
        if trainer.is_world_process_zero():
            write_predictions(Path(trainer.args.output_dir) / f"{split}_predictions.conll", sentences, predicted)
        self._say("\n" + format_report(f"{split} ({sentences.source})", report))
        return {**output.metrics, f"{prefix}_entities": _by_type(report), f"{prefix}_samples": len(sentences)}

    def _overall_scores(self, output: Any) -> dict[str, float]:
        gold = self._labels_of(output.label_ids, output.label_ids)
        report = self._score(self._labels_of(output.predictions, output.label_ids), gold)
        return {name: report[f"overall_{name}"] for name in ("precision", "recall", "f1", "accuracy")}

    def _score(self, predicted: list[list[str]], gold: list[list[str]]) -> dict[str, Any]:
        metric = EntityMetric(keep_in_memory=True)
        return metric.compute(predictions=predicted, references=gold, tag_scheme=self.tag_scheme)

    def _labels_of(self, label_ids: np.ndarray, gold_ids: np.ndarray) -> list[list[str]]:
        """The names of the label ids (sentences, words) where there is a gold label, sentence by sentence."""
        id2label = self.model.config.id2label
        return [
            [id2label[int(index)] for index in row[gold != IGNORED_LABEL]]
            for row, gold in zip(label_ids, gold_ids, strict=True)
        ]

    def _say(self, message: str) -> None:
        if self.training_args.process_index == 0:
            print(message, flush=True)


def prepare_task(
    model_args: ModelArguments, data_args: DataArguments, training_args: TaskTrainingArguments
) -> TokenClassificationTask:
    """Check everything that can be wrong with the arguments and the data, and build the model.

    Nothing is written. Once this has returned, an error is one of the machine or of this package.

    Raises: ValueError, FileNotFoundError or FileExistsError naming the argument, the value got and what to do.
    """
    output_dir = check_output_directory(training_args.output_dir, training_args.overwrite_output_dir)
    check_keeps_inputs(output_dir, [(f"{split}_file", file) for split, file in data_args.files.items()])
    _check_arguments(model_args, data_args)
    if training_args.push_to_hub:
        raise ValueError(
            "push_to_hub is on, but output_dir stands only when everything is done; upload it then, with hf upload."
        )
    splits = _read_splits(data_args)
    splits = _choose_splits(splits, training_args)
    config, has_classifier = load_architecture(model_args)
    known = [config.id2label[index] for index in range(config.num_labels)] if has_classifier else None
    labels = choose_labels(splits, data_args.labels or [], known)
    tag_scheme = tag_scheme_of(labels) if data_args.tag_scheme == "auto" else data_args.tag_scheme
    if tag_scheme == "spans" and tag_scheme_of(labels) != "spans":
        raise ValueError(f"tag_scheme is 'spans', but the labels {labels[:5]} have no prefix such as B-; pass 'words'.")
    set_seed(training_args.seed)
    model, description = build_model(model_args, config, labels, keep_classifier=labels == known)
    tokenizer = load_tokenizer(model_args, config)
    _settle_learning_rate(training_args, model_args)
    if training_args.device.type == "cpu":
        training_args.dataloader_pin_memory = False
    limits = {
        "train": ("max_train_samples", data_args.max_train_samples),
        "validation": ("max_eval_samples", data_args.max_eval_samples),
        "test": ("max_predict_samples", data_args.max_predict_samples),
    }
    splits = {split: _limit(sentences, *limits[split]) for split, sentences in splits.items()}
    return TokenClassificationTask(model, tokenizer, splits, training_args, tag_scheme, description)


def choose_labels(
    splits: dict[str, TaggedSentences], extra: Sequence[str] = (), checkpoint_labels: Sequence[str] | None = None
) -> list[str]:
    """The labels of the classifier, in the order of their ids.

    A checkpoint's labels, in its own order, where it has a classifier that knows all that are wanted (or nothing is to
    be trained); else those of the training data, what the corpus declares and the extra ones, sorted.

    Args:
        splits: The tagged sentences.
        extra: Labels to know besides.
        checkpoint_labels: Labels of the checkpoint's classifier; None where it has none.
    Raises: ValueError where another split has a label that is not known, with its place.
    """
    if "train" in splits:
        train = splits["train"]
        wanted = {label for row in train.labels for label in row} | set(train.known_labels) | set(extra)
        labels = sorted(wanted)
        if checkpoint_labels is not None and wanted <= set(checkpoint_labels):
            labels = list(checkpoint_labels)
    elif checkpoint_labels is None:
        raise ValueError(
            "do_train is off, but the checkpoint has no token classifier to evaluate; name one that has with "
            "--model_name_or_path, or give training data."
        )
    else:
        labels = list(checkpoint_labels)
        if not set(extra) <= set(labels):
            raise ValueError(
                f"labels names {sorted(set(extra) - set(labels))}, but nothing is trained and the checkpoint knows "
                f"only {labels[:20]}; leave --labels out, or give training data."
            )
    others = [sentences for split, sentences in splits.items() if split != "train"]
    _check_labels_known(others, labels, is_trained="train" in splits)
    return labels


def load_architecture(model_args: ModelArguments) -> tuple[ElmoConfig, bool]:
    """The config that the arguments name, with the task's own fields set, and whether a classifier comes along.

    Raises: FileNotFoundError or ValueError naming the argument.
    """
    if model_args.preset is not None:
        config, has_classifier = getattr(ElmoConfig, model_args.preset)(), False
    else:
        argument = "model_name_or_path" if model_args.model_name_or_path else "config_name"
        config = load_config(getattr(model_args, argument), argument)
        architectures = config.architectures or []
        has_classifier = not _is_random(model_args) and ElmoForTokenClassification.__name__ in architectures
    # A tagger has no word softmax, whatever it was trained from.
    config.word_vocab_size = None
    try:
        for name in ("freeze_bilm", "classifier_dropout", "classifier_lstm_layers", "classifier_lstm_size", "mix_l2"):
            value = getattr(model_args, name)
            if value is not None:
                setattr(config, name, value)
        config.validate()
    except StrictDataclassError as error:
        raise ValueError(str(error.__cause__ or error)) from error
    return config, has_classifier


def build_model(
    model_args: ModelArguments, config: ElmoConfig, labels: Sequence[str], keep_classifier: bool = False
) -> tuple[ElmoForTokenClassification, str]:
    """Make the tagger, in float32, and describe it in one line.

    Args:
        model_args: Where its weights come from.
        config: Its architecture.
        labels: Its labels, in the order of their ids.
        keep_classifier: Whether the checkpoint's classifier has just these labels; else a new one is drawn.
    Raises: FileNotFoundError or ValueError where the weights are not there or not those of a biLM of this architecture.
    """
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: index for index, label in enumerate(labels)}
    if _is_random(model_args):
        model = ElmoForTokenClassification(config)
        origin = "all weights random"
    else:
        model, new = _load_weights(model_args.model_name_or_path, config)
        if not keep_classifier:
            classifier = nn.Linear(model.classifier.in_features, len(labels))
            model._init_weights(classifier)
            model.classifier = classifier
            new.add("classifier")
        origin = f"weights from {model_args.model_name_or_path}"
        origin += f", except new ones for {', '.join(sorted(new))}" if new else ""
    total = sum(parameter.numel() for parameter in model.parameters())
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    frozen = "fixed" if config.freeze_bilm else "trained"
    description = f"{total:,} parameters, {trained:,} of them trained (biLM {frozen}); {origin}; {len(labels)} labels."
    return model, description


def load_tokenizer(model_args: ModelArguments, config: ElmoConfig) -> PreTrainedTokenizer:
    """The checkpoint's tokenizer, or the plain one where it has none."""
    name = model_args.model_name_or_path or model_args.config_name
    if name is None or find_file(name, "tokenizer_config.json") is None:
        return ElmoCharTokenizer(max_characters_per_word=config.max_characters_per_word)
    return checkpoint_tokenizer(name, config)


def encode(sentences: TaggedSentences, tokenizer: PreTrainedTokenizer, label2id: dict[str, int]) -> Dataset:
    """Turn tagged sentences into rows of `input_ids` (T, C), `attention_mask` (T) and `labels` (T).

    T counts the sentence markers, whose label is -100.
    """

    def encode_batch(batch: dict[str, list]) -> dict[str, list]:
        encoded = tokenizer(batch["words"], is_split_into_words=True)
        encoded["labels"] = [
            [IGNORED_LABEL if word is None else label2id[tags[word]] for word in encoded.word_ids(row)]
            for row, tags in enumerate(batch["tags"])
        ]
        return dict(encoded)

    dataset = Dataset.from_dict({"words": sentences.words, "tags": sentences.labels})
    return dataset.map(
        encode_batch, batched=True, remove_columns=["words", "tags"], desc=f"Encoding {sentences.source}"
    )


def write_predictions(path: str | os.PathLike, sentences: TaggedSentences, predicted: Sequence[Sequence[str]]) -> None:
    """Write word, gold label and predicted label between tabs, a blank line between sentences.

    Tabs and line ends inside a word, which only a dataset can bring, are written as spaces.
    """
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for words, gold, labels in zip(sentences.words, sentences.labels, predicted, strict=True):
            for word, gold_label, label in zip(words, gold, labels, strict=True):
                file.write("\t".join([re.sub(r"[\t\r\n]", " ", word), gold_label, label]) + "\n")
            file.write("\n")


def format_report(title: str, report: dict[str, Any]) -> str:
    """The scores as a table in percent, a line a type of entity."""
    types = _by_type(report)
    width = max(map(len, [*types, "all"]))
    lines = [title, f"{'':{width}}  precision   recall       F1  support"]
    for name, row in types.items():
        scores = "  ".join(f"{100 * row[score]:7.2f}" for score in ("precision", "recall", "f1"))
        lines.append(f"{name:{width}}  {scores:>27}  {row['number']:7}")
    scores = "  ".join(f"{100 * report[f'overall_{score}']:7.2f}" for score in ("precision", "recall", "f1"))
    lines.append(f"{'all':{width}}  {scores:>27}  {sum(row['number'] for row in types.values()):7}")
    lines.append(f"accuracy by word: {100 * report['overall_accuracy']:.2f}")
    return "\n".join(lines)


class _Bars(ProgressCallback):
    """transformers' progress bars without its dumps of dictionaries."""

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        pass


class _LogLines(TrainerCallback):
    """One readable line for each log of the Trainer that has a loss or a score in it."""

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if not state.is_world_process_zero:
            return
        start = f"epoch {logs.get('epoch', 0):g} of {args.num_train_epochs:g}" if args.max_steps <= 0 else ""
        start = start or f"step {state.global_step} of {args.max_steps}"
        if "loss" in logs:
            tqdm.write(f"{start}: training loss {float(logs['loss']):.4f}, learning rate {logs['learning_rate']:.3g}")
        if "eval_loss" in logs:
            scores = ", ".join(
                f"{name} {100 * logs[f'eval_{name}']:.2f}" for name in ("precision", "recall", "f1", "accuracy")
            )
            tqdm.write(f"{start}: validation loss {logs['eval_loss']:.4f}, {scores}")


@contextmanager
def _written_aside_together(target: Path, overwrite: bool) -> Iterator[Path]:
    """`written_aside` for one or several processes: the first one makes the directory and all of them write to it."""
    state = PartialState()
    if state.is_main_process:
        with written_aside(target, overwrite) as aside:
            broadcast_object_list([str(aside)])
            yield aside
            state.wait_for_everyone()
    else:
        shared = [None]
        broadcast_object_list(shared)
        yield Path(shared[0])
        state.wait_for_everyone()


def _point_to(aside: Path, target: Path) -> None:
    """Have the Trainer's notes on its checkpoints name the directory by its final name."""
    old, new = (json.dumps(str(path))[1:-1] for path in (aside, target))
    for path in aside.rglob("trainer_state.json"):
        path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")


def _by_type(report: dict[str, Any]) -> dict[str, dict[str, float]]:
    return {name: row for name, row in report.items() if isinstance(row, dict)}


def _check_arguments(model_args: ModelArguments, data_args: DataArguments) -> None:
    sources = {name: getattr(model_args, name) for name in ("model_name_or_path", "config_name", "preset")}
    given = [name for name, value in sources.items() if value]
    if len(given) != 1:
        raise ValueError(
            f"{' and '.join(given) or 'No model'} given; wanted exactly one of --model_name_or_path for a checkpoint, "
            "--config_name or --preset for random weights."
        )
    if data_args.dataset_name and data_args.files:
        raise ValueError(
            f"dataset_name {data_args.dataset_name!r} and files ({', '.join(data_args.files.values())}) given; wanted "
            "one or the other."
        )
    if not data_args.dataset_name and not data_args.files:
        raise ValueError("No data given; wanted --train_file, --validation_file or --test_file, or --dataset_name.")
    if data_args.dataset_name:
        source, misplaced = "datasets", ("word_column", "label_column")
    else:
        source, misplaced = "files", ("text_column_name", "label_column_name")
    for name in misplaced:
        if getattr(data_args, name) is not None:
            raise ValueError(
                f"{name} is {getattr(data_args, name)!r}, but it is not for {source}: "
                "files take --word_column and --label_column, datasets --text_column_name and --label_column_name."
            )


def _read_splits(data_args: DataArguments) -> dict[str, TaggedSentences]:
    if data_args.files:
        return {
            split: read_tagged_file(file, data_args.word_column, data_args.label_column, name=f"{split}_file")
            for split, file in data_args.files.items()
        }
    dataset = load_tagged_dataset(data_args.dataset_name, data_args.dataset_config_name)
    splits = {
        split: tagged_from_dataset(
            dataset[split],
            f"dataset_name {data_args.dataset_name!r}, split {split!r}",
            data_args.text_column_name,
            data_args.label_column_name,
        )
        for split in ("train", "validation", "test")
        if split in dataset
    }
    if not splits:
        raise ValueError(
            f"dataset_name {data_args.dataset_name!r} has the splits {list(dataset)}; wanted train, validation or test."
        )
    return splits


def _choose_splits(splits: dict[str, TaggedSentences], args: TaskTrainingArguments) -> dict[str, TaggedSentences]:
    """The splits that the `do_...` flags ask for, all of them without any; settles those flags and when to evaluate."""
    for step in args.steps_asked:
        if STEPS[step] not in splits:
            raise ValueError(
                f"{step} is on, but there is no {STEPS[step]} data; give --{STEPS[step]}_file or a dataset with that "
                "split, or leave the flag out."
            )
    wanted = {STEPS[step] for step in args.steps_asked} or set(splits)
    if "train" in wanted:
        wanted.add("validation")
    chosen = {split: sentences for split, sentences in splits.items() if split in wanted}
    for step, split in STEPS.items():
        setattr(args, step, split in chosen)
    if not args.do_eval:
        if args.load_best_model_at_end or (args.eval_strategy_asked and args.eval_strategy != IntervalStrategy.NO):
            flag = "load_best_model_at_end" if args.load_best_model_at_end else "eval_strategy"
            raise ValueError(f"{flag} is set, but there is no validation data; give --validation_file or leave it out.")
        args.eval_strategy = IntervalStrategy.NO
    if args.load_best_model_at_end and args.eval_strategy == IntervalStrategy.NO:
        raise ValueError("load_best_model_at_end is set, but eval_strategy is 'no'; leave --eval_strategy out.")
    resumed = args.resume_from_checkpoint
    if resumed is not None and not Path(resumed).is_dir():
        raise FileNotFoundError(f"resume_from_checkpoint {resumed!r} is not a directory; check the path.")
    return chosen


def _check_labels_known(sentences: list[TaggedSentences], known: Sequence[str], is_trained: bool) -> None:
    places: dict[str, str] = {}
    for split in sentences:
        for row, labels in enumerate(split.labels):
            for word, label in enumerate(labels):
                if label not in known and label not in places:
                    places[label] = split.place(row, word)
    if not places:
        return
    (label, place), *others = places.items()
    what = f"{place}: the label {label!r}" + (f" (nor {len(others)} more)" if others else "")
    if is_trained:
        raise ValueError(
            f"{what} does not occur in the training data; correct it, or make it known with --labels "
            f"{shlex.join(places)}"
        )
    raise ValueError(
        f"{what} is not one that the checkpoint knows, {list(known[:20])}; correct it, or give training data."
    )


def _is_random(model_args: ModelArguments) -> bool:
    return model_args.from_scratch or not model_args.model_name_or_path


def _load_weights(name: str, config: ElmoConfig) -> tuple[ElmoForTokenClassification, set[str]]:
    """A checkpoint's weights in a tagger, and which of its parts had none of the right shape there."""
    try:
        model, new = load_what_is_there(ElmoForTokenClassification, name, config)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"model_name_or_path {name!r} has no weights; for random ones pass --from_scratch. ({error})"
        ) from error
    lost = [key for key in new if key.startswith(("elmo.token_encoder.", "elmo.bilm."))]
    if lost:
        raise ValueError(
            f"model_name_or_path {name!r} has no weights, or weights of another shape, for {lost[0]!r} and "
            f"{len(lost) - 1} more of the biLM; name a complete ELMo checkpoint."
        )
    return model, {key.split(".")[0] if not key.startswith("elmo.mixes") else "scalar mix" for key in new}


def _settle_learning_rate(args: TaskTrainingArguments, model_args: ModelArguments) -> None:
    if args.learning_rate is None:
        trains_pretrained = not model_args.freeze_bilm and not _is_random(model_args)
        args.learning_rate = _BILM_LEARNING_RATE if trains_pretrained else _TASK_LEARNING_RATE


def _limit(sentences: TaggedSentences, argument: str, count: int | None) -> TaggedSentences:
    if count is None:
        return sentences
    if count < 1:
        raise ValueError(f"{argument} is {count}; it must be an integer >= 1, or left out for all sentences.")
    return sentences.first(count)
