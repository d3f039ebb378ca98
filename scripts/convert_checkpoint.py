"""Convert an ELMo checkpoint of another program into a directory that AutoModel loads, or back (--reverse)."""

from __future__ import annotations

import argparse

EXAMPLES = """
examples:
  %(prog)s --options_file options.json --weight_file weights.hdf5 --output_dir elmo-original
  %(prog)s --options_file options.json --weight_file weights.hdf5 --softmax_file softmax_weights.hdf5 \\
      --vocab_file vocab.txt --output_dir elmo-original
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
    parser.add_argument(
        "--softmax_file",
        help="hdf5 of the word softmax (softmax/W and softmax/b), for scoring text and for training on: read, or "
        "written with --reverse",
    )
    parser.add_argument(
        "--vocab_file", help="words of that softmax, one a line: read, or written with --reverse; goes with it"
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
    for name, other in (("softmax_file", "vocab_file"), ("vocab_file", "softmax_file")):
        if getattr(parsed, name) is not None and getattr(parsed, other) is None:
            parser.error(f"--{other} is missing: it is needed with --{name}")
    return parsed


def main(arguments: list[str] | None = None) -> None:
    """Convert as the command line says; exit code 2 with one line on stderr for what the user can put right."""
    parsed = parse_arguments(arguments)
    # Only now, so that --help answers at once.
    from hf_elmo.commands.command_line import quiet_libraries, readable_errors
    from hf_elmo.conversion.bilm_tf import convert_bilm_tf
    from hf_elmo.conversion.bilm_tf_export import export_bilm_tf

    # Among others, transformers' report of weights it found no use for is no news here: a task's layers stay behind.
    quiet_libraries()
    files = (parsed.options_file, parsed.weight_file)
    options = {
        "overwrite": parsed.overwrite_output_dir,
        "softmax_file": parsed.softmax_file,
        "vocab_file": parsed.vocab_file,
    }
    with readable_errors():
        if parsed.reverse:
            model = export_bilm_tf(parsed.model_dir, *files, **options)
        else:
            model = convert_bilm_tf(*files, parsed.output_dir, **options)
    if parsed.reverse:
        written = [file for file in (*files, parsed.softmax_file, parsed.vocab_file) if file is not None]
        what = "the token encoder and the biLM" if parsed.softmax_file is None else "the biLM and its word softmax"
        print(f"Wrote {what} of {parsed.model_dir} to")
        print("".join(f"    {file}\n" for file in written), end="")
        print("The format has no place for scalar mixes or a task's layers: they stay behind.")
        if parsed.softmax_file is None:
            print("So does a word softmax, unless --softmax_file and --vocab_file name files for it.")
    else:
        print(f"Wrote a model of {model.num_parameters():,} parameters and its tokenizer to {parsed.output_dir}")
        print("Load them with (after `import hf_elmo` and `from transformers import AutoModel, AutoTokenizer`):")
        print(f"    model = AutoModel.from_pretrained({parsed.output_dir!r})")
        print(f"    tokenizer = AutoTokenizer.from_pretrained({parsed.output_dir!r})")
        if parsed.softmax_file is not None:
            print(f"Its word softmax is over {model.config.word_vocab_size:,} words; score text with")
            print(f"    scripts/score.py --model_name_or_path {parsed.output_dir}")


if __name__ == "__main__":
    main()
