"""Upload a finished checkpoint to the Hub, with the token of HF_TOKEN or `hf auth login`."""

import argparse
import sys

from hf_elmo.checkpoints.secrets import check_command_line
from hf_elmo.checkpoints.sharing import files_to_send, push_checkpoint
from hf_elmo.commands.command_line import quiet_libraries, readable_errors


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", required=True, help="a directory that scripts/run_pretraining.py wrote")
    parser.add_argument(
        "--hub_model_id", required=True, help="name of the repository, with or without a namespace; made if not there"
    )
    parser.add_argument("--private", action="store_true", help="for nobody else to see; without it, the Hub's default")
    return parser.parse_args()


def main() -> None:
    with readable_errors():
        # Before anything that repeats the command's words.
        check_command_line(sys.argv[1:])
    arguments = parse_arguments()
    quiet_libraries()
    with readable_errors():
        url = push_checkpoint(arguments.checkpoint, arguments.hub_model_id, private=arguments.private or None)
        print(f"Uploaded {len(files_to_send(arguments.checkpoint))} files of {arguments.checkpoint} to {url}")


if __name__ == "__main__":
    main()
