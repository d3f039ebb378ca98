"""Convert an ELMo checkpoint of another program into a directory that AutoModel loads, or back (--reverse)."""

from __future__ import annotations

import argparse
import sys

EXAMPLES = """
examples:
  %(prog)s --options_file options.json --weight_file weights.hdf5 --output_dir elmo-original
  %(prog)s --reverse --model_dir elmo-original --options_file options.json --weight_file weights.hdf5
"""


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--format",
        choices=["bilm-tf"],
        default="bilm-tf",
        help="the other program's format; bilm-tf, the released models' and AllenNLP's, is options.json and an hdf5 "
        "of weights (default: %(default)s)",
    )
    parser.add_argument(
        "--options_file", required=True, help="options.json of the other program: read, or written with --reverse"
    )
    parser.add_argument(
        "--weight_file", required=True, help="hdf5 of the other program's weights: read, or written with --reverse"
    )
    parser.add_argument("--output_dir", help="directory to write for AutoModel and AutoTokenizer (without --reverse)")
    parser.add_argument("--reverse", action="store_true", help="write the other program's files from --model_dir")
    parser.add_argument(
        "--model_dir", help="directory of any saved ELMo model, task heads included, to read with --reverse"
    )
    parser.add_argument(
        "--overwrite_output_dir",
        action="store_true",
        help="replace what stands under the names to write; without it, that is an error",
    )
    parsed = parser.parse_args(arguments)
    wanted, unwanted = ("model_dir", "output_dir") if parsed.reverse else ("output_dir", "model_dir")
    direction = "with" if parsed.reverse else "without"
    if getattr(parsed, wanted) is None:
        parser.error(f"--{wanted} is missing: it is needed {direction} --reverse")
    if getattr(parsed, unwanted) is not None:
        parser.error(f"--{unwanted} has no meaning {direction} --reverse; did you mean --{wanted}?")
    return parsed


def main(arguments: list[str] | None = None) -> int:
    """Convert as the command line says; 0 when done, 2 with one line on stderr for what the user can put right."""
    parsed = parse_arguments(arguments)
    # Only now, so that --help answers at once.
    from transformers.utils import logging

    from hf_elmo.conversion.bilm_tf import ConversionError, convert_bilm_tf, export_bilm_tf

    # transformers' report of weights it found no use for is no news here: a task's layers stay behind.
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    files = (parsed.options_file, parsed.weight_file)
    try:
        if parsed.reverse:
            model = export_bilm_tf(parsed.model_dir, *files, overwrite=parsed.overwrite_output_dir)
        else:
            model = convert_bilm_tf(*files, parsed.output_dir, overwrite=parsed.overwrite_output_dir)
    except (ConversionError, OSError, ImportError) as error:
        print("convert_checkpoint.py: error:", " ".join(str(error).split()), file=sys.stderr)
        return 2
    if parsed.reverse:
        print(f"Wrote the token encoder and the biLM of {parsed.model_dir} to")
        print(f"    {parsed.options_file}")
        print(f"    {parsed.weight_file}")
        print("The format has no place for scalar mixes, a word softmax or a task's layers: they stay behind.")
    else:
        print(f"Wrote a model of {model.num_parameters():,} parameters and its tokenizer to {parsed.output_dir}")
        print("Load them with (after `import hf_elmo` and `from transformers import AutoModel, AutoTokenizer`):")
        print(f"    model = AutoModel.from_pretrained({parsed.output_dir!r})")
        print(f"    tokenizer = AutoTokenizer.from_pretrained({parsed.output_dir!r})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
