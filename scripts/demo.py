"""Pre-train a tiny ELMo on CPython's own help texts, reload it in a new process and look at what it has learned.

python scripts/demo.py
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from pydoc_data.topics import topics

from hf_elmo.cli.command_line import quiet_libraries, readable_errors
from hf_elmo.pretraining.arguments import PretrainingArguments
from hf_elmo.pretraining.run import run_pretraining

AMBIGUOUS_WORDS = ("call", "return", "use", "match", "access")
QUERY, QUERY_WORD = "the return value is used by the caller", "return"
CONFIG = '{"projection_size": 64, "cell_size": 256, "dropout": 0.3, "filters": [[1,16],[2,16],[3,32],[4,64],[5,64]]}'

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"“(]?[A-Z])")
# Grammar, tables, underlines and sessions of the interpreter.
_NOT_PROSE = re.compile(r"::=|^\s*[*=\-~^+|]{3,}|^\s*>>>|^\s*\|", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z]+['\u2019]?[a-z]*[,.;:]?$")


def paragraphs() -> list[list[str]]:
    """The prose of `pydoc`'s help topics: paragraphs as lists of sentences, each paragraph once.

    Topics include one another's text, so that a paragraph comes up to four times; held-out text would not be held out.
    """
    seen: dict[str, None] = {}
    for name in sorted(topics):
        for block in re.split(r"\n\s*\n", topics[name]):
            words = block.split()
            is_sentence = len(words) >= 6 and words[-1].endswith((".", ":", "!", "?"))
            is_prose = is_sentence and sum(bool(_WORD.match(word)) for word in words) > 0.7 * len(words)
            if is_prose and not _NOT_PROSE.search(block):
                seen.setdefault(" ".join(words))
    return [_SENTENCE_END.split(text) for text in seen]


def write_split(directory: Path) -> tuple[Path, Path]:
    """Write the paragraphs as two files with a sentence per line, every tenth paragraph to the second; their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    train_file, held_out_file = directory / "train.txt", directory / "heldout.txt"
    with train_file.open("w", encoding="utf-8") as train, held_out_file.open("w", encoding="utf-8") as held_out:
        for number, sentences in enumerate(paragraphs(), start=1):
            (train if number % 10 else held_out).writelines(f"{sentence}\n" for sentence in sentences)
    return train_file, held_out_file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output_dir", default="output/elmo-tiny-pydoc", help="where the checkpoint is written")
    parser.add_argument("--max_steps", type=int, default=1000, help="optimizer steps")
    arguments = parser.parse_args()
    checkpoint = Path(arguments.output_dir)
    train_file, held_out_file = write_split(checkpoint.parent / "pydoc-text")
    quiet_libraries()
    with readable_errors():
        run_pretraining(
            PretrainingArguments(
                output_dir=str(checkpoint),
                train_file=[str(train_file)],
                validation_file=[str(held_out_file)],
                pre_tokenizer="punctuation",
                config_overrides=CONFIG,
                max_steps=arguments.max_steps,
                per_device_train_batch_size=32,
                learning_rate=5e-3,
                overwrite_output_dir=True,
            )
        )
    print("\nreloaded with AutoModel in a new process:\n", flush=True)
    command = [sys.executable, "-m", "hf_elmo", "neighbors", "--model_name_or_path", str(checkpoint)]
    command += ["--input_file", str(train_file), "--words", *AMBIGUOUS_WORDS]
    subprocess.run([*command, "--sentence", QUERY, "--word", QUERY_WORD], check=True)
    print(f"\nthe checkpoint is {checkpoint}; use it with\n")
    print("    from hf_elmo import ElmoEmbedder")
    print(f'    vectors = ElmoEmbedder("{checkpoint}").embed_sentence("The return value of the call")')


if __name__ == "__main__":
    main()
