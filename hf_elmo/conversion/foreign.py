"""What a reader of another program's format is, what it gives, and how that becomes a directory of ours."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizer

from ..checkpoints.cards import write_conversion_card
from ..checkpoints.writing import check_keeps_inputs, check_output_directory, written_aside
from ..model.modeling_elmo import ElmoPreTrainedModel
from ..text.vocabulary import WordVocabulary
from .checked_files import ConversionError


@dataclass(frozen=True)
class ForeignModel:
    """What a format's reader gives.

    Args:
        model: The model, in evaluation mode.
        tokenizer: Turns text into its inputs as the other program did.
        files: The files that were read, by what they are: "weight_file" for example.
        options: What the other program's settings say, for the card.
        notes: What whoever uses the result has to know, a sentence each: what was left out, what is done otherwise.
        words: The words of the model's table or softmax, in the order of the other program's vocabulary.
    """

    model: ElmoPreTrainedModel
    tokenizer: PreTrainedTokenizer
    files: Mapping[str, Path]
    options: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    words: WordVocabulary | None = None


@dataclass(frozen=True)
class ForeignFormat:
    """One format of another program.

    Args:
        name: As `--format` takes it.
        files: What it consists of, for messages and for --help.
        licence: What is known of the licence, for the card.
        recognises: Whether a directory or a file is of this format, by names and first bytes alone.
        load: Reads it: gets the directory or file, and by keyword the options that it knows; raises ConversionError.
    """

    name: str
    files: str
    licence: str
    recognises: Callable[[Path], bool]
    load: Callable[..., ForeignModel]

    @property
    def options(self) -> tuple[str, ...]:
        """The options that its reader knows: the arguments that `load` takes by keyword alone."""
        parameters = inspect.signature(self.load).parameters.values()
        return tuple(parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY)


def check_output(output_dir: str | os.PathLike, overwrite: bool, inputs: Mapping[str, str | os.PathLike]) -> None:
    """Check, before anything is read, that a result can be written and takes no input along.

    Args:
        output_dir: The directory to write.
        overwrite: Whether a full one may be replaced.
        inputs: The files and directories that are read, by the arguments that name them.
    Raises: ConversionError naming an input inside of output_dir; FileExistsError.
    """
    try:
        check_keeps_inputs(output_dir, inputs.items())
    except ValueError as error:
        raise ConversionError(str(error)) from error
    check_output_directory(output_dir, overwrite)


def save_foreign(
    foreign: ForeignModel, origin: ForeignFormat, output_dir: str | os.PathLike, overwrite: bool = False
) -> None:
    """Write a directory that AutoModel and AutoTokenizer load, with a card of where it comes from.

    Args:
        foreign: What was read.
        origin: Its format.
        output_dir: The directory to write; on any error it is left as it was.
        overwrite: Whether a full one may be replaced.
    Raises: FileExistsError where it is full and `overwrite` is not set; OSError.
    """
    with written_aside(output_dir, overwrite) as directory:
        foreign.model.save_pretrained(directory)
        foreign.tokenizer.save_pretrained(directory)
        if foreign.words is not None:
            foreign.words.save(directory)
        write_conversion_card(
            directory,
            origin.name,
            foreign.files,
            foreign.options,
            name=Path(output_dir).resolve().name,
            licence=origin.licence,
            notes=foreign.notes,
        )
