"""Score the words of a text by the language models inside ELMo: `python scripts/score.py --help`."""

from hf_elmo.commands.command_line import run_command
from hf_elmo.commands.score import ScoringArguments, run_scoring

if __name__ == "__main__":
    run_command(ScoringArguments, run_scoring)
