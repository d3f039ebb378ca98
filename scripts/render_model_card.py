"""Keep the figures, the config and the card of a pre-training run in a folder: model_cards/NAME."""

import argparse
from pathlib import Path

from hf_elmo.cards import write_recipe


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", required=True, help="a directory that scripts/run_pretraining.py wrote")
    parser.add_argument("--name", required=True, help="the checkpoint's name in the card, and the folder's")
    parser.add_argument("--model_cards", default="model_cards", help="where the folder is made")
    arguments = parser.parse_args()
    write_recipe(arguments.checkpoint, Path(arguments.model_cards) / arguments.name, arguments.name)


if __name__ == "__main__":
    main()
