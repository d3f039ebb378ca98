"""Score the words of a text by the language models inside ELMo: `python scripts/score.py --help`."""

from hf_elmo.scoring_command import ScoringArguments, run_scoring
from hf_elmo.training.command_line import run_command

if __name__ == "__main__":
    run_command(ScoringArguments, run_scoring)
