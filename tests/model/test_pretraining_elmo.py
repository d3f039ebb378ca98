"""The pre-training model: its losses, its softmaxes, and the words that travel with it."""

import json
import math
from functools import partial
from types import SimpleNamespace

import pytest
import torch
import transformers.utils.hub
from conftest import make_tiny_config
from huggingface_hub import HfApi, ModelCard
from hypothesis import given
from hypothesis import strategies as st
from model_cases import LAYERS, H, P, assert_close, encode, is_frozen, make_model, random_rows
from refusals import assert_refused
from tolerances import FRESH_LOSS, LOSS_FLOAT32, REORDERED_FLOAT64
from torch import nn

from hf_elmo import ElmoForPreTraining, ElmoForTokenClassification, ElmoModel
from hf_elmo.model.modeling_elmo import WORD_LIST_FILE, read_words, write_words


def plain_loss(logits, labels, mask, shift) -> float:
    """Mean of -log p(word at t + shift) over the real words t whose neighbour is real and has a label."""
    losses = []
    for row in range(len(labels)):
        for t in range(labels.shape[1]):
            target = t + shift
            if 0 <= target < labels.shape[1] and mask[row, t] and mask[row, target] and labels[row, target] != -100:
                scores = logits[row, t].tolist()
                total = sum(math.exp(score) for score in scores)
                losses.append(-math.log(math.exp(scores[labels[row, target]]) / total))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("side", ["left", "right"])
def test_pretraining_losses_are_those_of_each_words_neighbours(side):
    model = make_model(ElmoForPreTraining, dtype=torch.float64, word_vocab_size=7)
    batch = encode([["a", "b", "c", "d"], ["e", "f", "g"], ["h"]], padding_side=side)
    labels = torch.randint(0, 7, batch["attention_mask"].shape)
    labels[0, 2] = -100
    output = model(**batch, labels=labels)
    mask = batch["attention_mask"].bool()
    wanted = [plain_loss(logits, labels, mask, shift) for logits, shift in ((output[3], 1), (output[4], -1))]
    assert output.forward_logits is output[3] and output.backward_logits is output[4]
    assert output.forward_loss.item() == pytest.approx(wanted[0], rel=LOSS_FLOAT32)
    assert output.backward_loss.item() == pytest.approx(wanted[1], rel=LOSS_FLOAT32)
    assert output.loss.item() == pytest.approx(sum(wanted) / 2, rel=LOSS_FLOAT32)
    # Labels of padding may be anything that is a label.
    other = torch.where(mask, labels, 6)
    assert torch.equal(model(**batch, labels=other).loss, output.loss)
    assert torch.equal(model(**batch, labels=labels.int()).loss, output.loss)


def test_pretraining_without_any_target_costs_nothing():
    model = make_model(ElmoForPreTraining, word_vocab_size=7).train()
    for labels in (torch.full((1, 3), -100), torch.zeros(1, 1).long()):
        loss = model(random_rows(*labels.shape), labels=labels).loss
        assert loss.item() == 0
        loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_neither_direction_sees_what_it_predicts():
    model = make_model(ElmoForPreTraining, dtype=torch.float64, word_vocab_size=7)
    ids, others = random_rows(1, 6), random_rows(1, 6)
    wanted = model(ids)
    for t in range(6):
        later, earlier = ids.clone(), ids.clone()
        later[:, t + 1 :], earlier[:, :t] = others[:, t + 1 :], others[:, :t]
        assert_close(model(later).forward_logits[:, : t + 1], wanted.forward_logits[:, : t + 1], torch.float64)
        assert_close(model(earlier).backward_logits[:, t:], wanted.backward_logits[:, t:], torch.float64)
    # The word itself and those read before it do count.
    changed = ids.clone()
    changed[:, 2] = encode([["zzz"]])["input_ids"][0, 0]
    differs = [
        ((model(changed)[name] - wanted[name]).abs() > REORDERED_FLOAT64).any(dim=-1)[0].tolist()
        for name in ("forward_logits", "backward_logits")
    ]
    assert differs == [[False, False, True, True, True, True], [True, True, True, False, False, False]]


def test_pretraining_carries_a_state_and_returns_the_layers():
    model, ids = make_model(ElmoForPreTraining, word_vocab_size=7), random_rows(2, 4)
    first = model(ids, output_hidden_states=True)
    assert first.loss is None and len(first.hidden_states) == LAYERS + 1
    assert first.state.cell.shape == (2, LAYERS, 2, H)
    second = model(ids, state=first.state)
    assert not torch.equal(second.forward_logits, first.forward_logits)
    base = model.elmo(ids, state=first.state, output_hidden_states=True).hidden_states[-1]
    torch.testing.assert_close(second.backward_logits, model.word_softmax(base[..., P:]))
    assert torch.equal(model(ids, return_dict=False)[0], first.forward_logits)


@pytest.mark.parametrize("loaded", [False, True])
def test_pretraining_trains_the_bilm_whatever_the_config_says_and_lets_the_mixes_rest(loaded, tmp_path):
    model = make_model(ElmoForPreTraining, word_vocab_size=7, freeze_bilm=True, dropout=0.5)
    if loaded:
        model.save_pretrained(tmp_path)
        model = ElmoForPreTraining.from_pretrained(tmp_path)
    model.train()
    assert not is_frozen(model) and model.elmo.bilm.training
    resting = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    assert resting == {"elmo.mixes.0.weight", "elmo.mixes.0.scale"}
    ids, labels = random_rows(2, 4), torch.randint(0, 7, (2, 4))
    loss = model(ids, labels=labels).loss
    assert loss != model(ids, labels=labels).loss  # dropout
    loss.backward()
    assert all(p.grad is not None and p.grad.any() for name, p in model.named_parameters() if name not in resting)
    model.freeze_bilm()
    assert not is_frozen(model)


def test_pretraining_lowers_its_loss():
    model = ElmoForPreTraining(make_tiny_config(word_vocab_size=7)).train()
    ids, labels = random_rows(4, 6), torch.randint(0, 7, (4, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    losses = []
    for _ in range(15):
        loss = model(ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(math.log(7), abs=FRESH_LOSS)
    assert losses[-1] < 0.8 * losses[0]


SOFTMAXES = {
    "shared": {},
    "two": {"share_word_softmax": False},
    "adaptive": {"softmax_type": "adaptive", "adaptive_softmax_cutoffs": [3, 6], "adaptive_softmax_div_value": 2},
    "two adaptive": {
        "softmax_type": "adaptive",
        "adaptive_softmax_cutoffs": [4],
        "share_word_softmax": False,
    },
}
each_softmax = pytest.mark.parametrize("fields", SOFTMAXES.values(), ids=SOFTMAXES)


@each_softmax
def test_every_word_softmax_gives_a_distribution_and_its_losses(fields):
    model = make_model(ElmoForPreTraining, torch.float64, word_vocab_size=11, **fields)
    batch = encode([["a", "b", "c"], ["d"]])
    labels = torch.tensor([[1, 10, 4], [5, 0, 0]])
    output = model(**batch, labels=labels)
    for logits, loss, shift in (
        (output.forward_logits, output.forward_loss, 1),
        (output.backward_logits, output.backward_loss, -1),
    ):
        assert logits.shape == (2, 3, 11)
        if model.config.softmax_type == "adaptive":
            assert_close(logits.logsumexp(-1), torch.zeros(2, 3, dtype=torch.float64), torch.float64)
        mask = batch["attention_mask"].bool()
        assert loss.item() == pytest.approx(plain_loss(logits, labels, mask, shift), rel=LOSS_FLOAT32)


@each_softmax
def test_a_fresh_word_softmax_guesses_nearly_evenly(fields):
    """Over the words of each cluster, where it has clusters."""
    model = ElmoForPreTraining(make_tiny_config(word_vocab_size=11, **fields)).eval()
    for module in (m for softmax in model.word_softmaxes for m in softmax.modules() if isinstance(m, nn.Linear)):
        assert module.bias is None or not module.bias.any()
        assert module.weight.std().item() < 3 / math.sqrt(module.in_features)
    output = model(**encode([["a", "b", "c"]]), labels=torch.tensor([[1, 2, 0]]))
    assert abs(output.loss.item() - math.log(11)) < 3 * FRESH_LOSS


@each_softmax
def test_every_word_softmax_is_saved_and_loaded(fields, tmp_path):
    model = make_model(ElmoForPreTraining, word_vocab_size=11, **fields)
    model.save_pretrained(tmp_path)
    loaded, report = ElmoForPreTraining.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    weights = loaded.state_dict()
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())
    for cls in (ElmoModel, ElmoForTokenClassification):
        _, report = cls.from_pretrained(tmp_path, output_loading_info=True)
        assert not report["unexpected_keys"]
        assert all(name.startswith("classifier") for name in report["missing_keys"])


def test_a_checkpoint_from_before_there_was_a_choice_of_softmaxes_loads(tmp_path):
    model = make_model(ElmoForPreTraining, word_vocab_size=11)
    model.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    stored = json.loads(path.read_text())
    path.write_text(json.dumps({name: value for name, value in stored.items() if "softmax" not in name}))
    for cls in (ElmoForPreTraining, ElmoModel):
        loaded, report = cls.from_pretrained(tmp_path, output_loading_info=True)
        assert not report["missing_keys"] and not report["unexpected_keys"]
        assert (loaded.config.softmax_type, loaded.config.share_word_softmax) == ("full", True)


def test_directions_share_a_softmax_or_have_one_each():
    shared, two = (
        ElmoForPreTraining(make_tiny_config(word_vocab_size=11, share_word_softmax=share)) for share in (True, False)
    )
    assert shared.word_softmaxes == (shared.word_softmax, shared.word_softmax)
    assert two.word_softmaxes == (two.word_softmax, two.word_softmax_backward)
    assert two.num_parameters() - shared.num_parameters() == 11 * (P + 1)
    output = two.eval()(**encode([["a", "b"]]))
    before = output.forward_logits, output.backward_logits
    with torch.no_grad():
        two.word_softmax_backward.bias.add_(1)
    output = two(**encode([["a", "b"]]))
    assert torch.equal(output.forward_logits, before[0]) and not torch.equal(output.backward_logits, before[1])


def test_only_a_full_softmax_is_an_output_embedding():
    models = [
        ElmoForPreTraining(make_tiny_config(word_vocab_size=11, **SOFTMAXES[name])) for name in ("shared", "adaptive")
    ]
    assert models[0].get_output_embeddings() is models[0].word_softmax
    assert models[1].get_output_embeddings() is None


def test_pretraining_needs_a_word_vocabulary():
    assert_refused(ValueError, "word_vocab_size is None", ElmoForPreTraining, make_tiny_config())


# The words of the softmax


WORDS = ("<S>", "</S>", "<UNK>", "the", "naïve", "語", "a b", "", "\u2028", "\x85", "\x0c")


def make_with_words(words=WORDS) -> ElmoForPreTraining:
    model = ElmoForPreTraining(make_tiny_config(word_vocab_size=len(WORDS)))
    model.words = words
    return model


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r")), min_size=1))
def test_a_list_of_words_is_read_as_it_was_written(tmp_path_factory, words):
    assert read_words(write_words(tmp_path_factory.mktemp("words"), words)) == words


def test_words_go_from_copy_to_copy(tmp_path):
    make_with_words().save_pretrained(tmp_path / "first")
    first = ElmoForPreTraining.from_pretrained(tmp_path / "first")
    first.save_pretrained(tmp_path / "second")
    second, _ = ElmoForPreTraining.from_pretrained(tmp_path / "second", output_loading_info=True)
    assert first.words == second.words == WORDS
    # Classes without a softmax have no use for them.
    for cls in (ElmoModel, ElmoForTokenClassification):
        cls.from_pretrained(tmp_path / "first").save_pretrained(tmp_path / cls.__name__)
        assert not (tmp_path / cls.__name__ / WORD_LIST_FILE).exists()


def test_a_checkpoint_without_words_has_none(tmp_path):
    make_with_words(words=None).save_pretrained(tmp_path)
    assert not (tmp_path / WORD_LIST_FILE).exists()
    assert ElmoForPreTraining.from_pretrained(tmp_path).words is None


def test_only_the_main_process_writes_them(tmp_path):
    make_with_words().save_pretrained(tmp_path, is_main_process=False)
    assert not (tmp_path / WORD_LIST_FILE).exists()


def test_words_of_another_softmax_are_refused(tmp_path):
    model = make_with_words()
    assert_refused(ValueError, ("words", "4", "11"), setattr, model, "words", WORDS[:4])
    model.save_pretrained(tmp_path)
    write_words(tmp_path, WORDS[:4])
    assert_refused(ValueError, (WORD_LIST_FILE, "4", "11"), ElmoForPreTraining.from_pretrained, tmp_path)
    assert ElmoForPreTraining.from_pretrained(tmp_path, ignore_mismatched_sizes=True).words is None
    (tmp_path / WORD_LIST_FILE).write_bytes(b"a\ncaf\xe9\n")
    assert_refused(ValueError, (WORD_LIST_FILE, "line 2"), ElmoForPreTraining.from_pretrained, tmp_path)


@pytest.fixture
def uploaded(monkeypatch) -> dict[str, bytes]:
    """The files that reach the Hub."""
    files = {}

    def create_commit(self, repo_id, operations, **_):
        for operation in operations:
            with operation.as_file() as file:
                files[operation.path_in_repo] = file.read()

    def create_repo(self, repo_id, **_):
        return SimpleNamespace(repo_id=repo_id)

    for function in (create_repo, create_commit):
        monkeypatch.setattr(HfApi, function.__name__, function)
        # Older versions of transformers have these by name.
        for module in (transformers.utils.hub, transformers.modeling_utils):
            monkeypatch.setattr(module, function.__name__, partial(function, None), raising=False)
    card = ModelCard("---\ntags: []\n---\n")
    monkeypatch.setattr(transformers.utils.hub, "create_and_tag_model_card", lambda *_, **__: card)
    return files


@pytest.mark.parametrize("way", ["push_to_hub", "save_pretrained", "save_pretrained over an older copy"])
def test_words_and_code_go_to_the_hub(way, uploaded, tmp_path):
    model = make_with_words()
    if way == "push_to_hub":
        model.push_to_hub("someone/elmo")
    else:
        if "older" in way:
            model.save_pretrained(tmp_path / "elmo")
        model.save_pretrained(str(tmp_path / "elmo"), push_to_hub=True, repo_id="someone/elmo")
    assert uploaded[WORD_LIST_FILE].decode().split("\n")[: len(WORDS)] == list(WORDS)
    assert {"config.json", "model.safetensors", "modeling_elmo.py", "modeling_elmo_tasks.py"} <= set(uploaded)


def test_words_come_from_where_the_weights_come_from(tmp_path):
    make_with_words().save_pretrained(tmp_path / "parts" / "one")
    model = ElmoForPreTraining.from_pretrained(tmp_path / "parts", subfolder="one", dtype=torch.bfloat16)
    assert model.words == WORDS
