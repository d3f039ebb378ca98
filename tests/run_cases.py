"""A run of pre-training that takes a moment: a tiny model, a few steps, three sentences over and over."""

from pathlib import Path

from hf_elmo.pretraining.arguments import PretrainingArguments

TINY = '{"projection_size": 8, "cell_size": 16, "filters": [[1, 4], [2, 4]], "dropout": 0.0}'
LINES = ["The cat sat on the mat .", "A dog ran to the park .", "It sat ."]


def write_lines(folder: Path, lines: list[str] = LINES) -> Path:
    path = folder / "text.txt"
    path.write_text("".join(f"{line}\n" for line in lines * 20))
    (folder / "heldout.txt").write_text("".join(f"{line}\n" for line in lines * 2))
    return path


def make_arguments(folder: Path, **changes) -> PretrainingArguments:
    """The arguments of a run over `write_lines` that writes the directory "out" beside them."""
    return PretrainingArguments(
        **{
            "output_dir": str(folder / "out"),
            "train_file": [str(folder / "text.txt")],
            "validation_file": [str(folder / "heldout.txt")],
            "config_overrides": TINY,
            "per_device_train_batch_size": 2,
            "unroll_steps": 5,
            "max_steps": 6,
            **changes,
        }
    )
