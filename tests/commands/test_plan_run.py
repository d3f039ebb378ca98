"""The plan of a run is the run's: same flags, same lanes, words, steps and bytes; the committed document is printed."""

import itertools
import re
from typing import get_args

import fresh_process
import pytest
from accelerate import Accelerator
from conftest import ROOT, make_tiny_config
from refusals import assert_refused
from safetensors import safe_open

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining
from hf_elmo.checkpoints.arguments import Preset
from hf_elmo.commands.plan_run import print_plan
from hf_elmo.pretraining.arguments import PretrainingArguments
from hf_elmo.pretraining.objectives import propose_cutoffs
from hf_elmo.pretraining.plan import TrainingPlan
from hf_elmo.pretraining.plan_arguments import PlanArguments
from hf_elmo.pretraining.plan_report import PAPER_WORDS_PER_SECOND, describe, make_plan, render_plan
from hf_elmo.pretraining.run import run_pretraining
from hf_elmo.pretraining.run_state import read_run_state

DOCUMENT = ROOT / "model_cards" / "scale" / "README.md"
RENDER_AGAIN = "render it again: hf-elmo plan --document > model_cards/scale/README.md"
TINY = '{"character_embedding_size": 4, "filters": [[1, 3], [2, 5]], "projection_size": 16, "cell_size": 10}'


def cells(report):
    """The second cell of each row, by the first one."""
    return dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|", report, flags=re.MULTILINE))


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "train.txt"
    path.write_text("".join(f"the {number % 7} of {number % 11} and {number % 3} .\n" for number in range(120)))
    return path


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"recipe": "paper", "num_negative_samples": 5, "per_device_train_batch_size": 4, "max_vocab_size": 14},
        {"objective": "adaptive", "optim": "adagrad", "per_device_train_batch_size": 3, "max_steps": 2},
        {"optim": "muon", "ema_decay": 0.9, "max_steps": 1},
        {"gradient_accumulation_steps": 2, "unroll_steps": 7, "max_words": 900, "token_inputs": "both", "min_count": 9},
    ],
)
def test_plan_and_run_agree(text, tmp_path, flags):
    shared = {"train_file": [str(text)], "config_overrides": TINY, **flags}
    saving = {"output_dir": str(tmp_path / "run"), "save_steps": 1, "skip_baselines": True}
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=flags.get("gradient_accumulation_steps", 1))
    results = run_pretraining(PretrainingArguments(**shared, **saving), accelerator, report=lambda line: None)
    plan, facts = make_plan(PlanArguments(**shared, output_dir=str(tmp_path / "plan")))
    rows = describe(PlanArguments(**shared, output_dir=str(tmp_path / "plan")))
    settings = results["settings"]
    assert rows["lanes of each process"] == str(settings["num_lanes"])
    assert rows["words of a window"] == str(settings["unroll_steps"])
    assert rows["steps"] == str(settings["max_steps"])
    assert (rows["optimizer"], rows["objective"]) == (settings["optim"], results["objective"])
    assert plan.config.word_vocab_size == results["vocabulary_size"]
    assert facts.num_words == results["training_text"]["words"]
    assert rows["parameters, all"] == f"{results['parameters']:,}"
    assert plan.checkpoint_bytes == tensor_bytes(tmp_path / "run" / f"checkpoint-{settings['max_steps']}")


def tensor_bytes(checkpoint):
    """Weights, optimizer states and LSTM states of a checkpoint."""
    with safe_open(checkpoint / "model.safetensors", "pt") as weights:
        # The words of a table are no parameters.
        found = sum(weights.get_tensor(name).nbytes for name in weights.keys() if "hashes" not in name)  # noqa: SIM118
    state = read_run_state(checkpoint, 0)
    # Beside an average, which is what the model's file has then.
    found += sum(value.nbytes for value in (state.optimizer["trained_weights"] or {}).values())
    parts = state.optimizer["optimizer"]["state"].values()
    return (
        found
        + sum(value.nbytes for part in parts for value in part.values())
        + sum(t.nbytes for t in state.own["state"])
    )


@pytest.mark.slow
def test_the_committed_document_is_the_rendered_one(capsys):
    print_plan(PlanArguments(document=True))
    assert DOCUMENT.read_text(encoding="utf-8") == capsys.readouterr().out, RENDER_AGAIN


def test_the_committed_document_has_what_is_not_measured(capsys, monkeypatch):
    """All but the two rows whose windows of the Original take seconds."""
    monkeypatch.setattr(TrainingPlan, "kept_bytes", lambda plan: 0)
    print_plan(PlanArguments(document=True))
    measured = re.compile(r"^\| memory of a step(: kept for the backward pass|, all) \|.*\n", flags=re.MULTILINE)
    committed, rendered = DOCUMENT.read_text(encoding="utf-8"), capsys.readouterr().out
    assert len(measured.findall(committed)) == 2
    assert measured.sub("", committed) == measured.sub("", rendered), RENDER_AGAIN
    sizes = {"preset": "original", "num_processes": 8, "per_device_train_batch_size": 128}
    plan, _ = make_plan(PlanArguments(**sizes, objective="full", optim="adamw"))
    found = cells(rendered)
    assert found["parameters, all"] == f"{sum(plan.parameters.values()):,}"
    assert found["sent by each process per step"] == f"{plan.all_reduce_bytes / 1e9:.2f} GB"
    assert found["tensors of a checkpoint"] == f"{plan.checkpoint_bytes / 1e9:.2f} GB"
    # 7.7 billion words in two weeks on three GPUs.
    assert 2_000 < PAPER_WORDS_PER_SECOND < 2_200


def test_the_script_prints_a_plan(tmp_path):
    make_tiny_config().save_pretrained(tmp_path)
    flags = {
        "--config_name": tmp_path,
        "--vocab_size": 1000,
        "--objective": "sampled",
        "--num_negative_samples": 50,
        "--num_processes": 4,
        "--per_device_train_batch_size": 8,
        "--unroll_steps": 10,
        "--num_words": 100_000,
        "--words_per_sentence": 20,
        "--num_files": 8,
        "--words_per_second": 500,
    }
    ran = fresh_process.run([ROOT / "scripts" / "plan_run.py", *(part for flag in flags.items() for part in flag)])
    assert ran.returncode == 0, ran.stderr
    found = cells(ran.stdout)
    assert (found["entries per step"], found["steps"]) == ("320", "344")
    assert f"| parameters: word softmax | {1000 * (6 + 1):,} |" in ran.stdout
    assert found["days at 500 words/s in each process"] == f"{100_000 / 2000 / 86400:.2f}"
    assert found["share of the text that each process reads"] == "25.0%"


def each_preset_and_objective():
    """All of them among the slow tests, each at least once among the quick ones."""
    quick = {("small", "full"), ("fast", "sampled"), ("medium", "adaptive"), ("original", "sampled")}
    for case in itertools.product(get_args(Preset), ["full", "sampled", "adaptive"]):
        yield pytest.param(*case, marks=[] if case in quick else pytest.mark.slow)


@pytest.mark.parametrize(("preset", "objective"), each_preset_and_objective())
def test_every_preset_has_a_plan_whose_sums_are_right(preset, objective):
    arguments = PlanArguments(preset=preset, objective=objective, vocab_size=50_000)
    (plan, _), report = make_plan(arguments), render_plan(arguments)
    assert f"| parameters, all | {sum(plan.parameters.values()):,} |" in report
    assert f"| memory of a step, all | {sum(plan.step_bytes.values()) / 1e9:.2f} GB |" in report
    assert "days at" not in report


def test_writing_takes_a_hundredth_at_the_proposed_save_steps():
    fields = {"preset": "small", "vocab_size": 30_000, "disk_gigabytes_per_second": 0.5, "words_per_second": 3000}
    arguments = PlanArguments(**fields)
    plan, text = make_plan(arguments)
    steps = int(describe(arguments)["least --save_steps"].replace(",", ""))
    seconds = plan.entries_per_step / (text.num_entries / text.num_words * 3000)
    writing = plan.checkpoint_bytes / 0.5e9
    assert writing <= 0.01 * steps * seconds and writing > 0.01 * (steps - 1) * seconds


def test_arguments_that_cannot_be_are_refused():
    for fields, named in (
        ({"preset": "small", "config_name": "here"}, ("--preset", "--config_name")),
        ({"preset": "huge"}, "--preset"),
        ({"objective": "half"}, "--objective"),
        ({"optim": "sgd"}, "--optim"),
        ({"recipe": "own"}, "--recipe"),
        ({"num_files": 0}, "--num_files"),
        ({"num_processes": 0}, "--num_processes"),
        ({"link_gigabytes_per_second": 0.0}, "--link_gigabytes_per_second"),
        ({"token_inputs": "both"}, "--token_inputs"),
        ({"objective": "sampled", "vocab_size": 4096}, "num_negative_samples"),
    ):
        assert_refused(ValueError, named, lambda fields: render_plan(PlanArguments(**fields)), fields)


def test_a_checkpoint_is_planned_to_go_on_as_a_run_does(text, tmp_path):
    clusters = {"softmax_type": "adaptive", "adaptive_softmax_cutoffs": [2, 3], "adaptive_softmax_div_value": 2}
    config = make_tiny_config(word_vocab_size=4, **clusters)
    model = ElmoForPreTraining(config)
    model.words = ["<S>", "</S>", "<UNK>", "the"]
    model.save_pretrained(tmp_path)
    ElmoCharTokenizer().save_pretrained(tmp_path)
    shared = {"model_name_or_path": str(tmp_path), "train_file": [str(text)], "objective": "adaptive"}
    kept, _ = make_plan(PlanArguments(**shared))
    assert (kept.config.word_vocab_size, kept.config.adaptive_softmax_cutoffs) == (4, [2, 3])
    # Words that are new to it have other clusters.
    (tmp_path / "words.txt").write_text("\n".join(["<S>", "</S>", "<UNK>", *map(str, range(97))]))
    new, _ = make_plan(PlanArguments(**shared, vocab_file=str(tmp_path / "words.txt"), num_words=100))
    assert new.config.word_vocab_size == 100 and new.config.adaptive_softmax_cutoffs == propose_cutoffs(100)
    wrong = PlanArguments(**shared, config_overrides='{"cell_size": 12}')
    assert_refused(ValueError, ("--config_overrides", "cell_size"), make_plan, wrong)


def test_a_missing_config_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"--config_name .*nowhere"):
        make_plan(PlanArguments(config_name=str(tmp_path / "nowhere")))


def test_a_text_whose_figures_are_given_is_not_read(tmp_path):
    words = tmp_path / "words.txt"
    words.write_text("\n".join(["<S>", "</S>", "<UNK>", *map(str, range(40))]))
    missing = {"train_file": [str(tmp_path / "missing.txt")], "num_files": 3, "num_words": 5000}
    rows = describe(PlanArguments(**missing, vocab_file=str(words)))
    assert (rows["words of the softmax"], rows["words of the text"]) == ("43", "5,000")
    with pytest.raises(FileNotFoundError, match="missing"):
        describe(PlanArguments(**missing))


def test_words_in_memory_decide_about_the_disk_for_counting():
    fields = {"preset": "small", "vocab_size": 1000, "num_words": 10**9, "num_distinct_words": 5_000_000}
    found = [
        describe(PlanArguments(**fields, max_words_in_memory=number))["disk for counting, at most"]
        for number in (5_000_000, 4_000_000, 1_000_000)
    ]
    assert found[0] == "0.0 MB" and float(found[1].split()[0]) > float(found[2].split()[0]) > 0
