"""For some words, print the nearest uses by the contextual vector beside the nearest words by the static one."""

import argparse
from pathlib import Path

from transformers import AutoModel, AutoTokenizer

import hf_elmo  # noqa: F401 - registers the classes
from hf_elmo.commands.command_line import quiet_libraries, readable_errors
from hf_elmo.inference.neighbours import UseIndex, describe_neighbours


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="a checkpoint")
    parser.add_argument("--text_file", required=True, help="text with the uses, one sentence a line")
    parser.add_argument("--words", nargs="+", required=True, help="the words to show")
    arguments = parser.parse_args()
    quiet_libraries()
    with readable_errors():
        sentences = Path(arguments.text_file).read_text(encoding="utf-8").splitlines()
        model = AutoModel.from_pretrained(arguments.model)
        tokenizer = AutoTokenizer.from_pretrained(arguments.model)
        print(describe_neighbours(UseIndex(model, tokenizer, sentences), arguments.words))


if __name__ == "__main__":
    main()
