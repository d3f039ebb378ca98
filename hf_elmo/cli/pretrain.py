"""Pre-train an ELMo on text files or a dataset."""

from __future__ import annotations

from ..pretraining.arguments import RECIPES, PretrainingArguments

EXAMPLES = "\n".join(
    f"defaults of --recipe {recipe}:\n"
    + "".join(f"  --{name} {value}\n" for name, value in values.items() if value is not None)
    for recipe, values in RECIPES.items()
)


def pretrain(arguments: PretrainingArguments) -> None:
    """Run `hf-elmo pretrain`."""
    from ..pretraining.run import run_pretraining

    run_pretraining(arguments)
