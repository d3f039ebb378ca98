"""The question answering model: its readers by a plain twin, best spans by brute force, its loss and refusals."""

import random

import pytest
import torch
from conftest import make_tiny_config
from examples import examples
from huggingface_hub.errors import StrictDataclassError
from hypothesis import given
from hypothesis import strategies as st
from model_cases import LAYERS, P, make_model, sentence_lists
from refusals import assert_refused
from tolerances import BFLOAT16, REORDERED_FLOAT32, REORDERED_FLOAT64
from torch import nn
from torch.nn import functional as F
from transformers import AutoModelForQuestionAnswering, pipeline

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining, ElmoForQuestionAnswering, QuestionAnsweringHead
from hf_elmo.model.modeling_elmo import pack_layers
from hf_elmo.model.modeling_elmo_tasks import best_spans

SMALL = {"hidden_size": 3, "character_filters": ((2, 3),), "character_embedding_size": 2}
HEADS = {
    "self_attention": {},
    "self_attention, two mixes": {"mix_at_output": True},
    "bidaf": {"reader": "bidaf"},
    "bidaf, two mixes": {"reader": "bidaf", "mix_at_output": True, "modeling_layers": 1, "highway_layers": 1},
    "bidaf, no ELMo": {"reader": "bidaf", "use_elmo": False},
}
each_head = pytest.mark.parametrize("name", HEADS)
QUESTIONS = [["a", "bc"], ["é", "a", "b", "c"], ["d"]]
CONTEXTS = [["d", "e", "f", "aa", "b"], ["c"], ["a", "bb", "c"]]


def make_reader(name="self_attention", **fields) -> ElmoForQuestionAnswering:
    """In evaluation mode, with weights that show any mistake."""
    return make_model(ElmoForQuestionAnswering, head=QuestionAnsweringHead(**{**SMALL, **HEADS[name]}), **fields)


@pytest.fixture(scope="module")
def readers() -> dict[str, ElmoForQuestionAnswering]:
    """One of each head in float64, for tests that change none."""
    return {name: make_reader(name, dtype=torch.float64) for name in HEADS}


def encode_pairs(questions, contexts, **arguments) -> dict:
    return dict(
        ElmoCharTokenizer()(
            questions, contexts, is_split_into_words=True, padding=True, return_tensors="pt", **arguments
        )
    )


def context_places(batch: dict) -> list[list[int]]:
    """Of each row, the places of the context's words: between the two last markers."""
    places = []
    for types, mask in zip(batch["token_type_ids"], batch["attention_mask"], strict=True):
        places.append(torch.nonzero(types.bool() & mask.bool()).flatten().tolist()[1:-1])
    return places


def scores_of_words(model, batch) -> list[torch.Tensor]:
    """The logits of each row's context words, (words, 2), in their order."""
    output = model(**batch)
    both = torch.stack([output.start_logits, output.end_logits], dim=-1)
    return [both[row, places] for row, places in enumerate(context_places(batch))]


def assert_close(found, wanted, tolerance=REORDERED_FLOAT64):
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)


# The readers, by their definitions: one pair at a time, without padding, with PyTorch's own recurrences


def run_plainly(recurrence, vectors):
    kind = {"LSTM": nn.LSTM, "GRU": nn.GRU}[recurrence.mode]
    plain = kind(
        recurrence.input_size,
        recurrence.hidden_size,
        recurrence.num_layers,
        bidirectional=True,
        batch_first=True,
        dtype=vectors.dtype,
    )
    weights = dict(recurrence.named_parameters())
    return torch.func.functional_call(plain, weights, (vectors.unsqueeze(0),))[0][0]


def score_plainly(module, h, q):
    one, two, three = module.weight[0].chunk(3)
    return one @ h + two @ q + three @ (h * q)


def attend_plainly(module, context, question):
    scores = torch.stack([torch.stack([score_plainly(module.scores, h, q) for q in question]) for h in context])
    best = torch.softmax(scores.max(dim=1).values, dim=0)
    summary = sum(weight * h for weight, h in zip(best, context, strict=True))
    rows = []
    for h, row in zip(context, scores, strict=True):
        found = sum(weight * q for weight, q in zip(torch.softmax(row, dim=0), question, strict=True))
        rows.append(torch.cat([h, found, h * found, h * summary]))
    return torch.stack(rows)


def attend_to_itself_plainly(module, words):
    rows = []
    for place, x in enumerate(words):
        weights = [torch.exp(score_plainly(module.scores, x, y)) for y in words]
        total = module.score_of_none.exp() + sum(weight for other, weight in enumerate(weights) if other != place)
        found = sum(
            (weights[other] / total * y for other, y in enumerate(words) if other != place), torch.zeros_like(x)
        )
        rows.append(torch.cat([found, x, found * x]))
    return torch.stack(rows)


def read_plainly(reader, question, context, question_mix, context_mix):
    """Start and end scores of one pair's context, (words, 2)."""

    def encode(vectors, mix):
        for highway in getattr(reader, "highways", ()):
            gate = torch.sigmoid(highway.carry(vectors))
            vectors = gate * F.relu(highway.transform(vectors)) + (1 - gate) * vectors
        encoded = run_plainly(reader.encoder, vectors)
        return encoded if mix is None else torch.cat([encoded, mix], dim=1)

    attended = attend_plainly(reader.attention, encode(context, context_mix), encode(question, question_mix))
    if hasattr(reader, "modeling"):
        modeled = run_plainly(reader.modeling, attended)
        start = reader.start_scores(torch.cat([attended, modeled], dim=1))
        expected = (torch.softmax(start, dim=0) * modeled).sum(dim=0).expand_as(modeled)
        ends = run_plainly(reader.end_encoder, torch.cat([attended, modeled, expected, modeled * expected], dim=1))
        return torch.cat([start, reader.end_scores(torch.cat([attended, ends], dim=1))], dim=1)
    merged = F.relu(F.linear(attended, reader.merge.weight, reader.merge.bias))
    inner = attend_to_itself_plainly(reader.self_attention, run_plainly(reader.inner_encoder, merged))
    merged = merged + F.relu(F.linear(inner, reader.inner_merge.weight, reader.inner_merge.bias))
    start = run_plainly(reader.start_encoder, merged)
    end = run_plainly(reader.end_encoder, torch.cat([merged, start], dim=1))
    return torch.cat([reader.start_scores(start), reader.end_scores(end)], dim=1)


@each_head
def test_a_plain_twin_gives_the_same_scores_and_gradients(name, readers):
    model = readers[name]
    batch = encode_pairs(QUESTIONS, CONTEXTS)
    words = model.embed(**batch)
    vectors = words.last_hidden_state
    mixes = words.elmo_representations
    plain = []
    for row, (question, context) in enumerate(zip(QUESTIONS, CONTEXTS, strict=True)):
        asked = slice(1, 1 + len(question))
        read = slice(len(question) + 3, len(question) + 3 + len(context))
        mix = (mixes[1][row, asked], mixes[1][row, read]) if model.mix_at_output else (None, None)
        plain.append(read_plainly(model.reader, vectors[row, asked], vectors[row, read], *mix))
    found = scores_of_words(model, batch)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    factors = [torch.randn_like(scores) for scores in plain]
    gradients = [
        torch.autograd.grad(sum((a * b).sum() for a, b in zip(scores, factors, strict=True)), parameters)
        for scores in (found, plain)
    ]
    for one, other in zip(found, plain, strict=True):
        assert_close(one, other)
    for one, other in zip(*gradients, strict=True):
        assert_close(one, other, 100 * REORDERED_FLOAT64)
    assert any(gradient.abs().max() > 0 for gradient in gradients[0])


# What the scores depend on


def scatter_words(batch: dict, length: int, seed: int) -> dict:
    """The same words at other places: padding anywhere, question and context mixed, each in its order."""
    draw = random.Random(seed)
    moved = {key: value.new_zeros(value.shape[0], length, *value.shape[2:]) for key, value in batch.items()}
    for row, mask in enumerate(batch["attention_mask"].bool()):
        texts = [torch.nonzero(mask & (batch["token_type_ids"][row] == kind)).flatten().tolist() for kind in (0, 1)]
        order = draw.sample([0] * len(texts[0]) + [1] * len(texts[1]), int(mask.sum()))
        for place, kind in zip(sorted(draw.sample(range(length), len(order))), order, strict=True):
            source = texts[kind].pop(0)
            for key, value in batch.items():
                moved[key][row, place] = value[row, source]
    return moved


@each_head
@examples(7)
@given(texts=sentence_lists, extra=st.integers(0, 3), seed=st.integers(0, 99))
def test_scores_depend_on_the_words_and_their_order_alone(name, readers, texts, extra, seed):
    model, questions = readers[name], [text[1:][::-1] for text in texts]
    batch = encode_pairs(questions, texts)
    together = scores_of_words(model, batch)
    moved = scatter_words(batch, batch["input_ids"].shape[1] + extra, seed)
    left = encode_pairs(questions, texts, padding_side="left")
    for row, scores in enumerate(together):
        assert_close(scores_of_words(model, moved)[row], scores)
        assert_close(scores_of_words(model, left)[row], scores)
        assert_close(scores_of_words(model, encode_pairs(questions[row : row + 1], texts[row : row + 1]))[0], scores)


@each_head
def test_everything_but_the_words_of_the_context_is_masked_out(name, readers):
    model = readers[name]
    batch = encode_pairs(QUESTIONS, CONTEXTS)
    output = model(**batch)
    lowest = torch.finfo(torch.float64).min
    for logits in (output.start_logits, output.end_logits):
        for row, places in enumerate(context_places(batch)):
            assert (logits[row] > lowest).nonzero().flatten().tolist() == places


def test_a_word_that_looks_like_a_marker_can_be_an_answer(readers):
    batch = encode_pairs([["a", "</S>"]], [["<S>", "b", "</S>", "c"]])
    logits = readers["self_attention"](**batch).start_logits[0]
    assert (logits > torch.finfo(torch.float64).min).nonzero().flatten().tolist() == [5, 6, 7, 8]


@each_head
def test_texts_without_words_are_read(name, readers):
    model = readers[name]
    batch = encode_pairs([[], ["a"], []], [["a", "b"], [], []])
    positions = torch.tensor([3, -100, -100])
    output = model(**batch, start_positions=positions, end_positions=positions)
    assert output.loss.isfinite()
    wanted = [parameter for parameter in model.parameters() if parameter.requires_grad]
    gradients = torch.autograd.grad(output.loss, wanted)
    assert all(gradient.isfinite().all() for gradient in gradients)


@each_head
def test_layers_computed_before_give_the_same(name, readers):
    model = readers[name]
    batch = encode_pairs(QUESTIONS, CONTEXTS)
    _, layers, _ = model.elmo.run_layers(**batch)
    packed = pack_layers(layers)
    assert packed.shape[-1] == P * (1 + 2 * LAYERS)
    for logits in ("start_logits", "end_logits"):
        assert_close(model(**batch, packed_layers=packed)[logits], model(**batch)[logits])


def test_half_precision_reads_as_full_does():
    batch = encode_pairs(QUESTIONS, CONTEXTS)
    for name in ("self_attention", "bidaf"):
        full = make_reader(name)
        wanted = scores_of_words(full, batch)
        found = scores_of_words(make_reader(name, dtype=torch.bfloat16), batch)
        for one, other in zip(found, wanted, strict=True):
            assert one.dtype == torch.bfloat16
            assert_close(one.float(), other, BFLOAT16)


# The loss


def test_the_loss_is_transformers_mean_over_the_rows_with_an_answer(readers):
    model = readers["self_attention"]
    batch = encode_pairs(QUESTIONS, CONTEXTS)
    places = context_places(batch)
    start, end = torch.tensor([places[0][1], -100, places[2][0]]), torch.tensor([places[0][3], -100, places[2][2]])
    output = model(**batch, start_positions=start, end_positions=end)
    wanted = [F.cross_entropy(output.start_logits, start), F.cross_entropy(output.end_logits, end)]
    assert_close(output.loss.double(), torch.stack(wanted).mean(), REORDERED_FLOAT32)
    nothing = torch.full((3,), -100)
    assert model(**batch, start_positions=nothing, end_positions=nothing).loss == 0
    assert model(**batch).loss is None


def test_the_mixes_are_drawn_together_in_training_alone():
    model = make_reader("self_attention, two mixes", mix_l2=0.5)
    batch = encode_pairs(QUESTIONS, CONTEXTS)
    places = torch.tensor([row[0] for row in context_places(batch)])
    with torch.no_grad():
        for mix in model.elmo.mixes:
            mix.weight.copy_(torch.tensor([1.0, 2.0, 0.0]))
    for module in model.modules():
        if isinstance(module, (nn.Dropout, nn.Dropout1d)):
            module.p = 0.0
    losses = [model.train(mode)(**batch, start_positions=places, end_positions=places).loss for mode in (True, False)]
    assert_close(losses[0] - losses[1], torch.tensor(0.5 * 2 * 5.0), REORDERED_FLOAT32)


@pytest.mark.parametrize(
    ("changes", "error", "names"),
    [
        ({"start_positions": torch.tensor([0, 7, 5])}, ValueError, ("start_positions", "0", "row 0")),
        ({"end_positions": torch.tensor([5, 7, 99])}, ValueError, ("end_positions", "99", "row 2")),
        ({"start_positions": torch.tensor([5, 7])}, ValueError, ("start_positions", "(2,)")),
        ({"start_positions": torch.tensor([5.0, 7.0, 4.0])}, TypeError, ("start_positions", "float32")),
        ({"token_type_ids": None}, ValueError, ("token_type_ids", "text_pair")),
    ],
)
def test_what_cannot_be_read_is_refused(readers, changes, error, names):
    batch = encode_pairs(QUESTIONS, CONTEXTS)
    places = torch.tensor([row[0] for row in context_places(batch)])
    given = {**batch, "start_positions": places, "end_positions": places, **changes}
    assert_refused(error, names, readers["self_attention"], **given)


# The best spans

scores = st.floats(-5, 5, width=32)


@given(data=st.data(), rows=st.integers(1, 3), length=st.integers(1, 8), bound=st.one_of(st.none(), st.integers(1, 10)))
def test_the_best_spans_are_those_of_brute_force(data, rows, length, bound):
    table = st.lists(st.lists(scores, min_size=length, max_size=length), min_size=rows, max_size=rows)
    start, end = torch.tensor(data.draw(table)), torch.tensor(data.draw(table))
    allowed = torch.tensor(
        data.draw(st.lists(st.lists(st.booleans(), min_size=length, max_size=length), min_size=rows, max_size=rows))
    )
    allowed[:, data.draw(st.integers(0, length - 1))] = True
    lowest = torch.finfo(torch.float32).min
    start, end = start.masked_fill(~allowed, lowest), end.masked_fill(~allowed, lowest)
    spans = best_spans(start, end, bound)
    start_shares, end_shares = start.double().softmax(dim=1), end.double().softmax(dim=1)
    for row in range(rows):
        first, last = int(spans.starts[row]), int(spans.ends[row])
        every = [
            float(start_shares[row, i] * end_shares[row, j])
            for i in range(length)
            for j in range(i, min(length, length if bound is None else i + bound))
            if allowed[row, i] and allowed[row, j]
        ]
        assert allowed[row, first] and allowed[row, last]
        assert 0 <= last - first < (bound or length)
        assert float(start_shares[row, first] * end_shares[row, last]) == pytest.approx(max(every), rel=1e-5)
        assert float(spans.probabilities[row]) == pytest.approx(max(every), rel=1e-5)


def test_the_model_keeps_to_its_settings_bound():
    start, end = torch.zeros(1, 6), torch.tensor([[0.0, 0.1, 0.2, 0.3, 0.4, 9.0]])
    start[0, 0] = 5.0
    model = make_reader()
    model.max_answer_words = 2
    assert [int(place) for place in model.best_spans(start, end)[:2]] == [4, 5]
    assert [int(place) for place in best_spans(start, end)[:2]] == [0, 5]
    with pytest.raises(ValueError, match="max_words"):
        best_spans(start, end, 0)


# Settings, weights and files


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"reader": "bert"}, "reader"),
        ({"hidden_size": 0}, "hidden_size"),
        ({"hidden_dropout": 1.0}, "hidden_dropout"),
        ({"highway_layers": 1}, "highway_layers"),
        ({"modeling_layers": 0}, "modeling_layers"),
        ({"max_answer_words": 0}, "max_answer_words"),
        ({"mix_at_output": True, "use_elmo": False, "character_filters": ((2, 3),)}, "mix_at_output"),
    ],
)
def test_settings_that_make_no_sense_are_refused(fields, name):
    with pytest.raises(StrictDataclassError, match=name):
        QuestionAnsweringHead(**fields)


def test_sizes_are_as_published_unless_they_are_given():
    heads = [QuestionAnsweringHead(reader=reader) for reader in ("self_attention", "bidaf")]
    assert [(head.hidden_size, head.highway_layers) for head in heads] == [(90, 0), (100, 2)]
    model = ElmoForQuestionAnswering(make_tiny_config(head=heads[0]))
    assert model.reader.merge.out_features == 180
    assert model.reader.self_attention.score_of_none.item() == -1


@each_head
def test_a_saved_reader_reads_the_same(name, tmp_path):
    model = make_reader(name)
    model.save_pretrained(tmp_path)
    batch = encode_pairs(QUESTIONS, CONTEXTS)
    for cls in (ElmoForQuestionAnswering, AutoModelForQuestionAnswering):
        loaded = cls.from_pretrained(tmp_path).eval()
        assert isinstance(loaded, ElmoForQuestionAnswering)
        assert loaded.config.head == model.config.head
        found, wanted = loaded(**batch), model(**batch)
        assert_close(found.start_logits, wanted.start_logits, REORDERED_FLOAT32)
        assert_close(found.end_logits, wanted.end_logits, REORDERED_FLOAT32)


def test_a_pretrained_checkpoint_gets_a_new_reader(tmp_path):
    ElmoForPreTraining(make_tiny_config(word_vocab_size=9)).save_pretrained(tmp_path)
    head = QuestionAnsweringHead(hidden_size=4)
    model, info = ElmoForQuestionAnswering.from_pretrained(tmp_path, head=head, output_loading_info=True)
    assert {key.partition(".")[0] for key in info["missing_keys"]} == {"reader"}
    assert model.reader.self_attention.score_of_none.item() == -1
    for weight in model.reader.parameters():
        assert weight.isfinite().all()


# The pipeline

CONTEXT = "The cat, which  sat on the mat, was “grey”. Nobody saw the dog at all."


@pytest.fixture(scope="module")
def answering(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reader")
    make_reader().save_pretrained(folder)
    ElmoCharTokenizer(pre_tokenizer="unicode").save_pretrained(folder)
    return pipeline("extractive-question-answering", model=str(folder))


def test_the_pipeline_gives_pieces_of_the_raw_context(answering, tmp_path):
    found = answering(question="Who sat on the mat?", context=CONTEXT)
    assert found["answer"] == CONTEXT[found["start"] : found["end"]] and 0 < found["score"] <= 1
    tokenizer, model = answering.tokenizer, answering.model
    batch = tokenizer("Who sat on the mat?", CONTEXT, return_tensors="pt", return_offsets_mapping=True)
    offsets = batch.pop("offset_mapping")[0].tolist()
    output = model(**batch)
    spans = best_spans(output.start_logits, output.end_logits, 17)
    assert [found["start"], found["end"]] == [offsets[int(spans.starts)][0], offsets[int(spans.ends)][1]]
    assert found["score"] == pytest.approx(spans.probabilities.item(), rel=1e-5)
    answering.save_pretrained(tmp_path)
    assert "custom_pipelines" not in (tmp_path / "config.json").read_text()


def test_the_pipeline_takes_lists_and_batches_on_both_sides(answering):
    asked = [{"question": f"Where {'very ' * number}?", "context": CONTEXT[number * 5 :]} for number in range(5)]
    one_by_one = [answering(each) for each in asked]
    columns = {name: [each[name] for each in asked] for name in ("question", "context")}
    assert answering(**columns) == one_by_one
    for side in ("right", "left"):
        answering.tokenizer.padding_side = side
        together = answering(asked, batch_size=3)
        answering.tokenizer.padding_side = "right"
        for found, wanted in zip(together, one_by_one, strict=True):
            assert {**found, "score": 0} == {**wanted, "score": 0}
            assert found["score"] == pytest.approx(wanted["score"], rel=1e-4)
    both = answering(question=["Who?", "Where?"], context=CONTEXT)
    assert both == [answering(question=question, context=CONTEXT) for question in ("Who?", "Where?")]
    assert answering(question="Who?", context=CONTEXT, max_answer_words=1)["answer"].split()[1:] == []


def test_the_pipeline_reads_long_contexts_in_windows(answering):
    long = " ".join([CONTEXT] * 4)
    whole = answering(question="Who?", context=long)
    assert answering(question="Who?", context=long, max_length=500, stride=3) == whole
    pieces = answering(question="Who?", context=long, max_length=20, stride=5)
    assert pieces["answer"] == long[pieces["start"] : pieces["end"]] != ""
    # Each window as a context of its own: the best of their answers, by the sum of its logits.
    encoded = answering.tokenizer(
        "Who?", long, truncation="only_second", max_length=20, stride=5, return_overflowing_tokens=True, padding=True,
        return_tensors="pt",
    )  # fmt: skip
    offsets = [encoding.offsets for encoding in encoded.encodings]
    encoded.pop("overflow_to_sample_mapping")
    output = answering.model(**encoded)
    spans = best_spans(output.start_logits, output.end_logits, 17)
    rows = range(len(offsets))
    best = max(
        rows, key=lambda row: output.start_logits[row, spans.starts[row]] + output.end_logits[row, spans.ends[row]]
    )
    assert len(rows) > 3
    assert pieces["start"] == offsets[best][spans.starts[best]][0]
    assert pieces["end"] == offsets[best][spans.ends[best]][1]


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"question": "Who?", "context": " "}, ("context",)),
        ({"question": "", "context": "a b"}, ("question",)),
        ({"question": "Who?"}, ("context",)),
        ({"question": ["Who?", "Where?"], "context": ["a"]}, ("question", "2", "1")),
        ({"question": "Who?", "context": "a b", "stride": 3}, ("stride", "max_length")),
        ({"question": "Who? Me? You?", "context": "a b", "max_length": 8}, ("max_length", "8")),
        ({"question": "Who?", "context": "a b", "max_seq_len": 8}, ("max_seq_len",)),
    ],
)
def test_the_pipeline_refuses_what_it_cannot_read(answering, given, names):
    assert_refused(ValueError, names, answering, **given)
