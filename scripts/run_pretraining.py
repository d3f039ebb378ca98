"""Pre-train an ELMo on text files or a dataset: `python scripts/run_pretraining.py --help`."""

from hf_elmo.commands.command_line import run_command
from hf_elmo.pretraining.run import PretrainingArguments, run_pretraining

if __name__ == "__main__":
    run_command(PretrainingArguments, run_pretraining)
