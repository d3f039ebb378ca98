"""The model that a run starts from: its sizes and words, with new weights or with those of an earlier checkpoint."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..checkpoints.loading import check_json_files
from ..model.configuration_elmo import ElmoConfig
from ..model.modeling_elmo import ElmoForPreTraining
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.vocabulary import WordVocabulary
from ..text.word_vectors import WordTable, set_token_inputs
from .arguments import PretrainingArguments
from .continuing import Source, carry_over, check_overrides, continued_config, load_source
from .objectives import propose_cutoffs
from .text_facts import TextFacts, start_from_frequencies


@dataclass
class Start:
    """What a run starts from before its text is read.

    Args:
        config: Sizes of the model, as yet without words.
        tokenizer: Cuts the text and makes the rows of characters.
        source: The checkpoint whose weights are taken over; None for new ones.
    """

    config: ElmoConfig
    tokenizer: ElmoCharTokenizer
    source: Source | None = None

    @classmethod
    def from_arguments(cls, arguments: PretrainingArguments) -> Start:
        """Open what the arguments name.

        Raises: ValueError or FileNotFoundError naming the argument when it is not what it should be.
        """
        if arguments.model_name_or_path is not None:
            source = load_source(arguments.model_name_or_path)
            return cls(source.config, source.tokenizer, source)
        config = build_config(arguments)
        tokenizer = ElmoCharTokenizer(max_characters_per_word=config.max_characters_per_word, **arguments.cutting)
        return cls(config, tokenizer)

    def given_words(self, arguments: PretrainingArguments) -> WordVocabulary | None:
        """The words of --vocab_file, or else the source's; None where both lack."""
        if arguments.vocab_file is not None:
            return WordVocabulary.load(arguments.vocab_file)
        return None if self.source is None else self.source.vocabulary

    def model_config(
        self, arguments: PretrainingArguments, words: WordVocabulary, report: Callable[[str], None]
    ) -> tuple[ElmoConfig, WordTable | None]:
        """The config of the model over the words of its softmax, and what its table of words is filled with, if any.

        Args:
            arguments: The run's.
            words: Words of the softmax.
            report: Called with each line for the user.
        """
        if self.source is not None:
            return continued_config(self.source, words, _softmax_type(arguments.objective), arguments.overrides), None
        config = with_softmax(self.config, len(words), arguments.objective)
        table = set_token_inputs(
            config,
            self.tokenizer,
            words,
            arguments.token_inputs,
            arguments.word_vectors,
            arguments.word_vector_size,
            train_word_vectors=False if arguments.freeze_word_vectors else None,
            report=report,
        )
        return config, table

    def build_model(
        self,
        arguments: PretrainingArguments,
        words: WordVocabulary,
        counts: Mapping[str, int] | None,
        facts: TextFacts,
        report: Callable[[str], None],
    ) -> ElmoForPreTraining:
        """Build the model over the words of its softmax.

        Args:
            arguments: The run's.
            words: Words of the softmax.
            counts: How often each occurs in the training text; None where the weights will be a checkpoint's.
            facts: Of that text.
            report: Called with each line for the user.
        """
        if self.source is not None:
            carried = carry_over(self.source, words, _softmax_type(arguments.objective), arguments.overrides)
            report(carried.description)
            return carried.model
        config, table = self.model_config(arguments, words, report)
        model = ElmoForPreTraining(config)
        if table is not None:
            table.fill(model)
        if counts is not None and config.softmax_type == "full" and arguments.starts_from_frequencies:
            start_from_frequencies(model, words, counts, facts)
        return model


def with_softmax(config: ElmoConfig, num_words: int, objective: str) -> ElmoConfig:
    """The config with the softmax that an objective trains, over so many words."""
    kind, cutoffs = _softmax_type(objective), None
    if kind == "adaptive":
        cutoffs = config.adaptive_softmax_cutoffs or propose_cutoffs(num_words)
    changes = {"softmax_type": kind, "adaptive_softmax_cutoffs": cutoffs, "word_vocab_size": num_words}
    return ElmoConfig.from_dict({**config.to_dict(), **changes})


def _softmax_type(objective: str) -> str:
    return "adaptive" if objective == "adaptive" else "full"


def build_config(arguments: PretrainingArguments) -> ElmoConfig:
    """The sizes of a new model: a config file or a preset, with single fields changed.

    Raises: ValueError naming the argument when a file or a field is not what it should be.
    """
    overrides = arguments.overrides
    check_overrides(overrides)
    if arguments.config_name is None:
        return getattr(ElmoConfig, arguments.preset or "small")(**overrides)
    if not os.path.exists(arguments.config_name):
        raise FileNotFoundError(f"--config_name {arguments.config_name!r} does not exist; name a config.json.")
    check_json_files(arguments.config_name, "--config_name")
    fields, _ = ElmoConfig.get_config_dict(arguments.config_name)
    if "projection_size" in overrides:
        fields.pop("hidden_size", None)
    return ElmoConfig(**{**fields, **overrides})
