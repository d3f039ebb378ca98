"""Build the softmax's vocabulary from a corpus of any size: `python scripts/build_vocabulary.py --help`."""

from hf_elmo.training.command_line import run_command
from hf_elmo.training.vocabulary_building import VocabularyArguments, run_vocabulary_building

if __name__ == "__main__":
    run_command(VocabularyArguments, run_vocabulary_building)
