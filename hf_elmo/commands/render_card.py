"""Render the cards and plots of model_cards/ anew from their files, or first take in what a pre-training run wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..given.flags import check_choices, flag
from .command_line import run_command


@dataclass
class CardArguments:
    """The cards."""

    model_name_or_path: str | None = flag(
        "Checkpoint to be taken in: a directory written by pretrain, convert or train.",
        aliases=("--checkpoint",),
        default=None,
    )
    name: str | None = flag("One folder of --model_cards, and its checkpoint's name in the card.", default=None)
    weights_dtype: Literal["float32", "float16", "bfloat16"] | None = flag(
        "Keep the weights too, in this dtype, and all else that an upload has, so that the folder loads; left out, it "
        "keeps figures and card alone.",
        default=None,
    )
    model_cards: str = flag("The folder of recipe folders.", default="model_cards")
    skip_plots: bool = flag("Leave the plots as they are, without need of matplotlib.", default=False)


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_command(CardArguments, render_cards, argv, prog, __doc__)


def render_cards(arguments: CardArguments) -> None:
    """Write the cards, and the plots, of one folder or of all, and print their names.

    Raises: ValueError or OSError naming what is missing.
    """
    from ..checkpoints.cards import (
        find_recipes,
        has_layer_shares,
        has_plot,
        layer_scores,
        read_results,
        write_card,
        write_recipe,
    )
    from ..checkpoints.file_names import CARD_FILE, LAYER_SHARES_FILE, PLOT_FILE
    from ..checkpoints.layer_scores_plot import plot_layer_scores
    from ..checkpoints.layer_shares_plot import plot_layer_shares
    from ..checkpoints.plots import plot_run

    check_choices(arguments)
    checkpoint, name = arguments.model_name_or_path, arguments.name
    if checkpoint and not name:
        raise ValueError("--model_name_or_path wants --name: the folder that takes in the run's figures.")
    if arguments.weights_dtype and not checkpoint:
        raise ValueError("--weights_dtype wants --model_name_or_path: the checkpoint whose weights are kept.")
    model_cards = Path(arguments.model_cards)
    recipes = [model_cards / name] if name else find_recipes(model_cards)
    if checkpoint and name and arguments.weights_dtype:
        import torch

        from ..checkpoints.images import write_image

        write_image(checkpoint, recipes[0], name, getattr(torch, arguments.weights_dtype))
    elif checkpoint and name:
        write_recipe(checkpoint, recipes[0], name)
    for recipe in recipes:
        if not arguments.skip_plots and has_plot(recipe):
            plot_run(read_results(recipe), recipe / PLOT_FILE)
        if not arguments.skip_plots and has_layer_shares(recipe):
            plot_layer_shares(read_results(recipe), recipe / LAYER_SHARES_FILE)
        for scores, plot in [] if arguments.skip_plots else layer_scores(recipe):
            plot_layer_scores(scores, plot)
        write_card(recipe)
        print(recipe / CARD_FILE)
