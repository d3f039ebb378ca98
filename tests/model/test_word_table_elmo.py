"""The table of word vectors: a dict of words that is looked up by their rows, and that travels with a checkpoint."""

import pytest
import torch
from conftest import make_tiny_config
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused
from tolerances import BFLOAT16, REORDERED_FLOAT64

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining, ElmoForTokenClassification, ElmoModel, kernels
from hf_elmo.inference.embedding import embed
from hf_elmo.inference.scoring import score_sentences
from hf_elmo.model import modeling_elmo as module
from hf_elmo.model.modeling_elmo import ElmoWordTable, hash_rows
from hf_elmo.pretraining.lanes import fill_lanes
from hf_elmo.pretraining.objective import LaneObjective
from hf_elmo.text.vocabulary import WordVocabulary
from hf_elmo.text.word_vectors import build_word_table, set_token_inputs

TOKENIZER = ElmoCharTokenizer()
VOCABULARY = WordVocabulary(["<S>", "</S>", "<UNK>", *"abc"])
# One word has a row that is full, one a character of several bytes.
WORDS = ["a", "b", "c", "<S>", "</S>", "né", "x" * 48]
words = st.text(st.characters(blacklist_categories=["Cs"]), max_size=6)
with_table = pytest.mark.parametrize("token_inputs", ["words", "both"])


def rows_of(*words: str) -> torch.Tensor:
    return torch.from_numpy(TOKENIZER.encode_words(words))


def make_model(token_inputs, cls=ElmoModel, **fields):
    """A model in evaluation mode whose weights are large enough for any mistake to show."""
    model = cls(make_tiny_config(token_inputs=token_inputs, word_table_size=7, word_vector_size=5, **fields))
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-0.7, 0.7)
    build_word_table(TOKENIZER, WORDS).fill(model)
    return model.eval()


def encode(sentences):
    return TOKENIZER(sentences, is_split_into_words=True, padding=True, return_tensors="pt")


# Look-up


@given(known=st.lists(words, min_size=1, unique=True), asked=st.lists(words))
def test_a_table_is_a_dict_with_a_default(known, asked):
    table = ElmoWordTable(len(known), 3)
    vectors, unknown = torch.randn(len(known), 3), torch.randn(3)
    table.fill(rows_of(*known), vectors, unknown)
    wanted = dict(zip(known, vectors, strict=True))
    asked = [*asked, *known[::-1]]
    assert torch.equal(table(rows_of(*asked)), torch.stack([wanted.get(word, unknown) for word in asked]))


def test_words_that_are_not_known_share_the_first_row():
    table = ElmoWordTable(2, 4)
    before = table.weight.detach().clone()
    table.fill(rows_of("a", "b"))
    assert torch.equal(table.weight, before)
    assert torch.equal(table(rows_of("c", "aa", "")), before[:1].expand(3, 4))
    assert sorted(table.places(rows_of("a", "b")).tolist()) == [1, 2]


def test_no_words_have_no_vectors():
    table = ElmoWordTable(1, 4)
    table.fill(rows_of("a"))
    assert table(rows_of("a")[:0]).shape == (0, 4)


def test_rows_of_any_integer_type_and_in_any_number_have_the_same_hashes(monkeypatch):
    rows = rows_of(*WORDS)
    wanted = hash_rows(rows)
    assert torch.equal(hash_rows(rows.to(torch.int16)), wanted)
    monkeypatch.setattr(module, "_WORDS_AT_A_TIME", 2)
    assert torch.equal(hash_rows(rows), wanted)


def test_hashes_never_change():
    """Checkpoints hold them."""
    assert hash_rows(rows_of("the", "<S>", "né")).tolist() == [
        -4462748471680015666,
        -4688990378240097683,
        -7482854076689013479,
    ]


@given(row=st.lists(st.integers(0, 261), min_size=50, max_size=50), place=st.integers(0, 49), other=st.integers(0, 261))
def test_a_row_with_one_other_character_has_another_hash(row, place, other):
    changed = [*row[:place], other, *row[place + 1 :]]
    first, second = hash_rows(torch.tensor([row, changed])).tolist()
    assert (first == second) is (row == changed)
    as_signed = sum(a * b for a, b in zip(row, module._multipliers(50), strict=True)) % 2**64
    assert first % 2**64 == as_signed


# Filling


def test_two_words_with_one_hash_are_both_named(monkeypatch):
    monkeypatch.setattr(module, "_multipliers", lambda count: (1,) * count)
    assert_refused(ValueError, ("'on'", "'no'"), ElmoWordTable(3, 2).fill, rows_of("on", "a", "no"))


def test_a_word_twice_is_named():
    assert_refused(ValueError, "'né'", ElmoWordTable(3, 2).fill, rows_of("né", "a", "né"))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"rows": rows_of("a")}, ("rows", "(1, 50)", "(2, 50)")),
        ({"rows": rows_of("a", "b")[0]}, ("rows", "(50,)")),
        ({"vectors": torch.zeros(2, 4)}, ("vectors", "(2, 4)", "(2, 3)")),
        ({"vectors": torch.zeros(3, 3)}, ("vectors", "(3, 3)")),
        ({"unknown": torch.zeros(4)}, ("unknown", "(4,)", "(3,)")),
    ],
)
def test_shapes_that_disagree_are_refused_by_name(arguments, named):
    given = {"rows": rows_of("a", "b"), **arguments}
    assert_refused(ValueError, (*named, "word_table_size"), ElmoWordTable(2, 3).fill, **given)


@with_table
def test_a_table_that_was_never_filled_is_refused(token_inputs):
    model = ElmoModel(make_tiny_config(token_inputs=token_inputs, word_table_size=2, word_vector_size=3))
    assert_refused(ValueError, "word table", model, **encode([["a"]]))


# In a checkpoint


@with_table
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("cls", [ElmoModel, ElmoForPreTraining, ElmoForTokenClassification])
def test_a_table_comes_back_equal_in_every_precision(cls, dtype, token_inputs, tmp_path):
    model = make_model(token_inputs, ElmoForPreTraining, word_vocab_size=9)
    model.save_pretrained(tmp_path)
    loaded, report = cls.from_pretrained(tmp_path, dtype=dtype, output_loading_info=True)
    assert not any(name.startswith("elmo.") or "word_table" in name for name in report["missing_keys"])
    saved, found = (each.base_model.token_encoder.word_table for each in (model, loaded))
    assert torch.equal(found.hashes, saved.hashes) and found.hashes.dtype == torch.long
    assert torch.equal(found.weight, saved.weight.to(dtype))
    batch = encode([["a", "zz", "né"], ["x" * 48]])
    atol = 0 if dtype == torch.float32 else BFLOAT16
    # Both in inference: what is to be trained runs in another order of additions.
    with torch.no_grad():
        wanted = model.elmo(**batch).last_hidden_state
        vectors = loaded.eval().base_model(**batch).last_hidden_state
    torch.testing.assert_close(vectors.float(), wanted, rtol=0, atol=atol)


def test_a_table_that_the_checkpoint_lacks_starts_empty(tmp_path):
    """Not with what the memory held."""
    ElmoModel(make_tiny_config()).save_pretrained(tmp_path)
    config = make_tiny_config(token_inputs="both", word_table_size=7, word_vector_size=5)
    model, report = ElmoModel.from_pretrained(
        tmp_path, config=config, ignore_mismatched_sizes=True, output_loading_info=True
    )
    table = model.token_encoder.word_table
    assert {"token_encoder.word_table.hashes", "token_encoder.word_table.weight"} == set(report["missing_keys"])
    assert (table.hashes == module.NOT_FILLED).all()
    assert table.weight.abs().max() <= 1 and table.weight.std() > 0.3


# In a model


@with_table
def test_batch_mates_and_padding_change_no_vector(token_inputs):
    model = make_model(token_inputs).double()
    sentences = [["a", "zz", "b"], ["né"], ["x" * 48, "x" * 50, "c", "c"]]
    batch = encode(sentences)
    together = model(**batch).last_hidden_state
    for row, sentence in enumerate(sentences):
        alone = model(**encode([sentence])).last_hidden_state[0]
        torch.testing.assert_close(together[row, : len(alone)], alone, rtol=0, atol=REORDERED_FLOAT64)


def test_unknown_words_are_told_apart_by_their_characters_alone():
    batch = encode([["zz"], ["yy"]])
    for token_inputs, alike in (("words", True), ("both", False)):
        first, second = make_model(token_inputs).double()(**batch).last_hidden_state
        assert torch.allclose(first, second, rtol=0, atol=REORDERED_FLOAT64) is alike


@with_table
def test_vectors_kept_from_batch_to_batch_are_those_of_the_table_as_it_is(token_inputs):
    model = make_model(token_inputs).double()
    encoder, rows = model.token_encoder, rows_of("a", "zz", "a")
    kernels.cache_words(encoder, 10)
    with torch.no_grad():
        first = encoder.encode_distinct(rows)
        assert torch.equal(encoder.encode_distinct(rows), first)
        # The words change places; not a number of the weights does.
        encoder.word_table.fill(rows_of("zz", "b", "c", "d", "e", "f", "g"))
        second = encoder.encode_distinct(rows)
        torch.testing.assert_close(second, encoder(rows), rtol=0, atol=REORDERED_FLOAT64)
        assert (second - first).abs().max() > 0.01


@with_table
def test_a_table_can_be_kept_as_it_is_while_the_rest_is_trained(token_inputs, tmp_path):
    model = make_model(token_inputs, ElmoForPreTraining, word_vocab_size=9, train_word_vectors=False)
    model.save_pretrained(tmp_path)
    for each in (model, ElmoForPreTraining.from_pretrained(tmp_path)):
        resting = {name for name, parameter in each.named_parameters() if not parameter.requires_grad}
        assert resting == {"elmo.mixes.0.weight", "elmo.mixes.0.scale", "elmo.token_encoder.word_table.weight"}
    tagger = ElmoForTokenClassification.from_pretrained(tmp_path, freeze_bilm=False)
    encoder = tagger.elmo.token_encoder
    assert encoder.projection.weight.requires_grad and not encoder.word_table.weight.requires_grad
    tagger.freeze_bilm()
    tagger.freeze_bilm(False)
    assert encoder.projection.weight.requires_grad and not encoder.word_table.weight.requires_grad


@pytest.mark.parametrize("token_inputs", ["characters", "words", "both"])
def test_a_few_steps_over_lanes_lower_the_loss_whatever_is_read(token_inputs):
    config = make_tiny_config(word_vocab_size=len(VOCABULARY), dropout=0.0)
    table = set_token_inputs(config, TOKENIZER, VOCABULARY, token_inputs, report=lambda line: None)
    model = ElmoForPreTraining(config)
    if table is not None:
        table.fill(model)
    objective = LaneObjective(model).train()
    (window,) = fill_lanes([list("abcabz"), list("cabcab")], TOKENIZER, VOCABULARY, 2, 8)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.03)
    losses = []
    for _ in range(15):
        loss = objective(window).mean
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]


@with_table
def test_embedding_takes_a_table_as_it_takes_characters(token_inputs):
    model = make_model(token_inputs).double()
    sentences = [["a", "zz"], ["né", "b", "c"]]
    for sentence, array in zip(sentences, embed(model, TOKENIZER, sentences), strict=True):
        wanted = model(**encode([sentence])).last_hidden_state[0, 1:-1].detach()
        torch.testing.assert_close(torch.from_numpy(array), wanted, rtol=0, atol=REORDERED_FLOAT64)


@with_table
def test_scoring_takes_a_table_as_it_takes_characters(token_inputs):
    model = make_model(token_inputs, ElmoForPreTraining, word_vocab_size=len(VOCABULARY)).double()
    (scores,) = score_sentences(model, TOKENIZER, VOCABULARY, [["a", "zz", "b"]])
    logits = model(**encode([["a", "zz", "b"]])).forward_logits[0].detach()
    wanted = torch.log_softmax(logits, -1)[[0, 1, 2], VOCABULARY.encode(["a", "zz", "b"])]
    torch.testing.assert_close(torch.as_tensor(scores.forward), wanted, rtol=0, atol=REORDERED_FLOAT64)
