"""Build the softmax's vocabulary from a corpus of any size: `python scripts/build_vocabulary.py --help`."""

from hf_elmo.commands.build_vocabulary import VocabularyArguments, run_vocabulary_building
from hf_elmo.commands.command_line import run_command

if __name__ == "__main__":
    run_command(VocabularyArguments, run_vocabulary_building)
