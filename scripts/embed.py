"""Embed a text file with an ELMo checkpoint, into an HDF5 file: `python scripts/embed.py --help`."""

from hf_elmo.commands.command_line import run_command
from hf_elmo.commands.embed import EmbeddingArguments, run_embedding

if __name__ == "__main__":
    run_command(EmbeddingArguments, run_embedding)
