"""Render the cards and plots of model_cards/ anew from their files, or first take in what a pre-training run wrote."""

import argparse
from pathlib import Path

from hf_elmo.checkpoints.cards import CARD_FILE, PLOT_FILE, find_recipes, read_results, write_card, write_recipe
from hf_elmo.checkpoints.plots import plot_run
from hf_elmo.commands.command_line import readable_errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", help="a directory that scripts/run_pretraining.py wrote, to be taken in")
    parser.add_argument("--name", help="one folder of --model_cards, and its checkpoint's name in the card")
    parser.add_argument("--model_cards", default="model_cards", help="the folder of recipe folders")
    parser.add_argument("--skip_plots", action="store_true", help="leave the plots as they are: no need of matplotlib")
    arguments = parser.parse_args()
    if arguments.checkpoint and not arguments.name:
        parser.error("--checkpoint wants --name: the folder that takes in the run's figures.")
    model_cards = Path(arguments.model_cards)
    with readable_errors():
        recipes = [model_cards / arguments.name] if arguments.name else find_recipes(model_cards)
        if arguments.checkpoint:
            write_recipe(arguments.checkpoint, recipes[0], arguments.name)
        for recipe in recipes:
            if not arguments.skip_plots:
                plot_run(read_results(recipe), recipe / PLOT_FILE)
            write_card(recipe)
            print(recipe / CARD_FILE)


if __name__ == "__main__":
    main()
