"""What the commands share that measure what layers know: the checkpoint, where the figures go, and writing them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..given.flags import flag


@dataclass
class MeasuringArguments:
    """The checkpoint, and where the figures go."""

    model_name_or_path: str = flag("Checkpoint, a directory or a name on the Hub.", aliases=("--model",))
    output_dir: str | None = flag(
        "Folder to write figures and picture into; in the checkpoint's, its card shows them once it is rendered again.",
        default=None,
    )
    max_words_per_batch: int = flag("Words computed at once, markers and padding included.", default=2048)
    device: str | None = flag("cpu, cuda, cuda:1 and so on.", default=None)
    skip_plots: bool = flag("Write the figures alone, without need of matplotlib.", default=False)
    overwrite_output_file: bool = flag("Replace figures that are there.", default=False)

    @classmethod
    def shown_defaults(cls) -> dict[str, str]:
        """What --help says of flags whose default is worked out later."""
        return {"device": "cuda where there is one, else cpu", "output_dir": "the screen alone"}

    def check_output(self, names: tuple[str, str]) -> None:
        """Check that the figures and the picture can be written.

        Raises: FileExistsError naming the one that is there.
        """
        from ..checkpoints.writing import check_output_file

        if self.output_dir is not None:
            for name in names:
                check_output_file(Path(self.output_dir) / name, self.overwrite_output_file)


def report(results: dict[str, Any], arguments: MeasuringArguments, names: tuple[str, str]) -> None:
    """Print the table of results and write them with their picture.

    Args:
        results: As in senses.json or tags.json, but for where they come from.
        arguments: Say where they go.
        names: Of the file of figures and of the picture.
    """
    from ..checkpoints.plots import plot_layer_scores
    from ..checkpoints.provenance import describe_run, write_json
    from ..checkpoints.scores import scores_table, what_leads
    from ..checkpoints.writing import files_written_aside

    results |= describe_run()
    print(f"{scores_table(results)}\n\n{what_leads(results)}")
    if arguments.output_dir is None:
        return
    files = [Path(arguments.output_dir).resolve() / name for name in names[: 1 if arguments.skip_plots else 2]]
    with files_written_aside(*files) as aside:
        write_json(aside[0], results)
        for picture in aside[1:]:
            plot_layer_scores(results, picture)
    print(f"Wrote {' and '.join(map(str, files))}.")
