"""The script prints the tables of a plan, and the committed document is what it prints."""

import re
import subprocess
import sys

import pytest
from conftest import ROOT, make_tiny_config

from hf_elmo import ElmoConfig
from hf_elmo.commands.plan_run import (
    PAPER_WORDS_PER_SECOND,
    PlanArguments,
    print_plan,
    render_document,
    render_plan,
    save_steps_for,
)
from hf_elmo.pretraining import plan as scale

DOCUMENT = ROOT / "model_cards" / "scale" / "README.md"


def cells(report):
    """The second cell of each row, by the first one."""
    return dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|", report, flags=re.MULTILINE))


def run_script(*flags):
    command = [sys.executable, str(ROOT / "scripts" / "plan_run.py"), *flags]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8")


def test_the_committed_document_is_the_rendered_one():
    assert DOCUMENT.read_text(encoding="utf-8") == render_document(), (
        "render it again: python scripts/plan_run.py --document > model_cards/scale/README.md"
    )


def test_the_document_holds_the_computed_figures():
    report = render_document()
    found = cells(report)
    config = scale.plan_config(ElmoConfig.original(), 793_471, "full")
    plan = scale.TrainingPlan(config, num_processes=8)
    assert found["parameters"] == f"{sum(scale.count_parameters(config).values()):,}"
    assert f"sends {scale.all_reduce_bytes(plan) / 1e9:.2f} GB a step" in report
    assert found["tensors of a checkpoint"] == f"{scale.checkpoint_bytes(plan) / 1e9:.2f} GB"
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
    ran = run_script(*(str(part) for flag in flags.items() for part in flag))
    assert ran.returncode == 0, ran.stderr
    found = cells(ran.stdout)
    assert found["entries a step"] == "320"
    assert found["steps for 100,000 words"] == "344"
    assert f"| word softmax | {1000 * (6 + 1):,} |" in ran.stdout
    assert found["days at 500 words/s in each process"] == f"{100_000 / 2000 / 86400:.2f}"
    assert found["text that each process reads a pass, 8 files"].endswith("25.0%")


def test_a_mistake_is_one_line_and_exit_code_2():
    ran = run_script("--objective", "half")
    assert ran.returncode == 2 and ran.stderr.strip() == (
        "error: objective is 'half'; it must be one of full, sampled, adaptive."
    )


@pytest.mark.parametrize("objective", ["full", "sampled", "adaptive"])
@pytest.mark.parametrize("preset", ["small", "medium", "original"])
def test_every_preset_has_a_plan_whose_sums_are_right(preset, objective):
    arguments = PlanArguments(preset=preset, objective=objective, vocab_size=50_000)
    plan, report = arguments.build_plan(), render_plan(arguments)
    distinct = scale.expected_distinct_words(plan.entries_per_window, 50_000)
    assert f"| **all** | {sum(scale.count_parameters(plan.config).values()):,} |" in report
    assert f"| **all** | {sum(scale.step_bytes(plan, distinct).values()) / 1e9:.2f} GB |" in report
    assert "days at" not in report


def test_one_process_by_the_paper_has_sparse_gradients_as_the_loop_has():
    arguments = PlanArguments(objective="sampled", optim="adagrad", num_processes=1)
    assert arguments.build_plan().sparse_gradients
    for other in ({"num_processes": 2}, {"optim": "adamw"}):
        changed = PlanArguments(**{**vars(arguments), **other})
        assert not changed.build_plan().sparse_gradients


def test_writing_takes_a_hundredth_at_the_proposed_save_steps():
    arguments = PlanArguments(preset="small", vocab_size=30_000, disk_gigabytes_per_second=0.5)
    plan = arguments.build_plan()
    steps = save_steps_for(plan, arguments, words_per_second=3000)
    entries = scale.count_entries(3000, arguments.words_per_sentence)
    seconds = plan.entries_per_step / (plan.num_processes * entries)
    writing = scale.checkpoint_bytes(plan) / 0.5e9
    assert writing <= 0.01 * steps * seconds and writing > 0.01 * (steps - 1) * seconds


def test_the_document_is_printed_on_demand(capsys):
    print_plan(PlanArguments(document=True))
    assert capsys.readouterr().out == render_document()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"preset": "small", "config_name": "here"}, "--preset and --config_name each name the sizes"),
        ({"preset": "huge"}, "--preset is 'huge'; it must be one of small, medium, original"),
        ({"num_files": 0}, "--num_files is 0; it must be > 0"),
        ({"link_gigabytes_per_second": 0.0}, "--link_gigabytes_per_second is 0.0; it must be > 0"),
    ],
)
def test_arguments_that_cannot_be_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        PlanArguments(**fields).build_plan()


def test_a_missing_config_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"--config_name .*nowhere' does not exist; name a config\.json"):
        PlanArguments(config_name=str(tmp_path / "nowhere")).build_plan()
