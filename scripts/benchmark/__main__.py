"""Compare every implementation's numbers, then its speed: ours by each backend, torch's LSTM and AllenNLP's ELMo.

python scripts/benchmark --output_dir output/benchmark
pip download --no-deps allennlp==2.10.1 -d peer && unzip -q peer/allennlp-2.10.1-py3-none-any.whl -d peer
python scripts/benchmark --output_dir output/benchmark --allennlp peer

Four parts have flags of their own (--part training --help): the training loop beside its model's forward and backward
pass, where the time of a training step goes and how fast a plain one is, the memory that reading a corpus without
end takes, and how fast a corpus becomes files of vectors.

python scripts/benchmark --part training --sizes small --text_file sentences.txt
python scripts/benchmark --part training_profile --text_file sentences.txt --config_overrides '{"cell_size": 2048}'
python scripts/benchmark --part memory --num_words 50000000
python scripts/benchmark --part embedding --text_file sentences.txt --allennlp peer
"""

import argparse
import sys
from pathlib import Path

from transformers import HfArgumentParser

# `python scripts/benchmark` puts this folder on the path; the one above makes it the package `benchmark`.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmark.cases import BACKENDS
from benchmark.embedded_corpus import EmbeddingBenchmarkSettings, run_embedding_benchmark
from benchmark.memory import MemorySettings, run_memory_benchmark
from benchmark.run import HALF_PRODUCTS, BenchmarkSettings, run_benchmark
from benchmark.sizes import SIZES
from benchmark.training_loop import TrainingBenchmarkSettings, run_training_benchmark
from benchmark.training_profile import TrainingProfileSettings, run_training_profile
from hf_elmo.commands.command_line import quiet_libraries, readable_errors

RUNS = {
    BenchmarkSettings: run_benchmark,
    TrainingBenchmarkSettings: run_training_benchmark,
    TrainingProfileSettings: run_training_profile,
    MemorySettings: run_memory_benchmark,
    EmbeddingBenchmarkSettings: run_embedding_benchmark,
}
PARTS = {
    "kernels": BenchmarkSettings,
    "training": TrainingBenchmarkSettings,
    "training_profile": TrainingProfileSettings,
    "memory": MemorySettings,
    "embedding": EmbeddingBenchmarkSettings,
}


def parse_arguments(
    arguments: list[str] | None = None,
) -> (
    BenchmarkSettings
    | TrainingBenchmarkSettings
    | TrainingProfileSettings
    | MemorySettings
    | EmbeddingBenchmarkSettings
):
    chooser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    chooser.add_argument("--part", choices=PARTS, default="kernels", help="what is measured (default: %(default)s)")
    chosen, rest = chooser.parse_known_args(arguments)
    settings_class = PARTS[chosen.part]
    if settings_class is not BenchmarkSettings:
        (settings,) = HfArgumentParser(settings_class, parents=[chooser]).parse_args_into_dataclasses(rest)[:1]
        return settings
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, parents=[chooser]
    )
    default = BenchmarkSettings()
    parser.add_argument(
        "--sizes", nargs="+", choices=list(SIZES), default=default.sizes, help="models (default: small original)"
    )
    parser.add_argument(
        "--batch_sizes", nargs="+", type=int, default=default.batch_sizes, help="sentences of a batch (default: 32 1)"
    )
    parser.add_argument("--rounds", type=int, help="rounds of each case (default: what fits, from 5 to 100)")
    parser.add_argument(
        "--seconds_per_case",
        type=float,
        default=default.seconds_per_case,
        help="into which the rounds are to fit (default: %(default)s)",
    )
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, help="ours (default: all that run here)")
    parser.add_argument("--allennlp", help="folder that holds allennlp/modules/elmo.py, the unzipped wheel")
    parser.add_argument("--text_file", help="text to cut sentences from (default: CPython's own help texts)")
    parser.add_argument("--output_dir", default=default.output_dir, help="for the files (default: %(default)s)")
    parser.add_argument("--device", choices=["cpu", "cuda"], default=default.device, help="default: %(default)s")
    parser.add_argument("--threads", type=int, help="of torch (default: as torch finds best)")
    parser.add_argument("--seed", type=int, default=default.seed, help="of weights and sentences (default: 0)")
    parser.add_argument(
        "--half_products",
        choices=HALF_PRODUCTS,
        default=default.half_products,
        help="how bf16 runs (default: %(default)s)",
    )
    parser.add_argument("--profile", action="store_true", help="write profile.md too: where the time goes")
    flags = vars(parser.parse_args(rest))
    del flags["part"]
    return BenchmarkSettings(**flags)


def main(arguments: list[str] | None = None) -> None:
    settings = parse_arguments(arguments)
    quiet_libraries()
    with readable_errors():
        RUNS[type(settings)](settings)


if __name__ == "__main__":
    main()
