"""Pre-train an ELMo on text files or a dataset: `python scripts/run_pretraining.py --help`."""

from hf_elmo.training.command_line import run_command
from hf_elmo.training.pretraining import PretrainingArguments, run_pretraining

if __name__ == "__main__":
    run_command(PretrainingArguments, run_pretraining)
