"""Words to vectors: our backends, AllenNLP's own code and torch's LSTM, or this commit and another one.

python scripts/benchmark/inference.py --text_file sentences.txt --threads 2
python scripts/benchmark/inference.py --text_file sentences.txt --threads 2 --other_checkout ../before

pip download --no-deps allennlp==2.10.1 -d peer && unzip -q peer/allennlp-2.10.1-py3-none-any.whl -d peer
python scripts/benchmark/inference.py --text_file sentences.txt --threads 2 --allennlp peer

Each result is compared with the reference before anything is timed. benchmark.json has the figures and benchmark.md the
table. With --other_checkout only our backends run, of both packages in turn, and the files are compared.json and .md.
"""

from __future__ import annotations

import argparse
import copy
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

# `python scripts/benchmark/inference.py` puts this folder on the path; the one above makes it the package `benchmark`.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from torch import Tensor

from benchmark import models, report, timing
from benchmark.peers import AllenNLPModel, TorchBiLM
from hf_elmo import ElmoModel

WORDS_TO_VECTORS, BILM = "words to vectors", "biLM alone"
BFLOAT16, AUTOCAST, ALLENNLP, NN_LSTM = "bf16", "bf16 autocast", "AllenNLP", "nn.LSTM, unclipped"


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", choices=models.SIZES, default=["small", "original"], help="of the models")
    parser.add_argument("--batch_sizes", nargs="+", type=int, default=[32, 1], help="sentences of a batch")
    timing.add_arguments(parser)
    return parser.parse_args(argv)


def measure(arguments: argparse.Namespace) -> list[timing.Cell]:
    """Check and time everything in this process, with the package that it imports."""
    sentences = models.read_sentences(arguments.text_file, arguments.seed)
    backends, cells = models.find_backends(), []
    for size in arguments.sizes:
        model = models.build_model(size, arguments.seed, arguments.device)
        allennlp, torch_bilm = None, None
        if arguments.worker == "all":
            torch_bilm = TorchBiLM(model)
            allennlp = arguments.allennlp and AllenNLPModel(arguments.allennlp, model)
        for batch_size in arguments.batch_sizes:
            batch = models.pick_batch(sentences, batch_size)
            place = {"size": size, "batch_size": batch_size, "batch": models.describe_batch(batch)}
            for time_case, peer in ((time_words_to_vectors, allennlp), (time_bilm, torch_bilm)):
                cells.append({**place, **time_case(model, batch, backends, peer, arguments)})
                print(f"timed {cells[-1]['case']}, {size}, {batch_size}", file=sys.stderr, flush=True)
    return cells


def time_words_to_vectors(
    model: ElmoModel,
    batch: list[list[str]],
    backends: Mapping[str, str],
    allennlp: AllenNLPModel | None,
    arguments: argparse.Namespace,
) -> timing.Cell:
    """The whole model: character ids to mixed vectors, those of the special tokens too."""
    inputs = models.encode(batch, arguments.device)
    mask = inputs["attention_mask"].bool()
    bfloat16_model = copy.deepcopy(model).to(torch.bfloat16)
    functions = {name: models.with_backend(own, _mix, model, inputs) for name, own in backends.items()}
    functions[BFLOAT16] = partial(_mix, bfloat16_model, inputs)
    functions[AUTOCAST] = partial(_mix_under_autocast, model, inputs, arguments.device)
    if allennlp is not None:
        # It puts the special tokens around a sentence itself.
        bare = models.encode(batch, arguments.device, add_special_tokens=False)["input_ids"]
        functions[ALLENNLP] = partial(_infer, allennlp.mix, bare)
    results = {name: function()[mask].float() for name, function in functions.items()}
    distinct_words = len({word for words in batch for word in words}) + 2
    return _time(WORDS_TO_VECTORS, model, mask, functions, results, arguments, distinct_words)


def time_bilm(
    model: ElmoModel,
    batch: list[list[str]],
    backends: Mapping[str, str],
    torch_bilm: TorchBiLM | None,
    arguments: argparse.Namespace,
) -> timing.Cell:
    """The biLM over the token vectors that the model hands to it; torch's cannot clip, and the clips rest here."""
    inputs = models.encode(batch, arguments.device)
    mask = inputs["attention_mask"].bool()
    positional, keywords = models.bilm_arguments(model, inputs)
    call = partial(model.bilm, *positional, **keywords)
    functions = {name: models.with_backend(own, _infer, call) for name, own in backends.items()}
    results = {name: models.flatten(function()) for name, function in functions.items()}
    if torch_bilm is not None:
        layers = models.with_backend(backends[models.REFERENCE], _layers, model, inputs)()
        vectors = layers[0][..., : model.config.projection_size].contiguous()
        functions[NN_LSTM] = partial(_infer, torch_bilm, vectors, mask)
        models.check(NN_LSTM, functions[NN_LSTM]()[mask], layers[-1][mask])
    return _time(BILM, model, mask, functions, results, arguments)


def _time(
    case: str,
    model: ElmoModel,
    mask: Tensor,
    functions: dict[str, Callable[[], Any]],
    results: dict[str, Tensor],
    arguments: argparse.Namespace,
    distinct_words: int = 0,
) -> timing.Cell:
    """Compare the results with the reference, then time the functions and the floor's parts in the same rounds."""
    bounds = dict.fromkeys((BFLOAT16, AUTOCAST), models.BFLOAT16_BOUND)
    expected = results.pop(models.REFERENCE)
    deviations = {
        name: models.check(name, found, expected, bounds.get(name, models.FLOAT32_BOUND))
        for name, found in results.items()
    }
    functions = {**functions, **models.probes(model.config, arguments.device)}
    seconds = timing.time_interleaved(functions, arguments.seconds_per_case, models.synchronizer(arguments.device))
    floor = models.floor_seconds(seconds, model.config, models.rows_per_step(mask), distinct_words)
    return {
        "case": case,
        "words": int(mask.sum()),
        "seconds": {**seconds, models.FLOOR: [floor]},
        "deviations": deviations,
    }


@torch.inference_mode()
def _infer(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


@torch.inference_mode()
def _mix(model: ElmoModel, inputs: Mapping[str, Tensor]) -> Tensor:
    return model(**inputs).last_hidden_state


def _mix_under_autocast(model: ElmoModel, inputs: Mapping[str, Tensor], device: str) -> Tensor:
    with torch.autocast(device, torch.bfloat16):
        return _mix(model, inputs)


@torch.inference_mode()
def _layers(model: ElmoModel, inputs: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
    return model(**inputs, output_hidden_states=True).hidden_states


if __name__ == "__main__":
    report.main(__file__, parse_arguments, measure, "benchmark")
