"""Pre-training from its arguments to its checkpoint: corpora, vocabulary, baselines, the loop, the files."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

from ..cards import write_model_card
from ..checkpoint_files import check_keeps_inputs, check_output_directory, written_aside
from ..configuration_elmo import ElmoConfig
from ..data.corpora import Corpus, corpus_from_dataset, corpus_from_files
from ..data.lanes import RESETS
from ..data.vocabulary import WordVocabulary
from ..data.word_counts import MAX_WORDS_IN_MEMORY, WordCounter, choose_vocabulary
from ..modeling_elmo import ElmoForPreTraining
from ..tokenization_elmo import ElmoCharTokenizer
from .baselines import count_baselines
from .lane_trainer import LaneTrainer, LoopSettings, Perplexity
from .objectives import OBJECTIVES, build_objective, propose_cutoffs
from .provenance import describe_run, write_json
from .sampling import check_sorted

RESULTS_FILE = "results.json"


def _help(text: str, **defaults: Any) -> Any:
    return field(metadata={"help": text}, **defaults)


@dataclass
class PretrainingArguments:
    """Arguments of a pre-training run; the flags of scripts/run_pretraining.py."""

    output_dir: str = _help("Directory that the checkpoint is written to, in one rename at the end.")
    train_file: list[str] | None = _help(
        "Training text: files or quoted globs of text (one sentence a line), .jsonl or .parquet, also as .gz.",
        default=None,
    )
    validation_file: list[str] | None = _help("Held-out text, in the same forms.", default=None)
    dataset_name: str | None = _help("Any name or directory that datasets.load_dataset knows; streamed.", default=None)
    dataset_config_name: str | None = _help("The dataset's configuration.", default=None)
    train_split: str = _help("The dataset's training split.", default="train")
    validation_split: str | None = _help("The dataset's held-out split.", default=None)
    validation_split_percentage: float = _help(
        "Share of the training records held out where there is no validation file or split.", default=2.0
    )
    text_column: str = _help("Column that holds the text, in JSON, Parquet and datasets.", default="text")
    pre_tokenizer: str = _help("How text is cut into words: whitespace or punctuation. Saved.", default="whitespace")
    do_lower_case: bool = _help("Lower-case words before their characters are read. Saved.", default=False)
    vocab_file: str | None = _help(
        "Words of the softmax, one a line, <S>, </S> and <UNK> first; built from the training text if left out.",
        default=None,
    )
    max_vocab_size: int | None = _help("Most words of a vocabulary that is built.", default=None)
    min_count: int = _help("Words seen less often are <UNK> in a vocabulary that is built.", default=2)
    max_words_in_memory: int = _help(
        "Distinct words that are counted in memory; beyond them counts go to disk.", default=MAX_WORDS_IN_MEMORY
    )
    objective: str = _help(
        "full, sampled or adaptive: the softmax that is trained. Perplexities are by the full softmax (by the adaptive "
        "one where that is trained).",
        default="full",
    )
    num_negative_samples: int = _help(
        "Words that the sampled softmax draws for each direction of a window.", default=8192
    )
    reset_state: str = _help(
        "When the LSTM state goes back to zeros: never, at each document (empty lines end one in text; each record of "
        "other formats is one) or at each epoch.",
        default="never",
    )
    config_name: str | None = _help("A config.json, or a directory with one, for the sizes of the model.", default=None)
    preset: str | None = _help("A published size instead: small, medium or original.", default=None)
    config_overrides: str | None = _help(
        'Fields of ElmoConfig to change, as JSON: \'{"cell_size": 512, "dropout": 0.2}\'.', default=None
    )
    per_device_train_batch_size: int = _help("Lanes of each process.", default=32)
    per_device_eval_batch_size: int = _help("Lanes that the held-out text is dealt to.", default=32)
    unroll_steps: int = _help("Words of a window; states are carried from window to window.", default=20)
    gradient_accumulation_steps: int = _help("Windows to an optimizer step.", default=1)
    num_train_epochs: float = _help("Passes over the training text.", default=1.0)
    max_steps: int = _help("Optimizer steps; overrides num_train_epochs.", default=-1)
    learning_rate: float = _help("Highest learning rate of AdamW.", default=2e-3)
    weight_decay: float = _help("Weight decay of AdamW.", default=0.0)
    warmup_ratio: float = _help("Share of the steps in which the learning rate rises.", default=0.05)
    lr_scheduler_type: str = _help("Schedule after that, as transformers names them.", default="cosine")
    max_grad_norm: float = _help("Bound on the norm of the gradients.", default=1.0)
    eval_steps: int | None = _help("Steps between evaluations; left out, there is one halfway.", default=None)
    logging_steps: int = _help("Steps between entries of the loss history in results.json.", default=50)
    seed: int = _help("Seed of the weights and the dropout.", default=42)
    skip_baselines: bool = _help("Leave out the unigram and bigram baselines (one more pass).", default=False)
    overwrite_output_dir: bool = _help("Replace a full output directory when the run has ended well.", default=False)

    def check(self) -> None:
        """Check what can be checked before any file is read.

        Raises: ValueError or FileExistsError naming the argument, the value got and the value wanted.
        """
        if (self.train_file is None) == (self.dataset_name is None):
            raise ValueError("give either --train_file or --dataset_name: exactly one names the training text.")
        for name in (
            "per_device_train_batch_size",
            "per_device_eval_batch_size",
            "unroll_steps",
            "gradient_accumulation_steps",
            "logging_steps",
            "min_count",
            "max_words_in_memory",
            "num_negative_samples",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"--{name} is {getattr(self, name)}; it must be an integer >= 1.")
        for name, choices in (("objective", OBJECTIVES), ("reset_state", RESETS)):
            if getattr(self, name) not in choices:
                raise ValueError(f"--{name} is {getattr(self, name)!r}; it must be one of {', '.join(choices)}.")
        if self.max_steps < 0 and not self.num_train_epochs > 0:
            raise ValueError(f"--num_train_epochs is {self.num_train_epochs}; it must be > 0, or set --max_steps.")
        if self.max_steps == 0:
            raise ValueError("--max_steps is 0; it must be > 0, or left out to train for --num_train_epochs.")
        if self.eval_steps is not None and self.eval_steps < 1:
            raise ValueError(f"--eval_steps is {self.eval_steps}; it must be an integer >= 1.")
        if not 0 <= self.warmup_ratio < 1:
            raise ValueError(f"--warmup_ratio is {self.warmup_ratio}; it must lie in [0, 1).")
        if not 0 < self.validation_split_percentage < 100:
            raise ValueError(
                f"--validation_split_percentage is {self.validation_split_percentage}; it must lie between 0 and 100."
            )
        if self.preset is not None and self.preset not in ("small", "medium", "original"):
            raise ValueError(f"--preset is {self.preset!r}; it must be small, medium or original.")
        if self.preset is not None and self.config_name is not None:
            raise ValueError("--preset and --config_name both name the sizes of the model; give one of them.")
        check_output_directory(self.output_dir, self.overwrite_output_dir)


def run_pretraining(
    arguments: PretrainingArguments,
    accelerator: Accelerator | None = None,
    report: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Pre-train a biLM and write its checkpoint.

    Args:
        arguments: What to train on and how.
        accelerator: Devices and processes; None sets one up.
        report: Called with each line for the user, in the main process only.
    Returns: What results.json holds.
    Raises: ValueError, FileNotFoundError or FileExistsError for bad arguments or bad text, before training begins.
    """
    arguments.check()
    # Before hours of training in which somebody may commit.
    run = describe_run()
    accelerator = accelerator or Accelerator(
        gradient_accumulation_steps=arguments.gradient_accumulation_steps,
        # Without a GPU and without this, accelerate starts as many lone processes as torchrun has ranks.
        cpu=not torch.accelerator.is_available(),
    )
    if not accelerator.is_main_process:
        report = _say_nothing
    config = build_config(arguments)
    tokenizer = ElmoCharTokenizer(
        pre_tokenizer=arguments.pre_tokenizer,
        do_lower_case=arguments.do_lower_case,
        max_characters_per_word=config.max_characters_per_word,
    )
    train_corpus, held_out_corpus = open_corpora(arguments)
    inputs = [(corpus.name, file) for corpus in (train_corpus, held_out_corpus) for file in corpus.files]
    if arguments.vocab_file is not None:
        inputs.append(("--vocab_file", arguments.vocab_file))
    check_keeps_inputs(arguments.output_dir, inputs)
    counter = _count_words(arguments, train_corpus, tokenizer)
    vocabulary, num_distinct = _build_vocabulary(arguments, counter)
    report(
        f"training text: {counter.num_words:,} words in {counter.num_sentences:,} sentences, {num_distinct:,} "
        f"distinct; softmax over {len(vocabulary):,} words"
    )
    config.word_vocab_size = len(vocabulary)
    if arguments.objective == "adaptive":
        config.softmax_type = "adaptive"
        config.adaptive_softmax_cutoffs = config.adaptive_softmax_cutoffs or propose_cutoffs(len(vocabulary))
    set_seed(arguments.seed)
    model = ElmoForPreTraining(config)
    objective = build_objective(
        arguments.objective,
        model,
        arguments.num_negative_samples,
        # Each process draws its own negatives.
        seed=arguments.seed + accelerator.process_index,
    )
    report(f"model: {model.num_parameters():,} parameters")
    baselines = None
    if not arguments.skip_baselines:
        texts = (corpus.sentences(tokenizer.tokenize) for corpus in (train_corpus, held_out_corpus))
        baselines = count_baselines(*texts, vocabulary)
        report(
            f"held-out perplexity of the baselines: unigram {baselines.unigram:,.1f}, "
            f"bigram {baselines.bigram:,.1f} ({baselines.unknown_rate:.1%} of the words are unknown)"
        )
    entries = counter.num_words + 2 * counter.num_sentences
    settings = _loop_settings(arguments, entries, accelerator.num_processes)
    trainer = LaneTrainer(
        objective,
        tokenizer,
        vocabulary,
        train_corpus,
        held_out_corpus,
        settings,
        accelerator,
        on_evaluation=lambda step, perplexity: report(_describe_evaluation(step, settings.max_steps, perplexity)),
    )
    perplexity = trainer.train()
    results = {
        "perplexity": asdict(perplexity),
        "baselines": None if baselines is None else asdict(baselines),
        "evaluations": trainer.evaluations,
        "words_trained": trainer.num_words,
        "seconds": round(trainer.train_seconds, 1),
        "words_per_second": round(trainer.num_words / trainer.train_seconds, 1),
        "objective": arguments.objective,
        "training_text": {
            "words": counter.num_words,
            "sentences": counter.num_sentences,
            "distinct_words": num_distinct,
        },
        "vocabulary_size": len(vocabulary),
        "parameters": model.num_parameters(),
        "settings": asdict(settings),
        "history": trainer.history,
        **run,
    }
    if accelerator.is_main_process:
        with written_aside(arguments.output_dir, arguments.overwrite_output_dir) as directory:
            save_checkpoint(directory, model, tokenizer, vocabulary, results)
    accelerator.wait_for_everyone()
    report(f"checkpoint: {arguments.output_dir}")
    return results


def save_checkpoint(
    directory: str | os.PathLike,
    model: ElmoForPreTraining,
    tokenizer: ElmoCharTokenizer,
    vocabulary: WordVocabulary,
    results: dict[str, Any],
) -> None:
    """Write everything that makes a directory a checkpoint: weights, config, code, tokenizer, words, figures, card."""
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    vocabulary.save(directory)
    write_json(Path(directory) / RESULTS_FILE, results)
    write_model_card(directory, model.config, results)


def open_corpora(arguments: PretrainingArguments) -> tuple[Corpus, Corpus]:
    """The training and the held-out corpus, the second cut from the first where none is named."""
    by_document = arguments.reset_state == "document"
    if arguments.train_file is not None:
        train = corpus_from_files(arguments.train_file, "--train_file", arguments.text_column, by_document)
    else:
        train = corpus_from_dataset(
            arguments.dataset_name, arguments.dataset_config_name, arguments.train_split, arguments.text_column
        )
    if arguments.validation_file is not None:
        return train, corpus_from_files(
            arguments.validation_file, "--validation_file", arguments.text_column, by_document
        )
    if arguments.dataset_name is not None and arguments.validation_split is not None:
        return train, corpus_from_dataset(
            arguments.dataset_name, arguments.dataset_config_name, arguments.validation_split, arguments.text_column
        )
    return train.split(every=max(2, round(100 / arguments.validation_split_percentage)))


def build_config(arguments: PretrainingArguments) -> ElmoConfig:
    """The sizes of the model: a config file or a preset, with single fields changed.

    Raises: ValueError naming the argument when a file or a field is not what it should be.
    """
    try:
        overrides = json.loads(arguments.config_overrides or "{}")
    except json.JSONDecodeError as error:
        raise ValueError(f"--config_overrides is not JSON ({error}); wanted '{{\"cell_size\": 512}}'.") from error
    if not isinstance(overrides, dict):
        raise ValueError(f"--config_overrides is {overrides!r}; wanted an object of fields, '{{\"cell_size\": 512}}'.")
    if arguments.config_name is None:
        return getattr(ElmoConfig, arguments.preset or "small")(**overrides)
    if not os.path.exists(arguments.config_name):
        raise FileNotFoundError(f"--config_name {arguments.config_name!r} does not exist; name a config.json.")
    fields, _ = ElmoConfig.get_config_dict(arguments.config_name)
    if "projection_size" in overrides:
        fields.pop("hidden_size", None)
    return ElmoConfig(**{**fields, **overrides})


def _count_words(arguments: PretrainingArguments, corpus: Corpus, tokenizer: ElmoCharTokenizer) -> WordCounter:
    # What does not fit into memory goes beside the output, where there has to be room.
    directory = Path(arguments.output_dir).resolve().parent
    directory.mkdir(parents=True, exist_ok=True)
    counter = WordCounter(arguments.max_words_in_memory, directory)
    for words in corpus.sentences(tokenizer.tokenize):
        counter.add(words)
    if not counter.num_words:
        raise ValueError("the training text holds no words; check --train_file and --text_column.")
    return counter


def _build_vocabulary(arguments: PretrainingArguments, counter: WordCounter) -> tuple[WordVocabulary, int]:
    """The words of the softmax, and how many distinct ones the text has."""
    with closing(counter):
        if arguments.vocab_file is None:
            chosen = choose_vocabulary(counter, arguments.max_vocab_size, arguments.min_count)
            return chosen.vocabulary, chosen.num_distinct
        vocabulary = WordVocabulary.load(arguments.vocab_file)
        num_distinct, known = 0, {}
        for word, count in counter.counts():
            num_distinct += 1
            if word in vocabulary:
                known[word] = count
        if arguments.objective != "full":
            check_sorted(vocabulary, known)
        return vocabulary, num_distinct


def _loop_settings(arguments: PretrainingArguments, entries: int, num_processes: int) -> LoopSettings:
    """Turn epochs, shares and their like into steps; `entries` are the words and markers of one epoch."""
    entries_per_step = (
        arguments.per_device_train_batch_size
        * arguments.unroll_steps
        * arguments.gradient_accumulation_steps
        * num_processes
    )
    max_steps = arguments.max_steps
    if max_steps < 0:
        max_steps = math.ceil(entries * arguments.num_train_epochs / entries_per_step)
    return LoopSettings(
        num_lanes=arguments.per_device_train_batch_size,
        unroll_steps=arguments.unroll_steps,
        max_steps=max_steps,
        gradient_accumulation_steps=arguments.gradient_accumulation_steps,
        learning_rate=arguments.learning_rate,
        weight_decay=arguments.weight_decay,
        warmup_steps=round(arguments.warmup_ratio * max_steps),
        lr_scheduler_type=arguments.lr_scheduler_type,
        max_grad_norm=arguments.max_grad_norm,
        eval_steps=arguments.eval_steps or max(1, math.ceil(max_steps / 2)),
        logging_steps=arguments.logging_steps,
        eval_num_lanes=arguments.per_device_eval_batch_size,
        reset_state=arguments.reset_state,
    )


def _describe_evaluation(step: int, max_steps: int, perplexity: Perplexity) -> str:
    return (
        f"step {step:>{len(str(max_steps))}} of {max_steps}: held-out perplexity {perplexity.mean:,.1f} "
        f"(forward {perplexity.forward:,.1f}, backward {perplexity.backward:,.1f})"
    )


def _say_nothing(line: str) -> None:
    """What the other processes report."""
