"""Embed a text file with an ELMo checkpoint, into an HDF5 file: `python scripts/embed.py --help`."""

from hf_elmo.embedding_command import EmbeddingArguments, run_embedding
from hf_elmo.training.command_line import run_command

if __name__ == "__main__":
    run_command(EmbeddingArguments, run_embedding)
