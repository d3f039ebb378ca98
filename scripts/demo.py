"""Pre-train a tiny ELMo on CPython's own help texts, reload it in a new process and look at what it has learned."""

import argparse
import subprocess
import sys
from pathlib import Path

from hf_elmo.commands.command_line import quiet_libraries, readable_errors
from hf_elmo.pretraining.run import PretrainingArguments, run_pretraining
from hf_elmo.text.python_topics import write_split

AMBIGUOUS_WORDS = ("call", "return", "use", "match", "access")
QUERY, QUERY_WORD = "the return value is used by the caller", "return"
CONFIG = '{"projection_size": 64, "cell_size": 256, "dropout": 0.3, "filters": [[1,16],[2,16],[3,32],[4,64],[5,64]]}'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output_dir", default="output/elmo-tiny-pydoc", help="where the checkpoint is written")
    parser.add_argument("--max_steps", type=int, default=1000, help="optimizer steps")
    arguments = parser.parse_args()
    quiet_libraries()
    with readable_errors():
        checkpoint = Path(arguments.output_dir)
        train_file, held_out_file = write_split(checkpoint.parent / "pydoc-text")
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
    neighbours = Path(__file__).with_name("show_neighbours.py")
    command = [sys.executable, str(neighbours), "--model_name_or_path", str(checkpoint)]
    command += ["--input_file", str(train_file), "--words", *AMBIGUOUS_WORDS]
    subprocess.run([*command, "--sentence", QUERY, "--word", QUERY_WORD], check=True)
    print(f"\nthe checkpoint is {checkpoint}; use it with\n")
    print("    import hf_elmo; from transformers import pipeline")
    print(f'    embed = pipeline("feature-extraction", model="{checkpoint}")')
    print('    vectors = embed("The return value of the call")[0]  # one vector per word, markers included')
    print("\nor, for arrays of the words alone, with\n")
    print("    from hf_elmo import ElmoEmbedder")
    print(f'    vectors = ElmoEmbedder("{checkpoint}").embed_sentence("The return value of the call")')


if __name__ == "__main__":
    main()
