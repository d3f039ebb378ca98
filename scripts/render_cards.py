"""Render the cards of model_cards/, or of the checkpoints that are named, from the files beside them.

python scripts/render_cards.py [--plots] [DIRECTORY ...]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from hf_elmo.hub import CARD_FILE, FACTS_FILE, PLOT_FILE, RESULTS_FILE
from hf_elmo.hub.cards import write_card
from hf_elmo.hub.plots import plot_layer_scores, plot_run

MODEL_CARDS = Path(__file__).resolve().parents[1] / "model_cards"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directories", nargs="*", type=Path, help="the checkpoints; left out, those of model_cards")
    parser.add_argument("--plots", action="store_true", help="draw the pictures anew too")
    arguments = parser.parse_args()
    for directory in arguments.directories or sorted(path.parent for path in MODEL_CARDS.glob(f"*/{FACTS_FILE}")):
        results = json.loads((directory / RESULTS_FILE).read_text(encoding="utf-8"))
        if arguments.plots and "perplexity" in results:
            plot_run(results, directory / PLOT_FILE)
        for file in directory.glob("*.json") if arguments.plots else ():
            if file.name in ("senses.json", "tags.json"):
                plot_layer_scores(json.loads(file.read_text(encoding="utf-8")), file.with_suffix(".png"))
        write_card(directory)
        print(directory / CARD_FILE)


if __name__ == "__main__":
    main()
