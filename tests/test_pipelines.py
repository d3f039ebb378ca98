"""transformers' pipelines over rows of characters: right places in the text, and nothing changed for other models."""

import functools
import re

import numpy as np
import pytest
import torch
from conftest import make_tiny_config
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from model_cases import make_model
from refusals import assert_refused
from tolerances import REORDERED_FLOAT32
from transformers import AutoModel, BertConfig, BertForTokenClassification, BertModel, BertTokenizer, pipeline
from transformers.dynamic_module_utils import get_class_from_dynamic_module
from transformers.pipelines.token_classification import TokenClassificationPipeline

from hf_elmo import (
    CoreferenceHead,
    ElmoCharTokenizer,
    ElmoForCoreferenceResolution,
    ElmoForQuestionAnswering,
    ElmoForSemanticRoleLabeling,
    ElmoForTokenClassification,
    ElmoModel,
    QuestionAnsweringHead,
    SemanticRoleLabelingHead,
)
from hf_elmo.model.modeling_elmo_coref import read_clusters
from hf_elmo.model.modeling_elmo_tasks import best_spans
from hf_elmo.model.tokenization_elmo import PRE_TOKENIZERS
from hf_elmo.pipelines import ElmoFeatureExtractionPipeline, ElmoTokenClassificationPipeline

LABELS = {0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC", 4: "I-LOC"}
STRATEGIES = ["none", "simple", "first", "average", "max"]
SENTENCE = "  Dr. Ann-Marie O\u2019Neil   met e\u0301douard in Nai\u0308ve-Ville (日本 \U0001f468\u200d\U0001f469) ."


class TaggedModel(ElmoForTokenClassification):
    """A tagger that goes by a word's first letter, so that what it ought to say is known beforehand."""

    def forward(self, input_ids, **kwargs):
        outputs = super().forward(input_ids, **kwargs)
        first = input_ids[..., 1] - 1
        label = torch.where((first >= ord("A")) & (first <= ord("Z")), 1, 0)
        label = label + 2 * (first == ord("l")) + 3 * (first == ord("i"))
        outputs["logits"] = torch.nn.functional.one_hot(label, len(LABELS)).float() * 5
        return outputs


def make_tagger(pre_tokenizer="whitespace", cls=TaggedModel, **arguments):
    torch.manual_seed(0)
    model = cls(make_tiny_config(id2label=LABELS)).eval()
    return pipeline(
        "token-classification", model=model, tokenizer=ElmoCharTokenizer(pre_tokenizer=pre_tokenizer), **arguments
    )


shared_tagger = functools.cache(make_tagger)


def expected_label(word: str) -> str:
    return "B-PER" if "A" <= word[0] <= "Z" else {"l": "I-PER", "i": "B-LOC"}.get(word[0], "O")


def test_the_packages_pipelines_serve_a_model_of_a_checkpoints_own_code_too(tmp_path, code_cache):
    ElmoModel(make_tiny_config()).save_pretrained(tmp_path)
    copied = get_class_from_dynamic_module("modeling_elmo.ElmoModel", tmp_path).from_pretrained(tmp_path)
    assert type(copied).__module__.startswith("transformers_modules.")
    extractor = pipeline("feature-extraction", model=copied, tokenizer=ElmoCharTokenizer())
    assert type(extractor) is ElmoFeatureExtractionPipeline and len(extractor("a b")[0]) == 4
    assert type(make_tagger()) is ElmoTokenClassificationPipeline


@pytest.mark.parametrize("pre_tokenizer", PRE_TOKENIZERS)
def test_each_word_lies_where_it_stands(pre_tokenizer):
    tagger = make_tagger(pre_tokenizer, ignore_labels=[])
    words = tagger.tokenizer.tokenize(SENTENCE)
    found = tagger(SENTENCE)
    assert all(0.9 < entity["score"] <= 1 for entity in found)
    assert [entity["word"] for entity in found] == words
    assert [SENTENCE[entity["start"] : entity["end"]] for entity in found] == words
    assert [entity["entity"] for entity in found] == [expected_label(word) for word in words]
    assert [entity["index"] for entity in found] == list(range(1, len(words) + 1))


@pytest.mark.parametrize("strategy", STRATEGIES[1:])
def test_spans_of_bioes_are_grouped(strategy):
    # Labels of a capital, of another letter, of l and of i: S- and E-, which transformers does not know, among them.
    tagger = make_tagger(aggregation_strategy=strategy)
    tagger.model.config.id2label = {0: "O", 1: "S-PER", 2: "E-LOC", 3: "B-LOC", 4: "I-LOC"}
    text = "Ann Bob in lovely inns in lee . lee Al"
    found = [(one["entity_group"], text[one["start"] : one["end"]]) for one in tagger(text)]
    assert found == [
        *(("PER", "Ann"), ("PER", "Bob"), ("LOC", "in lovely"), ("LOC", "inns"), ("LOC", "in lee")),
        *(("LOC", "lee"), ("PER", "Al")),
    ]


@examples(15)
@given(text=st.text("Aia é\u0301.\U0001f600  ", min_size=1, max_size=25), strategy=st.sampled_from(STRATEGIES))
def test_entities_of_any_text_are_words_of_it(text, strategy):
    tagger = shared_tagger("punctuation")
    wanted = [word for word in tagger.tokenizer.tokenize(text) if expected_label(word) != "O"]
    found = tagger(text, aggregation_strategy=strategy)
    assert [text[entity["start"] : entity["end"]] for entity in found] == wanted


@pytest.mark.parametrize(("strategy", "delimiter"), [("none", None), ("simple", ""), ("simple", "--")])
def test_lists_of_words_are_placed_in_the_joined_sentence(strategy, delimiter):
    tagger = make_tagger("punctuation", aggregation_strategy=strategy, ignore_labels=["O"])
    sentences = [["Ann-Marie", "stays", "in", "\U0001f600", "Naïve", "Ville"], ["x", "Bob"]]
    given_delimiter = {} if delimiter is None else {"delimiter": delimiter}
    results = tagger(sentences, is_split_into_words=True, **given_delimiter)
    for words, found in zip(sentences, results, strict=True):
        joined = (" " if delimiter is None else delimiter).join(words)
        wanted = [word for word in words if expected_label(word) != "O"]
        assert [joined[entity["start"] : entity["end"]] for entity in found] == wanted
    single = tagger(sentences[0], is_split_into_words=True, **given_delimiter)
    assert (single[0] if isinstance(single[0], list) else single) == results[0]


def test_long_texts_can_be_read_in_windows_and_inside_tags_are_joined_with_the_word_before():
    tagger = make_tagger(aggregation_strategy="simple", stride=2)
    tagger.tokenizer.model_max_length = 8
    text = " ".join(f"Name{number} and" for number in range(12))
    found = tagger(text)
    assert [text[entity["start"] : entity["end"]] for entity in found] == [f"Name{number}" for number in range(12)]
    (person,) = tagger("Ann  lee sings")
    assert (person["entity_group"], person["start"], person["end"], person["word"]) == ("PER", 0, 8, "Ann lee")


# Features


def test_features_are_the_vectors_of_each_sentence():
    model = ElmoModel(make_tiny_config()).eval()
    tokenizer = ElmoCharTokenizer()
    extractor = pipeline("feature-extraction", model=model, tokenizer=tokenizer)
    sentences = ["A cat sat", "x", "on the mat ."]
    with torch.no_grad():
        wanted = [model(**tokenizer(text, return_tensors="pt")).last_hidden_state for text in sentences]
    for text, vectors in zip(sentences, wanted, strict=True):
        assert np.array_equal(np.array(extractor(text), dtype=np.float32), vectors.numpy())
    for found, vectors in zip(extractor(sentences, batch_size=2), wanted, strict=True):
        # Padding of a batch may follow the words; what is the words' own is the same.
        found = torch.tensor(found)[:, : vectors.shape[1]]
        torch.testing.assert_close(found, vectors, rtol=0, atol=REORDERED_FLOAT32)


def test_a_task_without_an_auto_class_loads_by_auto_model_and_gives_the_features_of_its_elmo(tmp_path):
    head = SemanticRoleLabelingHead(hidden_size=4, predicate_size=2, num_layers=2)
    model, tokenizer = ElmoForSemanticRoleLabeling(make_tiny_config(head=head)), ElmoCharTokenizer()
    torch.nn.init.normal_(next(model.elmo.mixes.parameters()))
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert type(AutoModel.from_pretrained(tmp_path)) is ElmoForSemanticRoleLabeling
    with torch.no_grad():
        wanted = ElmoModel.from_pretrained(tmp_path).eval()(**tokenizer("A cat sat", return_tensors="pt"))
    for named in (str(tmp_path), model.eval()):
        extractor = pipeline("feature-extraction", model=named, tokenizer=tokenizer, device="cpu")
        found = torch.as_tensor(extractor("A cat sat", return_tensors=True))
        assert torch.equal(found, wanted.last_hidden_state)


# Clusters and roles


def test_clusters_are_those_of_the_model_at_their_places_in_the_text():
    head = CoreferenceHead(lstm_size=3, hidden_size=4, feature_size=2, mention_loss=1.0, keep_singletons=True)
    torch.manual_seed(0)
    model = ElmoForCoreferenceResolution(make_tiny_config(head=head)).eval()
    # All spans are mentions, and each is linked to the nearest.
    torch.nn.init.ones_(model.spans.scorer.output.bias)
    resolver = pipeline("coreference-resolution", model=model, tokenizer=ElmoCharTokenizer(pre_tokenizer="penn"))
    text = "Alice slept. Bob's cat saw her!\n\n“Who?” asked Mr. Hill.\n"
    resolved, empty = resolver([text, " \n"], batch_size=2)
    assert resolved["text"] == text and empty == {"text": " \n", "sentences": [], "clusters": []}
    assert resolved["sentences"] == [
        ["Alice", "slept", "."],
        ["Bob", "'s", "cat", "saw", "her", "!"],
        ["“", "Who", "?", "”", "asked", "Mr.", "Hill", "."],
    ]
    batch = resolver.tokenizer(resolved["sentences"], is_split_into_words=True, padding=True, return_tensors="pt")
    with torch.no_grad():
        wanted = read_clusters(resolver.model(**batch).clusters[0])
    assert wanted and [[one["words"] for one in cluster] for cluster in resolved["clusters"]] == wanted
    words = [word for sentence in resolved["sentences"] for word in sentence]
    for mention in (mention for cluster in resolved["clusters"] for mention in cluster):
        assert text[mention["start"] : mention["end"]] == mention["text"]
        assert mention["text"].replace(" ", "") == "".join(words[slice(*mention["words"])])
    spaced = resolver("a b.c\n\n d\u00a0e", is_tokenized=True)
    assert spaced["sentences"] == [["a", "b.c"], ["d", "e"]]
    found = {one["text"] for cluster in spaced["clusters"] for one in cluster}
    assert found and found <= {"a", "b.c", "a b.c", "d", "e", "d\u00a0e"}


def make_labeler(find_predicates=True):
    names = dict(enumerate("O B-V B-ARG0 I-ARG0 B-ARG1 I-ARG1".split()))
    head = SemanticRoleLabelingHead(hidden_size=4, predicate_size=2, num_layers=2, find_predicates=find_predicates)
    torch.manual_seed(1)
    model = ElmoForSemanticRoleLabeling(make_tiny_config(head=head, id2label=names))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-1, 1)
        if find_predicates:
            model.finder[-1].bias.fill_(7.8)
    return pipeline("semantic-role-labeling", model=model.eval(), tokenizer=ElmoCharTokenizer(pre_tokenizer="penn"))


def test_roles_of_a_batch_are_those_of_each_predicate_alone():
    labeler = make_labeler()
    model, tokenizer = labeler.model, labeler.tokenizer
    sentences = [
        "Alice can't leave Bob a book.",
        "",
        {"text": ["Al", "x.y", "ran"], "predicates": [2, 0]},
        "Bob slept.",
    ]
    one_by_one = [labeler(sentence) for sentence in sentences]
    assert [" ".join(found["words"][:3]) for found in one_by_one] == ["Alice ca n't", "", "Al x.y ran", "Bob slept ."]
    assert [[frame["index"] for frame in found["frames"]] for found in one_by_one[1:3]] == [[], [0, 2]]
    assert sum(len(found["frames"]) for found in one_by_one) > 4
    for found in one_by_one:
        batch = tokenizer([found["words"]], is_split_into_words=True, return_tensors="pt")
        if found is not one_by_one[2]:
            with torch.no_grad():
                is_predicate = model(**batch).predicate_logits[0, 1:-1] > 0
            assert [frame["index"] for frame in found["frames"]] == is_predicate.nonzero().flatten().tolist()
        for frame in found["frames"]:
            marks = torch.zeros_like(batch["attention_mask"])
            marks[0, frame["index"] + 1] = 1
            with torch.no_grad():
                labels = model.decode(model(**batch, predicate_mask=marks).logits, batch["input_ids"])[0, 1:-1]
            assert frame["tags"] == [model.config.id2label[label] for label in labels.tolist()]
            assert frame["predicate"] == found["words"][frame["index"]]
            assert re.sub(r"\[\S+ |\]", "", frame["description"]) == " ".join(found["words"])
    for side in ("right", "left"):
        tokenizer.padding_side = side
        assert labeler(sentences, batch_size=3) == one_by_one


def test_what_the_pipeline_of_roles_refuses():
    assert_refused(ValueError, ("predicates", "find_predicates"), make_labeler(find_predicates=False), "a b")
    assert_refused(ValueError, ("predicates", "2"), make_labeler(), {"text": "a b", "predicates": [2]})
    assert_refused(TypeError, "'windows'", make_labeler(), "a", windows=1)


# Other models


@pytest.fixture(scope="module")
def bert_tokenizer(tmp_path_factory):
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ann", "lives", "in", "par", "##is", "."]
    path = tmp_path_factory.mktemp("bert") / "vocab.txt"
    path.write_text("\n".join(vocabulary))
    return BertTokenizer(str(path))


def make_bert(cls):
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    return cls(BertConfig(vocab_size=11, id2label=LABELS, label2id={v: k for k, v in LABELS.items()}, **sizes)).eval()


def test_other_models_are_served_as_by_transformers_own_pipelines(bert_tokenizer):
    model, sentences = make_bert(BertForTokenClassification), ["Ann lives in Paris .", "Paris"]
    for strategy in STRATEGIES:
        arguments = {"tokenizer": bert_tokenizer, "aggregation_strategy": strategy, "ignore_labels": []}
        ours = pipeline("token-classification", model=model, **arguments)
        assert type(ours) is ElmoTokenClassificationPipeline
        assert ours(sentences) == TokenClassificationPipeline(model=model, **arguments)(sentences)
    model = make_bert(BertModel)
    extractor = pipeline("feature-extraction", model=model, tokenizer=bert_tokenizer)
    with torch.no_grad():
        wanted = model(**bert_tokenizer("Ann lives", return_tensors="pt")).last_hidden_state
    assert np.array_equal(np.array(extractor("Ann lives"), dtype=np.float32), wanted.numpy())
    assert np.shape(extractor(["Ann lives", "Paris"], batch_size=2)[0])[-1] == 8


# Question answering

CONTEXT = "The cat, which  sat on the mat, was “grey”. Nobody saw the dog at all."


@pytest.fixture(scope="module")
def answering(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reader")
    make_model(ElmoForQuestionAnswering, head=QuestionAnsweringHead(hidden_size=3)).save_pretrained(folder)
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
    pieces = answering(question="Who?", context=long, max_length=24, stride=8)
    assert pieces["answer"] == long[pieces["start"] : pieces["end"]] != ""
    # Of 24 words four are the question's and two special tokens the context's: half of the rest is 9.
    windows = [
        answering(question="Who?", context=long, max_length=24, **how) for how in ({}, {"stride": 9}, {"stride": 6})
    ]
    assert windows[0] == windows[1] != windows[2]
    # Each window as a context of its own: the best of their answers, by the sum of its logits.
    how = {"truncation": "only_second", "max_length": 24, "stride": 8, "return_overflowing_tokens": True}
    encoded = answering.tokenizer("Who?", long, **how, padding=True, return_tensors="pt")
    offsets = [encoding.offsets for encoding in encoded.encodings]
    encoded.pop("overflow_to_sample_mapping")
    output = answering.model(**encoded)
    spans, rows = best_spans(output.start_logits, output.end_logits, 17), torch.arange(len(offsets))
    best = int((output.start_logits[rows, spans.starts] + output.end_logits[rows, spans.ends]).argmax())
    assert 0 < best < len(rows) - 1 and pieces["start"] == offsets[best][spans.starts[best]][0]
    assert pieces["end"] == offsets[best][spans.ends[best]][1]


def test_the_pipeline_refuses_what_it_cannot_read(answering):
    for inputs, names in (
        ({"question": "Who?", "context": " "}, "context"),
        ({"question": "", "context": "a b"}, "question"),
        ({"question": "Who?"}, "context"),
        ({"question": ["Who?", "Where?"], "context": ["a"]}, ("context", "1", "2")),
        ({"context": "a b"}, "question"),
        ({"question": "Who? Me? You?", "context": "a b", "max_length": 8}, ("max_length", "8")),
        ({"question": "Who?", "context": "a b", "max_seq_len": 8}, "max_seq_len"),
    ):
        assert_refused((ValueError, TypeError), names, answering, **inputs)
