"""Train, evaluate and apply a token classifier on ELMo: named entities, parts of speech, any label a word.

    python scripts/run_token_classification.py --model_name_or_path CHECKPOINT --train_file train.conll \\
        --validation_file dev.conll --test_file test.conll --load_best_model_at_end --output_dir tagger

`--help` lists everything; transformers' training flags work too.
"""

import argparse
import sys

from transformers import HfArgumentParser

from hf_elmo.checkpoints.secrets import check_command_line
from hf_elmo.commands.command_line import quiet_libraries, readable_errors
from hf_elmo.tasks.arguments import DataArguments, ModelArguments, TaskTrainingArguments
from hf_elmo.tasks.tagging import prepare_task


def main() -> None:
    # The usage line would name all of transformers' flags, a page of them, before each error.
    parser = HfArgumentParser([ModelArguments, DataArguments, TaskTrainingArguments], usage=argparse.SUPPRESS)
    with readable_errors():
        check_command_line(sys.argv[1:])
        *arguments, unknown = parser.parse_args_into_dataclasses(
            return_remaining_strings=True, look_for_args_file=False
        )
        if unknown:
            parser.error(f"unknown arguments: {' '.join(unknown)}; --help lists those there are")
        # Only now: transformers turns its progress bars off where it is quiet when the arguments are made.
        quiet_libraries()
        task = prepare_task(*arguments)
    task.run()


if __name__ == "__main__":
    main()
