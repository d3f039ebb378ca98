"""From arguments to a checkpoint that the Auto classes load, and nothing written where it goes wrong."""

import json
from collections import Counter

import pytest
import torch
from refusals import assert_refused
from run_cases import LINES, make_arguments, write_lines
from tolerances import BFLOAT16, REORDERED_FLOAT32
from transformers import AutoModel, AutoModelForPreTraining, AutoTokenizer

from hf_elmo.hub import PLOT_FILE
from hf_elmo.pretraining.run import run_pretraining
from hf_elmo.text.corpora import Corpus
from hf_elmo.text.vocabulary import WordVocabulary


@pytest.fixture
def text(tmp_path):
    return write_lines(tmp_path)


@pytest.fixture
def arguments(tmp_path, text):
    return lambda **changes: make_arguments(tmp_path, **changes)


def test_checkpoint_is_whole(arguments, tmp_path, drawn_plots):
    lines = []
    results = run_pretraining(arguments(), report=lines.append)
    directory = tmp_path / "out"
    model = AutoModelForPreTraining.from_pretrained(directory)
    base = AutoModel.from_pretrained(directory)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    vocabulary = WordVocabulary.load(directory)
    assert model.config.word_vocab_size == len(vocabulary) == results["vocabulary_size"]
    batch = tokenizer("The cat sat .", return_tensors="pt")
    with torch.no_grad():
        expected = model.elmo(**batch).last_hidden_state
        torch.testing.assert_close(base(**batch).last_hidden_state, expected, rtol=0, atol=REORDERED_FLOAT32)
    saved = json.loads((directory / "results.json").read_text())
    assert saved["perplexity"] == results["perplexity"]
    assert [entry["step"] for entry in saved["evaluations"]] == [0, 3, 6]
    assert f"{results['perplexity']['mean']:,.1f}" in (directory / "README.md").read_text()
    assert sum(line.startswith("step ") and "held-out perplexity" in line for line in lines) == 3
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []
    assert (directory / PLOT_FILE).read_bytes().startswith(b"\x89PNG")
    assert results["perplexity"]["num_targets"] == results["perplexity_cold"]["num_targets"]
    assert any(f"{results['perplexity_cold']['mean']:,.1f} with each sentence alone" in line for line in lines)
    assert results["recipe"] == "modern" and results["resumed_from_steps"] == []
    assert f"memory: {results['peak_memory_bytes'] / 1e9:.2f} GB at most, in the main process" in lines


BAD_ARGUMENTS = [
    ({"train_file": None}, ("--train_file", "--dataset_name")),
    ({"preset": "huge"}, "--preset"),
    ({"config_overrides": '{"num_layers": 3}'}, ("'num_layers'", "'num_hidden_layers'")),
    ({"objective": "sampled"}, ("4096", "num_negative_samples")),
    (
        {"per_device_train_batch_size": 60, "unroll_steps": 20},
        ("--per_device_train_batch_size 60", "--unroll_steps 20"),
    ),
    ({"report_to": "no_such_tracker"}, ("--report_to", "no_such_tracker")),
]


def test_bad_arguments_are_named_and_leave_nothing(arguments, tmp_path):
    for changes, named in BAD_ARGUMENTS:
        given = arguments(**changes)
        assert_refused((ValueError, ImportError), named, run_pretraining, given, report=lambda line: None)
        assert not (tmp_path / "out").exists(), changes
        assert list(tmp_path.glob(".*")) == [], changes


def test_full_output_directory_is_left_alone_unless_told(arguments, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious.txt").write_text("keep me")
    with pytest.raises(FileExistsError, match="--overwrite_output_dir"):
        run_pretraining(arguments(), report=lambda line: None)
    with pytest.raises(ValueError, match="not UTF-8"):
        bad = tmp_path / "bad.txt"
        bad.write_bytes(b"caf\xe9\n")
        run_pretraining(arguments(train_file=[str(bad)], overwrite_output_dir=True), report=lambda line: None)
    assert (tmp_path / "out" / "precious.txt").read_text() == "keep me"
    run_pretraining(arguments(overwrite_output_dir=True), report=lambda line: None)
    assert not (tmp_path / "out" / "precious.txt").exists()
    assert (tmp_path / "out" / "model.safetensors").exists()


def test_output_directory_that_holds_what_is_read_is_refused(arguments, tmp_path):
    (tmp_path / "out").mkdir()
    inside = tmp_path / "out" / "precious.txt"
    inside.write_text("<S>\n</S>\n<UNK>\nthe\n")
    for name, value in (
        ("train_file", [str(inside)]),
        ("validation_file", [str(inside)]),
        ("vocab_file", str(inside)),
    ):
        given = arguments(**{name: value}, overwrite_output_dir=True)
        assert_refused(ValueError, ("output_dir", f"--{name}"), run_pretraining, given, report=lambda line: None)
        assert inside.exists(), name


def test_a_vocabulary_out_of_order_is_refused_by_the_sampled_softmax(arguments, text, tmp_path):
    words = {word for line in LINES for word in line.split()}
    text.write_text("".join(" ".join([word] * 2**place) + "\n" for place, word in enumerate(sorted(words))))
    file = tmp_path / "words.txt"
    file.write_text("".join(f"{word}\n" for word in ["<S>", "</S>", "<UNK>", *sorted(words)]))
    with pytest.raises(ValueError, match="frequency"):
        run_pretraining(arguments(vocab_file=str(file), objective="sampled", num_negative_samples=4))


def test_no_evaluation_reads_the_training_text(arguments, text, monkeypatch):
    text.write_text("".join(f"the cat sat on {number} mats .\n" for number in range(60)))
    reads, texts = Counter(), Corpus._texts

    def counted(corpus, *args):
        reads[corpus.name] += 1
        return texts(corpus, *args)

    monkeypatch.setattr(Corpus, "_texts", counted)
    results = run_pretraining(
        arguments(validation_file=None, validation_split_percentage=10.0, eval_steps=1), report=lambda line: None
    )
    assert len(results["evaluations"]) == 7
    # Of the training text a look at its first lines, for the words, the bigrams, a look at its part, and the steps.
    assert reads == {"--train_file": 5, "--validation_split_percentage": 1 + 7 + 1}


@pytest.mark.parametrize(
    ("variable", "value", "instead"),
    [
        ("ACCELERATE_USE_FSDP", "true", "torchrun"),
        ("ACCELERATE_USE_DEEPSPEED", "true", "torchrun"),
        # Two optimizers would each change the scale of the gradients, which nobody takes off before they are clipped.
        ("ACCELERATE_MIXED_PRECISION", "fp16", "--bf16"),
    ],
)
def test_a_launch_that_the_loop_cannot_serve_is_refused_in_one_line(
    arguments, tmp_path, monkeypatch, variable, value, instead
):
    monkeypatch.setenv(variable, value)
    assert_refused(ValueError, (variable, instead), run_pretraining, arguments(), report=lambda line: None)
    assert not (tmp_path / "out").exists()


def test_a_tracker_gets_what_results_json_has(arguments, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    results = run_pretraining(arguments(report_to="tensorboard"), report=lambda line: None)
    events = EventAccumulator(str(tmp_path / "runs" / "out"))
    events.Reload()
    found = {event.step: event.value for event in events.Scalars("train/loss")}
    assert found == pytest.approx({entry["step"]: entry["loss"] for entry in results["history"]}, rel=1e-5)
    found = {event.step: event.value for event in events.Scalars("eval/mean")}
    assert found == pytest.approx({entry["step"]: entry["mean"] for entry in results["evaluations"]}, rel=1e-5)


def test_bfloat16_gives_nearly_the_same_losses(arguments, tmp_path, accelerate_anew):
    exact = run_pretraining(arguments(), report=lambda line: None)
    accelerate_anew()
    rounded = run_pretraining(arguments(bf16=True, output_dir=str(tmp_path / "rounded")), report=lambda line: None)
    losses = [[entry["loss"] for entry in results["history"]] for results in (exact, rounded)]
    assert losses[1] == pytest.approx(losses[0], abs=BFLOAT16) and losses[1] != losses[0]
    model = AutoModelForPreTraining.from_pretrained(tmp_path / "rounded")
    assert model.dtype == torch.float32
