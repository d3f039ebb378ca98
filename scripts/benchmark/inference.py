"""Words to vectors: our backends and AllenNLP's own code, or this commit and another one.

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
from benchmark.peers import AllenNLPModel
from hf_elmo import ElmoModel

WORDS_TO_VECTORS, BILM = "words to vectors", "biLM alone"


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch_sizes", nargs="+", type=int, default=[32, 1], help="sentences of a batch")
    timing.add_arguments(parser)
    return parser.parse_args(argv)


def measure(arguments: argparse.Namespace) -> list[timing.Cell]:
    """Check and time everything in this process, with the package that it imports."""
    sentences, backends, cells = models.read_sentences(arguments.text_file), models.find_backends(arguments.device), []
    for size in arguments.sizes:
        model = models.build_model(size, arguments.device)
        allennlp = arguments.allennlp and AllenNLPModel(arguments.allennlp, model)
        for batch_size in arguments.batch_sizes:
            batch = models.pick_batch(sentences, batch_size)
            inputs = models.encode(batch, arguments.device)
            distinct_words = len({word for words in batch for word in words}) + 2
            for case, functions, words in (
                (WORDS_TO_VECTORS, whole_models(model, batch, inputs, backends, allennlp), distinct_words),
                (BILM, bilms(model, inputs, backends), 0),
            ):
                cell = _time(functions, model, inputs["attention_mask"].bool(), words, arguments)
                cells.append({"case": case, "size": size, "batch_size": batch_size, **cell})
                print(f"timed {case}, {size}, {batch_size}", file=sys.stderr, flush=True)
    return cells


def whole_models(
    model: ElmoModel,
    batch: list[list[str]],
    inputs: Mapping[str, Tensor],
    backends: Sequence[str],
    allennlp: AllenNLPModel | None,
) -> dict[str, Callable[[], Tensor]]:
    """From character ids to mixed vectors, those of the special tokens too."""
    functions = {name: models.with_backend(name, _mix, model, inputs) for name in backends}
    functions[models.BFLOAT16] = partial(_mix, copy.deepcopy(model).to(torch.bfloat16), inputs)
    functions[models.AUTOCAST] = partial(models.under_autocast, model.device.type, _mix, model, inputs)
    if allennlp is not None:
        # It puts the special tokens around a sentence itself.
        bare = models.encode(batch, model.device.type, add_special_tokens=False)["input_ids"]
        functions[models.ALLENNLP] = torch.inference_mode()(partial(allennlp.mix, bare))
    return functions


def bilms(model: ElmoModel, inputs: Mapping[str, Tensor], backends: Sequence[str]) -> dict[str, Callable[[], Tensor]]:
    """The top layer, (B, T, 2P), over the token vectors that the model hands to its biLM."""
    vectors, mask = models.encode_words(model, inputs), inputs["attention_mask"].bool()

    @torch.inference_mode()
    def run() -> Tensor:
        outputs, _ = model.bilm(vectors, vectors, mask)
        return torch.cat(outputs[-1], dim=-1)

    return {name: models.with_backend(name, run) for name in backends}


def _time(
    functions: dict[str, Callable[[], Any]],
    model: ElmoModel,
    mask: Tensor,
    distinct_words: int,
    arguments: argparse.Namespace,
) -> timing.Cell:
    """Compare the results with the reference, then time the functions and the floor's parts in the same rounds."""
    results = {name: function()[mask].float() for name, function in functions.items()}
    expected = results.pop(models.REFERENCE)
    deviations = {name: models.check(name, found, expected) for name, found in results.items()}
    functions = {**functions, **models.probes(model.config, arguments.device)}
    seconds = timing.time_interleaved(functions, arguments.seconds_per_case, models.synchronizer(arguments.device))
    floor = models.floor_seconds(seconds, model.config, models.rows_per_step(mask), distinct_words)
    seconds[models.FLOOR] = [floor]
    return {"words": int(mask.sum()), "seconds": seconds, "deviations": deviations}


@torch.inference_mode()
def _mix(model: ElmoModel, inputs: Mapping[str, Tensor]) -> Tensor:
    return model(**inputs).last_hidden_state


if __name__ == "__main__":
    report.main(__file__, parse_arguments, measure, "benchmark")
