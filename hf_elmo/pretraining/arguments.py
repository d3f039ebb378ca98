"""The arguments of a pre-training run: all groups together, and what contradicts between them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from ..checkpoints.arguments import HubArguments, Preset, SavingArguments
from ..checkpoints.writing import check_output_directory
from ..given.flags import check_choices, flag, read_json_object
from ..text.arguments import TextArguments
from ..text.cutting import CUTTING_NAMES
from .recipes import OptimizationArguments
from .run_directory import checkpoints_in, find_checkpoint, find_faults


@dataclass(frozen=True, kw_only=True)
class ModelArguments:
    """The model that a run starts from: its sizes and how it reads words, or a checkpoint to take over."""

    model_name_or_path: str | None = flag(
        "A checkpoint to go on from with new text: its weights, tokenizer and, without --vocab_file, its words.",
        default=None,
    )
    config_name: str | None = flag("A config.json, or a directory with one, for the sizes of the model.", default=None)
    preset: Preset | None = flag(
        "A size that has a name instead: one of the three published, or fast, which learns most in an hour of a desk's "
        "processor; small where nothing names the sizes.",
        default=None,
    )
    config_overrides: str | None = flag(
        'Fields of ElmoConfig to change, as JSON: \'{"cell_size": 512, "dropout": 0.2}\'.', default=None
    )
    token_inputs: Literal["characters", "words", "both"] | None = flag(
        "What words are read by: their characters, a table of word vectors (words) or both. Left out, the config's.",
        default=None,
    )
    word_vectors: str | None = flag("GloVe or word2vec text to fill the table of word vectors with.", default=None)
    word_vector_size: int | None = flag("Size of the word vectors of a table that is learned.", default=None)
    freeze_word_vectors: bool = flag("Keep the vectors of --word_vectors as they are.", default=False)

    @property
    def overrides(self) -> dict[str, Any]:
        """--config_overrides, read.

        Raises: ValueError when it is not a JSON object.
        """
        return read_json_object("config_overrides", self.config_overrides, '{"cell_size": 512}')

    def check(self) -> None:
        """Check what can be checked before any file is read.

        Raises: ValueError naming the argument, the value got and the value wanted.
        """
        check_choices(self)
        sources = [name for name in ("preset", "config_name", "model_name_or_path") if getattr(self, name) is not None]
        if len(sources) > 1:
            named = " and ".join(f"--{name}" for name in sources)
            raise ValueError(f"{named} each name the sizes of the model; give one of them.")
        if self.word_vectors is not None and self.token_inputs == "characters":
            raise ValueError(
                "--word_vectors fills a table of words, but --token_inputs is 'characters'; set it to both."
            )
        if self.freeze_word_vectors and self.word_vectors is None:
            raise ValueError("--freeze_word_vectors keeps the vectors of --word_vectors, which is not given.")


_Arguments = TypeVar("_Arguments", bound="PretrainingArguments")

# In the order in which a command shows them.
GROUPS = (TextArguments, ModelArguments, OptimizationArguments, SavingArguments, HubArguments)


@dataclass(frozen=True, kw_only=True)
class PretrainingArguments(SavingArguments, TextArguments, ModelArguments, OptimizationArguments, HubArguments):
    """Pre-train an ELMo on text files or a dataset; the flags of `hf-elmo pretrain`."""

    def with_recipe(self: _Arguments) -> _Arguments:
        """The same with the recipe's values where none are given.

        Raises: ValueError when there is no such recipe.
        """
        filled = OptimizationArguments.with_recipe(self)
        # Sizes that are read bring their own dropout.
        has_own = self.config_name is not None or self.model_name_or_path is not None
        return replace(filled, dropout=self.dropout) if has_own else filled

    @property
    def overrides(self) -> dict[str, Any]:
        """Fields of the config to change: --config_overrides, and --dropout where it is given.

        Raises: ValueError when --config_overrides is not a JSON object.
        """
        return {**({} if self.dropout is None else {"dropout": self.dropout}), **super().overrides}

    def check(self) -> None:
        """Check what can be checked before any file is read; the recipe has to be in.

        Raises: ValueError naming the argument, the value got and the value wanted.
        """
        for group in GROUPS:
            group.check(self)
        if self.model_name_or_path is not None:
            plain = {field.name: field.default for field in fields(self)}
            for name in (*CUTTING_NAMES, "token_inputs", "word_vectors", "word_vector_size"):
                if getattr(self, name) != plain[name]:
                    raise ValueError(
                        f"--{name} is {getattr(self, name)!r}, but --model_name_or_path brings its own; leave it out."
                    )

    def find_checkpoint(self) -> Path | None:
        """The checkpoint to resume from, all its files read; None for a run that starts.

        Raises: FileNotFoundError when there is none where one was named; FileExistsError when the run would replace
            what is in output_dir and was not told to.
        """
        checkpoint = find_checkpoint(self.resume_from_checkpoint, self.output_dir)
        if checkpoint is not None and checkpoint.resolve().parent == Path(self.output_dir).resolve():
            return checkpoint
        if checkpoints_in(self.output_dir) and not self.overwrite_output_dir:
            faults = find_faults(self.output_dir)
            way = "go on with --resume_from_checkpoint last, name"
            if len(faults) == len(checkpoints_in(self.output_dir)):
                way = (
                    "none is whole (" + "; ".join(f"{path.name}: {fault}" for path, fault in faults.items()) + "): name"
                )
            raise FileExistsError(
                f"output_dir {self.output_dir!r} holds checkpoints of a run; {way} another one, or pass "
                "--overwrite_output_dir to replace it."
            )
        check_output_directory(self.output_dir, self.overwrite_output_dir)
        return checkpoint
