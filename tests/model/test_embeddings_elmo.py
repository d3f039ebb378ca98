"""The ELMo layer inside other models: what it gives, what is trained, and what is saved with the model around it."""

import pytest
import torch
from conftest import make_tiny_config
from examples import examples
from huggingface_hub.errors import StrictDataclassError
from hypothesis import given
from hypothesis import strategies as st
from model_cases import P, assert_close, encode, is_frozen, make_model, sentence_lists
from refusals import assert_refused
from tolerances import REORDERED_FLOAT32
from torch import nn

from hf_elmo import ElmoCharTokenizer, ElmoEmbeddings, ElmoModel, EmbeddingsHead
from hf_elmo.text.word_vectors import build_word_table

KNOWN = ["a", "b", "é"]
FILTERS = [[1, 2], [3, 4]]
SIZES = {"word_table_size": len(KNOWN) + 2, "word_vector_size": 5}
EVERYTHING = {**SIZES, "character_filters": FILTERS, "character_embedding_size": 3}


def make_embeddings(settings=None, **fields) -> ElmoEmbeddings:
    """In evaluation mode, with weights that show any mistake, and its word table filled."""
    embeddings = make_model(ElmoEmbeddings, head=EmbeddingsHead(**(settings or {})), **fields)
    if embeddings.features.word_table is not None:
        build_word_table(ElmoCharTokenizer(), KNOWN).fill(embeddings)
    return embeddings


class Tagger(nn.Module):
    """A model of somebody's own, who has never heard of transformers."""

    def __init__(self, embeddings):
        super().__init__()
        self.embeddings = embeddings
        self.output = nn.Linear(embeddings.output_size, 3)

    def forward(self, **batch):
        return self.output(self.embeddings(**batch).last_hidden_state)


@pytest.fixture(scope="module")
def whole():
    return make_embeddings(EVERYTHING, num_mixes=2)


# What it gives


@pytest.mark.parametrize(
    ("layers", "shares"),
    [("top", (0, 0, 1)), ("token", (1, 0, 0)), ("average", (1 / 3, 1 / 3, 1 / 3)), ("all", None)],
)
def test_layers_are_taken_as_asked_for(layers, shares):
    embeddings, batch = make_embeddings(mixed_layers=layers, num_mixes=2), encode([["a", "bc"], ["d"]])
    mixes = embeddings.elmo.mixes
    with torch.no_grad():
        for mix in mixes:
            mix.weight.normal_()
            mix.scale.fill_(1.5)
    output = embeddings(**batch)
    hidden = embeddings.elmo(**batch, output_hidden_states=True).hidden_states
    assert torch.equal(output.last_hidden_state, output.elmo_representations[0])
    for index, mix in enumerate(mixes):
        wanted = torch.softmax(mix.weight, 0) if shares is None else torch.tensor(shares, dtype=torch.float32)
        assert embeddings.layer_shares()[index] == pytest.approx(wanted.tolist())
        mixed = 1.5 * sum(share * layer for share, layer in zip(wanted, hidden, strict=True))
        assert_close(output.elmo_representations[index], mixed, torch.float32)
        assert mix.weight.requires_grad == (layers == "all") and mix.scale.requires_grad


@examples(15)
@given(sentences=sentence_lists, side=st.sampled_from(["left", "right"]))
def test_a_words_vector_depends_on_its_sentence_alone(sentences, side, whole):
    batch = encode(sentences, padding_side=side)
    output = whole(**batch)
    assert output.last_hidden_state.shape[-1] == whole.output_size == 2 * P + 5 + 6
    assert torch.equal(output.mask, batch["attention_mask"].bool())
    assert not output.last_hidden_state[~output.mask].any()
    for row, sentence in enumerate(sentences):
        alone = whole(**encode([sentence])).last_hidden_state[0]
        assert_close(output.last_hidden_state[row][output.mask[row]], alone, torch.float32)


def test_mix_word_vector_and_characters_stand_side_by_side(whole):
    tokenizer, words = ElmoCharTokenizer(), ["b", "never seen", "é", "B", "<S>"]
    vectors = whole(**encode([words])).last_hidden_state[0]
    table, features = whole.features.word_table, whole.features
    assert_close(vectors[:, : 2 * P], whole.elmo(**encode([words])).last_hidden_state[0], torch.float32)
    known = [table.places(torch.from_numpy(tokenizer.encode_words([word]))).item() for word in words]
    assert [place > 0 for place in known] == [True, False, True, False, True]
    assert_close(vectors[:, 2 * P : 2 * P + 5], table.weight[known], torch.float32)
    # The characters by torch's own convolution over the full width of the rows.
    characters = features.characters(torch.from_numpy(tokenizer.encode_words(words))).transpose(1, 2)
    wanted = [
        torch.relu(nn.functional.conv1d(characters, filters.weight, filters.bias)).amax(dim=2)
        for filters in features.filters
    ]
    assert_close(vectors[:, 2 * P + 5 :], torch.cat(wanted, dim=1), torch.float32)


def test_capitals_are_lowered_for_the_table_alone():
    plain, lowered = make_embeddings(EVERYTHING), make_embeddings({**EVERYTHING, "lower_case_words": True})
    lowered.load_state_dict(plain.state_dict())
    words = slice(2 * P, 2 * P + 5)
    small, capital = (
        [model(**encode([[word]])).last_hidden_state[0, 0] for word in ("a", "A")] for model in (plain, lowered)
    )
    assert not torch.equal(small[0][words], small[1][words])
    assert torch.equal(capital[0][words], capital[1][words])
    assert torch.equal(small[1][: 2 * P], capital[1][: 2 * P]) and torch.equal(small[1][-6:], capital[1][-6:])


def test_without_elmo_the_bilm_is_not_run():
    embeddings = make_embeddings({**EVERYTHING, "use_elmo": False})
    embeddings.elmo.bilm.register_forward_hook(lambda *_: pytest.fail("the biLM was run"))
    output = embeddings(**encode([["a", "b"], ["c"]]))
    assert output.last_hidden_state.shape == (2, 2, 11) and output.elmo_representations is None
    assert {name.split(".")[0] for name, p in embeddings.named_parameters() if p.requires_grad} == {"features"}


def test_sentences_of_pairs_are_read_apart(whole):
    tokenizer = ElmoCharTokenizer()
    pair = whole(**tokenizer("a b", "c d e", return_tensors="pt")).last_hidden_state[0]
    alone = [whole(**tokenizer(text, return_tensors="pt")).last_hidden_state[0] for text in ("a b", "c d e")]
    assert_close(pair, torch.cat(alone), torch.float32)


def test_a_traced_part_gives_the_same(whole):
    batch = dict(encode([["a", "bb", "é"], ["d"]], padding_side="left"))
    torch._dynamo.reset()
    compiled = torch.compile(whole, fullgraph=True, backend="eager")
    with torch.no_grad():
        found, wanted = compiled(**batch).last_hidden_state, whole(**batch).last_hidden_state
    torch.testing.assert_close(found, wanted, rtol=REORDERED_FLOAT32, atol=REORDERED_FLOAT32)


def test_a_batch_without_real_words_gives_zeros(whole):
    batch = encode([["a", "b"]])
    output = whole(batch["input_ids"], torch.zeros_like(batch["attention_mask"]))
    assert not output.last_hidden_state.any() and not output.mask.any()


# What is trained, and how


def train_a_step(model, batch):
    before = {name: value.clone() for name, value in model.state_dict().items()}
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1.0)
    model.train()
    (model(**batch).square().mean() + model.embeddings.penalty()).backward()
    optimizer.step()
    return {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}


@pytest.mark.parametrize("freeze", [True, False])
@pytest.mark.parametrize("train_words", [True, False])
def test_a_frozen_bilm_stays_as_it_is_while_the_model_around_it_trains(freeze, train_words):
    embeddings = make_embeddings({**EVERYTHING, "train_word_vectors": train_words}, freeze_bilm=freeze)
    model = Tagger(embeddings)
    changed = train_a_step(model, encode([["a", "b", "x"], ["é"]]))
    assert model.training and embeddings.training and embeddings.dropout.training
    assert is_frozen(embeddings) == freeze
    for module in (embeddings.elmo.token_encoder, embeddings.elmo.bilm):
        assert {part.training for part in module.modules()} == {not freeze}
    bilm = {name for name in changed if ".bilm." in name or ".token_encoder." in name}
    assert bool(bilm) == (not freeze)
    assert ("embeddings.features.word_table.weight" in changed) == train_words
    assert {"embeddings.elmo.mixes.0.weight", "embeddings.elmo.mixes.0.scale", "output.weight"} <= changed
    assert {"embeddings.features.characters.weight", "embeddings.features.filters.1.weight"} <= changed


def test_dropout_is_that_of_the_settings():
    batch = encode([["a", "b"] * 200])
    kept = make_embeddings({**EVERYTHING, "dropout": 0.0}).train()(**batch).last_hidden_state
    dropped = make_embeddings({**EVERYTHING, "dropout": 0.5}).train()(**batch).last_hidden_state
    shown = dropped != 0
    assert 0.4 < shown[kept != 0].float().mean() < 0.6
    assert_close(dropped[shown], 2 * kept[shown], torch.float32)


def test_the_penalty_is_that_of_the_weights_before_their_softmax():
    embeddings = make_embeddings(num_mixes=2, mix_l2=0.25)
    with torch.no_grad():
        for number, mix in enumerate(embeddings.elmo.mixes, start=1):
            mix.weight.fill_(number)
    penalty = embeddings.penalty()
    penalty.backward()
    assert penalty.item() == pytest.approx(0.25 * (3 * 1 + 3 * 4))
    assert embeddings.elmo.mixes[1].weight.grad.tolist() == pytest.approx([1.0, 1.0, 1.0])
    assert not make_embeddings(num_mixes=2).penalty()
    assert not make_embeddings(mix_l2=0.25, mixed_layers="top").penalty()


# What is saved


def test_its_states_are_saved_with_the_model_around_it(tmp_path):
    model, batch = Tagger(make_embeddings(EVERYTHING)), encode([["a", "b", "x"], ["é"]])
    train_a_step(model, batch)
    torch.save(model.state_dict(), tmp_path / "model.pt")
    other = Tagger(ElmoEmbeddings(make_tiny_config(**model.embeddings.config.to_diff_dict())))
    other.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    assert torch.equal(other.eval()(**batch), model.eval()(**batch))


def test_it_starts_from_any_checkpoint_of_a_bilm_and_loads_its_own(tmp_path):
    base = make_model(ElmoModel)
    base.save_pretrained(tmp_path / "base")
    embeddings = ElmoEmbeddings.from_pretrained(
        tmp_path / "base", num_mixes=2, head={"type": "embeddings", "train_word_vectors": False, **EVERYTHING}
    )
    assert is_frozen(embeddings) and not embeddings.features.word_table.weight.requires_grad
    batch = encode([["a", "b"]])
    build_word_table(ElmoCharTokenizer(), KNOWN).fill(embeddings)
    assert_close(
        embeddings.elmo(**batch, output_hidden_states=True).hidden_states[2],
        base(**batch, output_hidden_states=True).hidden_states[2],
        torch.float32,
    )
    embeddings.save_pretrained(tmp_path / "own")
    loaded = ElmoEmbeddings.from_pretrained(tmp_path / "own")
    assert torch.equal(loaded(**batch).last_hidden_state, embeddings.eval()(**batch).last_hidden_state)
    assert not loaded.features.word_table.weight.requires_grad
    assert loaded.config.head == embeddings.config.head and loaded.config.num_mixes == 2


# Bad settings


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"dropout": 1.0}, "dropout"),
        ({"word_table_size": 5}, "word_vector_size"),
        ({"word_vector_size": 5}, "word_table_size"),
        ({"word_table_size": 0, "word_vector_size": 5}, "word_table_size"),
        ({"character_filters": [[3]]}, "character_filters"),
        ({"character_filters": [[3, 0]]}, "character_filters"),
        ({"use_elmo": False}, "use_elmo"),
        ({"character_embedding_size": 0}, "character_embedding_size"),
    ],
)
def test_bad_settings_are_refused_by_name(settings, named):
    assert_refused(StrictDataclassError, named, EmbeddingsHead, **settings)
    assert_refused(ValueError, named, make_tiny_config, head={"type": "embeddings", **settings})


def test_a_filter_wider_than_a_word_is_refused():
    assert_refused(
        (ValueError, StrictDataclassError),
        ("character_filters", "51"),
        make_tiny_config,
        head=EmbeddingsHead(character_filters=[[51, 2]]),
    )


def test_an_empty_table_is_refused_when_it_is_used():
    embeddings = make_model(ElmoEmbeddings, head=EmbeddingsHead(**SIZES))
    assert_refused(ValueError, "word table", embeddings, **encode([["a"]]))
