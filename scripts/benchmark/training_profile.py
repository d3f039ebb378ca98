"""Where a training step's time goes, part by part and beside its matrix products alone, and how fast a plain one is."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from hf_elmo.checkpoints.provenance import describe_run
from hf_elmo.given.flags import check_least, flag, read_json_object
from hf_elmo.model.configuration_elmo import ElmoConfig
from hf_elmo.model.modeling_elmo import ElmoForPreTraining, ElmoState
from hf_elmo.model.tokenization_elmo import ElmoCharTokenizer
from hf_elmo.pretraining.lanes import LaneFiller, LaneWindow
from hf_elmo.pretraining.objectives import SampledSoftmaxObjective
from hf_elmo.pretraining.optimizers import build_optimizer
from hf_elmo.pretraining.starting_model import with_softmax
from hf_elmo.text.vocabulary import WordVocabulary, count_words

from .plain_trainer import PlainTrainer
from .report import render_training_profile, write_report
from .sizes import SIZES
from .step_products import bilm_products, encoder_products, run_alone, softmax_products
from .timing import Seconds, median_ratio, summarize, time_interleaved
from .training_text import name_text, open_text, windows_without_end

RESULTS_FILE, REPORT_FILE = "training_profile.json", "training_profile.md"
STEP, PLAIN_DISTINCT, PLAIN = "step", "plain step, distinct words encoded once", "plain step"
ENCODER, BILM, SOFTMAX = "token encoder", "biLM", "softmax"
OPTIMIZER, DATA = "clipping and optimizer", "windows from text"
GIVEN = "given"
# Least share of a step's time that its products take alone, and least speed beside a plain step.
PRODUCTS_SHARE, TIMES_PLAIN = 0.6, 2.0


@dataclass
class TrainingProfileSettings:
    """What to measure; the flags of scripts/benchmark --part training_profile."""

    sizes: list[str] = flag("Models: tiny, small, medium, original.", default_factory=lambda: ["small"])
    config_overrides: str | None = flag(
        "JSON of fields of the small model to change; the sizes so given are measured too.", default=None
    )
    text_file: str | None = flag("Text, a sentence per line; generated if left out.", default=None)
    num_words: int = flag("Words of the generated text.", default=500_000)
    max_vocab_size: int = flag("Most words of the softmax.", default=40_000)
    num_negative_samples: int = flag("Words that the sampled softmax draws.", default=4096)
    num_lanes: int = flag("Lanes.", default=128)
    unroll_steps: int = flag("Words of a window.", default=20)
    steps: int = flag("Windows of a round.", default=3)
    bf16: bool = flag("Train in bf16 by autocast, ours and the plain ones.", default=False)
    rounds: int | None = flag("Rounds; left out, as many as fit into seconds_per_case, from 5 to 100.", default=None)
    seconds_per_case: float = flag("Seconds that the rounds of a case are to take.", default=120.0)
    threads: int | None = flag("Of torch.", default=None)
    output_dir: str = flag("For training_profile.json and training_profile.md.", default="output/benchmark")
    seed: int = flag("Of weights, draws and generated text.", default=0)

    def check(self) -> None:
        """Check what can be checked before anything is built.

        Raises: ValueError naming the argument, the value got and the value wanted.
        """
        for size in self.sizes:
            if size not in SIZES:
                raise ValueError(f"--sizes holds {size!r}; wanted one of {', '.join(SIZES)}.")
        names = ("num_words", "num_negative_samples", "num_lanes", "unroll_steps", "steps", "rounds", "threads")
        check_least(self, names, 1)
        self.configs()

    def configs(self) -> dict[str, ElmoConfig]:
        """The config of each case.

        Raises: ValueError where --config_overrides is no JSON object or no config has such fields.
        """
        configs = {size: SIZES[size]() for size in self.sizes}
        overrides = read_json_object("config_overrides", self.config_overrides, '{"cell_size": 512}')
        if overrides:
            configs[GIVEN] = ElmoConfig.small(**overrides)
        return configs


def run_training_profile(settings: TrainingProfileSettings) -> dict[str, Any]:
    """Time steps and their parts, print the report and write it.

    Returns: What stands in training_profile.json.
    Raises: ValueError or OSError for arguments that cannot be.
    """
    settings.check()
    # Before minutes in which somebody may commit.
    run = describe_run()
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
        run["machine"]["threads"] = settings.threads
    tokenizer, corpus = ElmoCharTokenizer(), open_text(settings)
    counts, _ = count_words(corpus.sentences(tokenizer.tokenize))
    vocabulary = WordVocabulary.from_counts(counts, settings.max_vocab_size)
    cases = []
    for name, config in settings.configs().items():
        print(f"timing training steps, {name} ...", flush=True)
        filler = LaneFiller(tokenizer, vocabulary, settings.num_lanes, settings.unroll_steps)
        step = TrainingStep(settings, config, windows_without_end(filler, corpus), len(vocabulary))
        seconds = time_interleaved(step.functions(), settings.rounds, settings.seconds_per_case)
        cases.append({"size": name, **step.sizes(), **_describe(seconds, step.num_targets)})
    results = {
        **run,
        "text": name_text(settings),
        "vocabulary_size": len(vocabulary),
        "settings": {key: value for key, value in asdict(settings).items() if key not in ("text_file", "output_dir")},
        "cases": cases,
    }
    write_report(settings.output_dir, RESULTS_FILE, results, REPORT_FILE, render_training_profile(results))
    return results


class TrainingStep:
    """Steps over some windows, ours and plain ones, and what ours are made of.

    Each part is run on what it gets in a step, forward and backward.

    Args:
        settings: Lanes, words, negatives and dtype.
        config: Sizes of the model.
        windows: Windows without end, of which the first ones are kept.
        vocab_size: Words of the softmax.
    """

    def __init__(
        self, settings: TrainingProfileSettings, config: ElmoConfig, windows: Iterator[LaneWindow], vocab_size: int
    ):
        torch.manual_seed(settings.seed)
        self.settings = settings
        self.windows, self.more_windows = list(itertools.islice(windows, settings.steps)), windows
        model = ElmoForPreTraining(with_softmax(config, vocab_size, "sampled"))
        self.config = model.config
        negatives, seed = settings.num_negative_samples, settings.seed
        # Before ours is trained: it has other weights then.
        self.plain = {
            PLAIN_DISTINCT: PlainTrainer(model, negatives, seed, encodes_distinct=True).train(),
            PLAIN: PlainTrainer(model, negatives, seed).train(),
        }
        self.objective = SampledSoftmaxObjective(model, negatives, seed).train()
        self.num_targets = sum(window.num_targets for window in self.windows)

    def functions(self) -> dict[str, Callable[[], None]]:
        """By name; each works through all windows."""
        objective, parts = self.objective, [self._prepare(window) for window in self.windows]
        functions: dict[str, Callable[[], None]] = {
            STEP: partial(self._train, objective, self._our_loss, build_step(objective)),
            **{
                name: partial(self._train, trainer, trainer, build_step(trainer))
                for name, trainer in self.plain.items()
            },
            ENCODER: partial(self._run_parts, self._run_encoder, parts),
            BILM: partial(self._run_parts, self._run_bilm, parts),
            SOFTMAX: partial(self._run_parts, self._run_softmax, parts),
            OPTIMIZER: self._build_optimizer_steps(),
            DATA: self._make_windows,
        }
        return functions | {products_of(part): run for part, run in self._products().items()}

    def sizes(self) -> dict[str, Any]:
        """What the report says of the sizes."""
        config = self.config
        return {
            "projection_size": config.projection_size,
            "cell_size": config.cell_size,
            "filters": sum(count for _, count in config.filters),
            "num_highway_layers": config.num_highway_layers,
            "distinct_words": sum(len(window.rows) for window in self.windows) / len(self.windows),
        }

    def _products(self) -> dict[str, Callable[[], None]]:
        settings, products = self.settings, {ENCODER: [], BILM: [], SOFTMAX: []}
        for window in self.windows:
            products[ENCODER] += encoder_products(self.config, len(window.rows))
            products[BILM] += bilm_products(self.config, settings.num_lanes, settings.unroll_steps)
            products[SOFTMAX] += softmax_products(self.config, window.num_targets, settings.num_negative_samples)
        dtype = torch.bfloat16 if settings.bf16 else torch.float32
        return {part: run_alone(found, dtype) for part, found in products.items()}

    def _autocast(self) -> torch.autocast:
        return torch.autocast("cpu", torch.bfloat16, enabled=self.settings.bf16)

    def _train(
        self, module: nn.Module, loss_of: Callable[[LaneWindow, Any], tuple[Tensor, Any]], step: Callable[[], None]
    ) -> None:
        state = None
        for window in self.windows:
            with self._autocast():
                loss, state = loss_of(window, state)
            loss.backward()
            step()
            module.zero_grad()

    def _our_loss(self, window: LaneWindow, state: ElmoState | None) -> tuple[Tensor, ElmoState]:
        loss = self.objective(window, state)
        return loss.mean, loss.state.detach()

    @torch.no_grad()
    def _prepare(self, window: LaneWindow) -> _StepParts:
        """What each part of our step gets, in the dtypes in which it does."""
        with self._autocast():
            vectors = self.objective.model.elmo.token_encoder(window.rows)
            _, state = self.objective.run_lstms(vectors, window)
            directions, _ = self.objective.run_lstms(vectors, window, state)
        return _StepParts(window, vectors, state, [direction.hidden for direction in directions], directions)

    def _run_parts(self, run: Callable[[_StepParts], None], parts: list[_StepParts]) -> None:
        for part in parts:
            run(part)
            self.objective.zero_grad()

    def _run_encoder(self, part: _StepParts) -> None:
        with self._autocast():
            vectors = self.objective.model.elmo.token_encoder(part.window.rows)
        vectors.backward(part.vectors)

    def _run_bilm(self, part: _StepParts) -> None:
        vectors = part.vectors.detach().requires_grad_()
        with self._autocast():
            directions, _ = self.objective.run_lstms(vectors, part.window, part.state)
        torch.autograd.backward([direction.hidden for direction in directions], part.hidden)

    def _run_softmax(self, part: _StepParts) -> None:
        directions = tuple(
            direction._replace(hidden=direction.hidden.detach().requires_grad_()) for direction in part.directions
        )
        with self._autocast():
            losses = self.objective.sum_losses(directions)
        sum(losses).backward()

    def _build_optimizer_steps(self) -> Callable[[], None]:
        # On weights of its own: steps without a new gradient would lead ours astray.
        module = ElmoForPreTraining(self.config)
        step = build_step(module)
        for parameter in module.parameters():
            parameter.grad = torch.full_like(parameter, 1e-3) if parameter.requires_grad else None

        def run() -> None:
            for _ in self.windows:
                step()

        return run

    def _make_windows(self) -> None:
        for _ in itertools.islice(self.more_windows, len(self.windows)):
            pass


@dataclass
class _StepParts:
    """What the parts of a step work on; vectors and outputs stand for their own gradients, too."""

    window: LaneWindow
    vectors: Tensor
    state: ElmoState
    hidden: list[Tensor]
    directions: tuple


def build_step(module: nn.Module) -> Callable[[], None]:
    """Clipping and a step of AdamW for all that is trained."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    optimizer = build_optimizer("adamw", [{"params": trained, "lr": 1e-3}])

    def step() -> None:
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()

    return step


def products_of(part: str) -> str:
    """The name under which a part's products alone are timed."""
    return f"products of the {part}"


def _describe(seconds: Seconds, num_targets: int) -> dict[str, Any]:
    """Figures of a case: shares are medians of each round's shares of its step."""
    parts = {
        part: {
            "share": _share(seconds, [part]),
            "products_share": _share(seconds, [products_of(part)]) if products_of(part) in seconds else 0.0,
        }
        for part in (ENCODER, BILM, SOFTMAX, OPTIMIZER, DATA)
    }
    products = _share(seconds, [products_of(part) for part in (ENCODER, BILM, SOFTMAX)])
    times_plain = {name: median_ratio(seconds[name], seconds[STEP]) for name in (PLAIN_DISTINCT, PLAIN)}
    return {
        "words": num_targets,
        "rounds": len(seconds[STEP]),
        "functions": summarize(seconds, num_targets),
        "parts": parts,
        "products_share": {"measured": products, "target": PRODUCTS_SHARE, "reached": products >= PRODUCTS_SHARE},
        "times_plain": {
            name: {"measured": times, "target": TIMES_PLAIN, "reached": times >= TIMES_PLAIN}
            for name, times in times_plain.items()
        },
    }


def _share(seconds: Mapping[str, list[float]], names: list[str]) -> float:
    rounds = zip(*(seconds[name] for name in names), strict=True)
    return median(sum(values) / step for values, step in zip(rounds, seconds[STEP], strict=True))
