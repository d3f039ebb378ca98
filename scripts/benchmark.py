"""Compare every implementation's numbers, then its speed: ours by each backend, torch's LSTM and AllenNLP's ELMo.

python scripts/benchmark.py --output_dir output/benchmark
pip download --no-deps allennlp==2.10.1 -d peer && unzip -q peer/allennlp-2.10.1-py3-none-any.whl -d peer
python scripts/benchmark.py --output_dir output/benchmark --allennlp peer
"""

import argparse

from hf_elmo.benchmark.cases import BACKENDS
from hf_elmo.benchmark.run import BenchmarkSettings, run_benchmark
from hf_elmo.benchmark.sizes import SIZES
from hf_elmo.training.command_line import quiet_libraries, readable_errors


def parse_arguments(arguments: list[str] | None = None) -> BenchmarkSettings:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
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
    parser.add_argument("--profile", action="store_true", help="write profile.md too: where the time goes")
    return BenchmarkSettings(**vars(parser.parse_args(arguments)))


def main(arguments: list[str] | None = None) -> None:
    settings = parse_arguments(arguments)
    quiet_libraries()
    with readable_errors():
        run_benchmark(settings)


if __name__ == "__main__":
    main()
