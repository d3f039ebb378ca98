"""Training: a step of the biLM by our backends and by AllenNLP's, and the pre-training loop beside its own passes.

python scripts/benchmark/training.py --text_file corpus.txt --threads 2
python scripts/benchmark/training.py --text_file corpus.txt --threads 2 --other_checkout ../before

training.json has the figures and training.md the table. With --other_checkout only our own code runs, of both packages
in turn, and the files are training-compared.json and .md. --allennlp is as in inference.py.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
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
from benchmark.peers import AllenNLPModel
from hf_elmo import ElmoModel

BILM_STEP, LOOP = "training step of the biLM", "pre-training loop"
STEP, FORWARD_BACKWARD = "step", "forward + backward"
# Lanes and words of the biLM's step, special tokens included; there is no padding.
LANES, WORDS = 32, 20
# Most words of the loop's softmax, and how many of them a step draws.
VOCABULARY, NEGATIVES = 40_000, 4096


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loop_sizes", nargs="*", choices=models.SIZES, default=["small"], help="of the loop's models")
    parser.add_argument("--num_lanes", type=int, default=128, help="lanes of the loop, of windows of 20 words")
    parser.add_argument("--steps", type=int, default=12, help="steps of the loop in each process")
    timing.add_arguments(parser)
    return parser.parse_args(argv)


def measure(arguments: argparse.Namespace) -> list[timing.Cell]:
    """Check and time everything in this process, with the package that it imports."""
    sentences, cells = models.read_sentences(arguments.text_file), []
    for size in arguments.sizes:
        model = models.build_model(size, arguments.device)
        cells.append({"size": size, "batch_size": LANES, **time_bilm_step(model, sentences, arguments)})
        print(f"timed {BILM_STEP}, {size}", file=sys.stderr, flush=True)
    for size in arguments.loop_sizes:
        for bf16 in (False, True):
            cells.append(time_loop(size, bf16, sentences, arguments))
            print(f"timed {cells[-1]['case']}, {size}", file=sys.stderr, flush=True)
    return cells


def time_bilm_step(model: ElmoModel, sentences: list[list[str]], arguments: argparse.Namespace) -> timing.Cell:
    """Forward and backward over full lanes, to the token vectors and all weights of the biLM."""
    long = [words[: WORDS - 2] for words in sentences if len(words) >= WORDS - 2]
    inputs = models.encode(models.pick_batch(long, LANES), arguments.device)
    vectors, mask = models.encode_words(model, inputs).requires_grad_(), inputs["attention_mask"].bool()
    model.freeze_bilm(False)
    step = partial(_step, partial(model.bilm, vectors, vectors, mask), [vectors, *model.bilm.parameters()])
    # On a GPU "auto" replays the steps of full lanes as graphs.
    backends = [*models.find_backends(arguments.device), *(["auto"] if arguments.device != "cpu" else [])]
    functions = {name: models.with_backend(name, step) for name in backends}
    functions[models.AUTOCAST] = partial(models.under_autocast, arguments.device, step)
    gradients = {name: models.flatten(function()) for name, function in functions.items()}
    expected = gradients.pop(models.REFERENCE)
    deviations = {name: models.check(name, found, expected) for name, found in gradients.items()}
    if arguments.allennlp:
        peer = AllenNLPModel(arguments.allennlp, model)
        run, weights = partial(peer.run_bilm, vectors, mask), [w for w in peer.lstm.parameters() if w.requires_grad]
        with torch.no_grad():
            models.check(models.ALLENNLP, run(), torch.cat(model.bilm(vectors, vectors, mask)[0][-1], dim=-1))
        functions[models.ALLENNLP] = partial(_step, run, [vectors, *weights])
    functions |= models.probes(model.config, arguments.device)
    seconds = timing.time_interleaved(functions, arguments.seconds_per_case, models.synchronizer(arguments.device))
    # The backward pass has two products for each one of the forward pass.
    seconds[models.FLOOR] = [3 * models.floor_seconds(seconds, model.config, models.rows_per_step(mask))]
    return {"case": BILM_STEP, "words": int(mask.sum()), "seconds": seconds, "deviations": deviations}


def _step(forward: Callable[[], Any], weights: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return torch.autograd.grad(sum(tensor.float().sum() for tensor in models.tensors_in(forward())), weights)


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
        # The last of several ends a step.
        *_, last = (each for each in objects if isinstance(each, torch.optim.Optimizer))
        last.register_step_post_hook(lambda *_: self._end_step())
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


def time_loop(size: str, bf16: bool, sentences: list[list[str]], arguments: argparse.Namespace) -> timing.Cell:
    """The real loop, `run_pretraining`: its steps, and their forward and backward passes alone."""
    from hf_elmo.pretraining.arguments import PretrainingArguments
    from hf_elmo.pretraining.run import run_pretraining
    from hf_elmo.text.vocabulary import WordVocabulary

    class Arguments(PretrainingArguments):
        # An entry of the history runs a window twice more: of a long run one step in fifty, of so few every one.
        logging_steps = property(lambda self: self.max_steps)

    # Standard output is for the result of the worker.
    with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(sys.stderr):
        train_file, held_out_file = Path(directory, "train.txt"), Path(directory, "heldout.txt")
        lines = [" ".join(words) for words in sentences]
        train_file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        # Scored before and after the steps.
        held_out_file.write_text("\n".join(lines[:2]) + "\n", encoding="utf-8")
        counts = Counter(word for words in sentences for word in words)
        vocabulary = WordVocabulary.from_counts(counts, VOCABULARY).save(directory)
        # The precision of a process is set once, unless it is forgotten.
        AcceleratorState._reset_state(reset_partial_state=True)
        accelerator = TimedAccelerator(cpu=arguments.device == "cpu", mixed_precision="bf16" if bf16 else None)
        results = run_pretraining(
            Arguments(
                output_dir=str(Path(directory, "run")),
                train_file=[str(train_file)],
                validation_file=[str(held_out_file)],
                preset="small" if size == "tiny" else size,
                config_overrides=json.dumps(models.TINY if size == "tiny" else {}),
                objective="sampled",
                num_negative_samples=NEGATIVES,
                vocab_file=str(vocabulary),
                per_device_train_batch_size=arguments.num_lanes,
                max_steps=arguments.steps,
                eval_steps=arguments.steps,
                save_steps=arguments.steps,
                bf16=bf16,
                skip_baselines=True,
                seed=0,
            ),
            accelerator,
            report=lambda line: None,
        )
    return {
        "case": f"{LOOP}, sampled softmax{', bf16' if bf16 else ''}",
        "size": size,
        "batch_size": arguments.num_lanes,
        "words": results["words_trained"] / arguments.steps,
        "seconds": {STEP: accelerator.step_seconds, FORWARD_BACKWARD: accelerator.model_seconds},
    }


if __name__ == "__main__":
    report.main(__file__, parse_arguments, measure, "training")
