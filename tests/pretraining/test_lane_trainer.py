"""The loop learns, counts right and evaluates each word once."""

import math
from dataclasses import replace

import pytest
import torch
from accelerate import Accelerator
from conftest import make_tiny_config

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining, ElmoState
from hf_elmo.pretraining.lane_trainer import LaneTrainer, reset_lanes
from hf_elmo.pretraining.objectives import FullSoftmaxObjective, build_objective
from hf_elmo.pretraining.recipes import OptimizationArguments
from hf_elmo.text.corpora import corpus_from_files
from hf_elmo.text.vocabulary import WordVocabulary, count_words

PATTERN = ["the cat sat on the mat .", "a dog ran to the park and back ."]


@pytest.fixture
def make_trainer(tmp_path):
    (tmp_path / "train.txt").write_text("".join(f"{line}\n" for line in PATTERN * 20))
    (tmp_path / "heldout.txt").write_text("".join(f"{line}\n" for line in PATTERN))
    train, held_out = (corpus_from_files([str(tmp_path / f"{name}.txt")]) for name in ("train", "heldout"))
    tokenizer = ElmoCharTokenizer()
    counts, _ = count_words(train.sentences(tokenizer.tokenize))
    vocabulary = WordVocabulary.from_counts(counts)

    def make(max_steps=60, accelerator=None, objective="full", **settings):
        torch.manual_seed(0)
        model = ElmoForPreTraining(
            make_tiny_config(word_vocab_size=len(vocabulary), dropout=0.0, projection_size=16, cell_size=32)
        )
        settings = OptimizationArguments(
            **{"per_device_train_batch_size": 4, "unroll_steps": 5, "learning_rate": 2e-2, "logging_steps": 50},
            max_steps=max_steps,
            **settings,
        ).with_recipe()
        objective = build_objective(objective, model, num_negative_samples=6)
        return LaneTrainer(
            objective, tokenizer, vocabulary, train, held_out, settings, accelerator or Accelerator(cpu=True)
        )

    return make


def test_it_learns_a_text_by_heart(make_trainer):
    trainer = make_trainer(max_steps=160, per_device_eval_batch_size=4)
    trainer.held_out_corpus = trainer.train_corpus
    perplexity = trainer.train()
    assert trainer.evaluations[0]["mean"] > 10
    assert perplexity.mean < 3
    assert perplexity.num_targets == 20 * sum(len(line.split()) + 1 for line in PATTERN)
    assert [entry["step"] for entry in trainer.history] == [50, 100, 150, 160]
    assert trainer.history[-1]["words"] == trainer.num_words


@pytest.mark.parametrize("unroll_steps", [1, 3, 50])
def test_evaluation_of_one_lane_does_not_depend_on_the_window(make_trainer, unroll_steps):
    trainer = make_trainer(per_device_eval_batch_size=1)
    expected = trainer.evaluate()
    trainer.settings = replace(trainer.settings, unroll_steps=unroll_steps)
    found = trainer.evaluate()
    assert (found.forward, found.backward) == pytest.approx((expected.forward, expected.backward), rel=1e-5)


def test_evaluation_is_the_mean_of_two_directions_and_deterministic(make_trainer):
    trainer = make_trainer()
    first, second = trainer.evaluate(), trainer.evaluate()
    assert first == second
    assert first.mean == pytest.approx((first.forward + first.backward) / 2)


def test_some_lanes_start_from_zeros_by_chance(make_trainer, monkeypatch):
    trainer = make_trainer(max_steps=100, reset_probability=0.25)
    forward, starts = FullSoftmaxObjective.forward, []

    def watched(objective, window, state=None):
        if objective.training and state is not None:
            starts.extend((state.hidden == 0).flatten(1).all(dim=1).tolist())
        return forward(objective, window, state)

    monkeypatch.setattr(FullSoftmaxObjective, "forward", watched)
    trainer.train()
    assert len(starts) == 4 * 99
    assert 0.15 < sum(starts) / len(starts) < 0.35


def test_same_seed_same_weights(make_trainer):
    runs = [make_trainer(max_steps=5) for _ in range(2)]
    for trainer in runs:
        torch.manual_seed(1)
        trainer.train()
    weights = [dict(trainer.objective.named_parameters()) for trainer in runs]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_accumulated_windows_count_as_one_step(make_trainer):
    trainer = make_trainer(
        max_steps=3,
        gradient_accumulation_steps=2,
        accelerator=Accelerator(cpu=True, gradient_accumulation_steps=2),
    )
    before = {name: parameter.clone() for name, parameter in trainer.objective.named_parameters()}
    trainer.train()
    assert trainer.num_words > 3 * 4 * 5
    assert any(not torch.equal(before[name], value) for name, value in trainer.objective.named_parameters())


def test_state_is_carried_between_windows(make_trainer, monkeypatch):
    trainer = make_trainer(max_steps=4)
    states = []
    original = trainer.objective.forward

    def spy(window, state=None):
        if torch.is_grad_enabled():
            states.append(state)
        return original(window, state)

    monkeypatch.setattr(trainer.objective, "forward", spy)
    trainer.train()
    assert states[0] is None
    assert all(state is not None and not state.hidden.requires_grad for state in states[1:])


def test_a_loss_that_is_no_number_stops_the_run_and_names_the_step(make_trainer):
    trainer = make_trainer(max_steps=5)
    with torch.no_grad():
        trainer.objective.model.word_softmax.bias.fill_(math.nan)
    with pytest.raises(FloatingPointError, match="at step 1"):
        trainer.train()


def test_model_and_vocabulary_must_agree(make_trainer):
    trainer = make_trainer()
    with pytest.raises(ValueError, match="softmax over 4 words"):
        LaneTrainer(
            FullSoftmaxObjective(ElmoForPreTraining(make_tiny_config(word_vocab_size=4))),
            trainer.tokenizer,
            trainer.vocabulary,
            trainer.train_corpus,
            trainer.held_out_corpus,
            trainer.settings,
            trainer.accelerator,
        )


def test_sampling_learns_and_shows_what_the_full_softmax_says(make_trainer):
    trainer = make_trainer(max_steps=120, objective="sampled", per_device_eval_batch_size=4)
    perplexity = trainer.train()
    assert perplexity.mean < 0.7 * trainer.evaluations[0]["mean"]
    for entry in trainer.history:
        assert {"loss", "sampled_loss", "full_loss"} <= set(entry)
    # A few negatives make an easier task than all words do.
    assert sum(entry["sampled_loss"] - entry["full_loss"] for entry in trainer.history) < 0


def test_the_state_of_lanes_that_start_anew_is_zeros():
    state = ElmoState(hidden=torch.randn(3, 2, 2, 4), cell=torch.randn(3, 2, 2, 5))
    never = torch.zeros(3, dtype=torch.bool)
    assert reset_lanes(state, never) is state
    assert reset_lanes(None, ~never) is None
    found = reset_lanes(state, torch.tensor([False, True, False]))
    for before, after in ((state.hidden, found.hidden), (state.cell, found.cell)):
        assert torch.equal(after[[0, 2]], before[[0, 2]]) and not after[1].any()


@pytest.mark.parametrize("reset_state", ["never", "epoch", "document"])
def test_states_are_reset_when_asked(make_trainer, tmp_path, reset_state):
    """Sentences that are documents have the perplexity that each has alone, from zeros."""
    lines = PATTERN * 3
    (tmp_path / "documents.txt").write_text("".join(f"{line}\n\n" for line in lines))
    trainer = make_trainer(reset_state=reset_state, per_device_eval_batch_size=2)
    trainer.held_out_corpus = corpus_from_files(
        [str(tmp_path / "documents.txt")], by_document=reset_state == "document"
    )
    found = trainer.evaluate()
    trainer.settings = replace(trainer.settings, per_device_eval_batch_size=len(lines))
    alone = trainer.evaluate()
    assert found.num_targets == alone.num_targets
    assert (found.mean == pytest.approx(alone.mean, rel=1e-5)) is (reset_state == "document")
    if reset_state == "document":
        trainer.train_corpus = trainer.held_out_corpus
    trainer.train()


def test_a_process_without_text_is_told(make_trainer):
    trainer = make_trainer()
    trainer.train_corpus = trainer.train_corpus.shard(50, 51)
    with pytest.raises(ValueError, match="no training text"):
        trainer.train()
