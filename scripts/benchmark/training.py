"""Training: a step of the biLM by our backends and by peers, and the pre-training loop beside its forward and backward.

python scripts/benchmark/training.py --text_file corpus.txt --threads 2
python scripts/benchmark/training.py --text_file corpus.txt --threads 2 --other_checkout ../before

training.json has the figures and training.md the table. With --other_checkout only our own code runs, of both packages
in turn, and the files are training-compared.json and .md. --allennlp is as in inference.py.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

# `python scripts/benchmark/training.py` puts this folder on the path; the one above makes it the package `benchmark`.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch import Tensor, nn

from benchmark import models, report, timing
from benchmark.peers import AllenNLPModel, TorchBiLM
from hf_elmo import ElmoModel

BILM_STEP, LOOP = "training step of the biLM", "pre-training loop"
AUTOCAST, ALLENNLP, NN_LSTM = "bf16 autocast", "AllenNLP", "nn.LSTM, unclipped"
STEP, FORWARD_BACKWARD = "step", "forward + backward"
# Lanes and words of the biLM's step, special tokens included; there is no padding.
LANES, WORDS = 32, 20


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", choices=models.SIZES, default=["small", "original"], help="of the biLM")
    parser.add_argument("--loop_sizes", nargs="*", choices=models.SIZES, default=["small"], help="of the loop's models")
    parser.add_argument("--objectives", nargs="+", default=["sampled"], help="of the loop: full, sampled, adaptive")
    parser.add_argument("--num_negative_samples", type=int, default=4096, help="of the sampled softmax")
    parser.add_argument("--max_vocab_size", type=int, default=40_000, help="most words of the softmax")
    parser.add_argument("--num_lanes", type=int, default=128, help="lanes of the loop, of windows of 20 words")
    parser.add_argument("--steps", type=int, default=12, help="steps of the loop in each process")
    timing.add_arguments(parser)
    return parser.parse_args(argv)


def measure(arguments: argparse.Namespace) -> list[timing.Cell]:
    """Check and time everything in this process, with the package that it imports."""
    sentences = models.read_sentences(arguments.text_file, arguments.seed)
    backends, cells = models.find_backends(), []
    for size in arguments.sizes:
        model = models.build_model(size, arguments.seed, arguments.device)
        cells.append({"size": size, "batch_size": LANES, **time_bilm_step(model, sentences, backends, arguments)})
        print(f"timed {BILM_STEP}, {size}", file=sys.stderr, flush=True)
    for size in arguments.loop_sizes:
        for objective in arguments.objectives:
            for bf16 in (False, True):
                cells.append(time_loop(size, objective, bf16, sentences, arguments))
                print(f"timed {cells[-1]['case']}, {size}", file=sys.stderr, flush=True)
    return cells


def time_bilm_step(
    model: ElmoModel, sentences: list[list[str]], backends: Mapping[str, str], arguments: argparse.Namespace
) -> timing.Cell:
    """Forward and backward over full lanes, to the token vectors and all weights of the biLM."""
    long = [words[: WORDS - 2] for words in sentences if len(words) >= WORDS - 2]
    batch = (long * (LANES // max(len(long), 1) + 1))[:LANES]
    if not batch:
        raise SystemExit(f"--text_file has no sentence of {WORDS - 2} words or more; name other text.")
    inputs = models.encode(batch, arguments.device)
    model.freeze_bilm(False)
    model.train()
    positional, keywords = models.bilm_arguments(model, inputs)
    # The directions read one tensor, of which there is one gradient.
    leaves = {id(tensor): tensor.detach().requires_grad_() for tensor in models.tensors_in([positional, keywords])}
    positional = [leaves.get(id(value), value) for value in positional]
    keywords = {name: leaves.get(id(value), value) for name, value in keywords.items()}
    step = partial(_step, partial(model.bilm, *positional, **keywords), [*leaves.values(), *model.bilm.parameters()])
    functions = {name: models.with_backend(own, step) for name, own in backends.items()}
    expected, deviations = models.flatten(functions[models.REFERENCE]()), {}
    for name in functions:
        if name != models.REFERENCE:
            deviations[name] = models.check(name, models.flatten(functions[name]()), expected)
    functions[AUTOCAST] = partial(_under_autocast, arguments.device, step)
    deviations[AUTOCAST] = models.check(
        AUTOCAST, models.flatten(functions[AUTOCAST]()), expected, models.BFLOAT16_BOUND
    )
    if arguments.worker == "all":
        functions |= _peers(model, inputs, arguments)
    functions |= models.probes(model.config, arguments.device)
    seconds = timing.time_interleaved(functions, arguments.seconds_per_case, models.synchronizer(arguments.device))
    mask = inputs["attention_mask"].bool()
    # The backward pass has two products for each one of the forward pass.
    floor = 3 * models.floor_seconds(seconds, model.config, models.rows_per_step(mask))
    return {
        "case": BILM_STEP,
        "words": int(mask.sum()),
        "seconds": {**seconds, models.FLOOR: [floor]},
        "deviations": deviations,
    }


def _step(forward: Callable[[], Any], weights: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return torch.autograd.grad(sum(tensor.float().sum() for tensor in models.tensors_in(forward())), weights)


def _under_autocast(device: str, step: Callable[[], Any]) -> Any:
    with torch.autocast(device, torch.bfloat16):
        return step()


def _peers(model: ElmoModel, inputs: dict[str, Tensor], arguments: argparse.Namespace) -> dict[str, Callable[[], Any]]:
    """Steps of the peers, whose outputs have been compared; the gradients are those of their top layer's sum."""
    layers = [layer.detach() for layer in model(**inputs, output_hidden_states=True).hidden_states]
    vectors = layers[0][..., : model.config.projection_size].contiguous().requires_grad_()
    mask, functions = inputs["attention_mask"].bool(), {}
    torch_bilm = TorchBiLM(model)
    runs = {NN_LSTM: (torch_bilm, partial(torch_bilm, vectors))}
    if arguments.allennlp:
        allennlp = AllenNLPModel(arguments.allennlp, model)
        runs[ALLENNLP] = allennlp.lstm, partial(allennlp.run_bilm, vectors, mask)
    for name, (module, run) in runs.items():
        models.check(name, run().detach(), layers[-1])
        weights = [vectors, *(weight for weight in module.parameters() if weight.requires_grad)]
        functions[name] = partial(_step, run, weights)
    return functions


class TimedAccelerator(Accelerator):
    """Notes how long each optimizer step takes, and how much of that its forward and backward passes take."""

    def __init__(self, **settings: Any):
        super().__init__(**settings)
        self.step_seconds: list[float] = []
        self.model_seconds: list[float] = []
        self._in_model, self._last_step = 0.0, 0.0
        self._synchronize = models.synchronizer(self.device.type)

    def prepare(self, *objects: Any, **settings: Any) -> Any:
        for each in objects:
            if isinstance(each, nn.Module):
                each.register_forward_pre_hook(lambda module, _: self._add(module, -1))
                each.register_forward_hook(lambda module, *_: self._add(module, 1))
            elif isinstance(each, torch.optim.Optimizer):
                each.register_step_post_hook(lambda *_: self._end_step())
        return super().prepare(*objects, **settings)

    def backward(self, loss: Tensor, **settings: Any) -> None:
        self._in_model -= self._now()
        super().backward(loss, **settings)
        self._in_model += self._now()

    def _add(self, module: nn.Module, sign: int) -> None:
        # Evaluation is no part of a step.
        if module.training:
            self._in_model += sign * self._now()

    def _end_step(self) -> None:
        now = self._now()
        # The first step has the first page faults in it, and no beginning.
        if self._last_step:
            self.step_seconds.append(now - self._last_step)
            self.model_seconds.append(self._in_model)
        self._last_step, self._in_model = now, 0.0

    def _now(self) -> float:
        self._synchronize()
        return time.perf_counter()


def time_loop(
    size: str, objective: str, bf16: bool, sentences: list[list[str]], arguments: argparse.Namespace
) -> timing.Cell:
    """The real loop, `run_pretraining`: its steps, and their forward and backward passes alone."""
    from hf_elmo.pretraining.arguments import PretrainingArguments
    from hf_elmo.pretraining.run import run_pretraining
    from hf_elmo.text.vocabulary import WordVocabulary

    with tempfile.TemporaryDirectory() as directory, _quiet():
        train_file, held_out_file = Path(directory, "train.txt"), Path(directory, "heldout.txt")
        lines = [" ".join(words) for words in sentences]
        train_file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        counts = Counter(word for words in sentences for word in words)
        vocabulary = WordVocabulary.from_counts(counts, arguments.max_vocab_size).save(directory)
        # Scored before and after the steps.
        held_out_file.write_text("\n".join(lines[:2]) + "\n", encoding="utf-8")
        # The precision of a process is set once, unless it is forgotten.
        AcceleratorState._reset_state(reset_partial_state=True)
        accelerator = TimedAccelerator(cpu=arguments.device == "cpu", mixed_precision="bf16" if bf16 else None)
        results = run_pretraining(
            PretrainingArguments(
                output_dir=str(Path(directory, "run")),
                train_file=[str(train_file)],
                validation_file=[str(held_out_file)],
                preset="small" if size == "tiny" else size,
                config_overrides=json.dumps(models.TINY if size == "tiny" else {}),
                objective=objective,
                num_negative_samples=arguments.num_negative_samples,
                vocab_file=str(vocabulary),
                per_device_train_batch_size=arguments.num_lanes,
                max_steps=arguments.steps,
                eval_steps=arguments.steps,
                save_steps=arguments.steps,
                bf16=bf16,
                skip_baselines=True,
                seed=arguments.seed,
            ),
            accelerator,
            report=lambda line: None,
        )
    return {
        "case": f"{LOOP}, {objective} softmax{', bf16' if bf16 else ''}",
        "size": size,
        "batch_size": arguments.num_lanes,
        "words": results["words_trained"] / arguments.steps,
        "seconds": {STEP: accelerator.step_seconds, FORWARD_BACKWARD: accelerator.model_seconds},
    }


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave standard output to the result of the worker."""
    stdout, sys.stdout = sys.stdout, sys.stderr
    try:
        yield
    finally:
        sys.stdout = stdout


if __name__ == "__main__":
    report.main(__file__, parse_arguments, measure, "training")
