"""ElmoConfig: what it takes and refuses, and that every way of copying and saving keeps it."""

import copy
import inspect
import json
import pickle
import re
from dataclasses import Field, fields, replace
from typing import Any, get_args

import pytest
import torch
from class_cases import CASES, config_of, each_class
from conftest import make_tiny_config
from huggingface_hub.errors import StrictDataclassError
from refusals import assert_refused
from torch.nn.modules.dropout import _DropoutNd
from transformers import AutoConfig

from hf_elmo import (
    ElmoCharTokenizer,
    ElmoConfig,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
)
from hf_elmo.model.configuration_elmo import (
    HEAD_TYPES,
    HeadConfig,
    QuestionAnsweringHead,
    SequenceClassificationHead,
    TokenClassificationHead,
    auto_map_of,
)

# Every documented field


# Of each documented field another value than its default, beside those that go with it; in the order of the docstring.
SETTINGS = [
    {
        "vocab_size": 7,
        "character_scheme": "dictionary",
        "padding_character_id": 4,
        "bos_token_id": 5,
        "eos_token_id": 6,
        "character_embedding_size": 4,
        "max_characters_per_word": 20,
        "filters": [[1, 3], [2, 5]],
        "filter_activation": "tanh",
        "num_highway_layers": 1,
    },
    {
        "token_inputs": "both",
        "word_table_size": 3,
        "word_vector_size": 2,
        "train_word_vectors": False,
        "filters": [[1, 6]],
        "project_tokens": False,
        "projection_size": 8,
        "hidden_size": 16,
        "cell_size": 8,
        "project_hidden": False,
        "num_hidden_layers": 3,
        "forget_bias": 0.0,
        "cell_clip": None,
        "projection_clip": 2.5,
        "use_skip_connections": False,
        "dropout": 0.25,
        "freeze_bilm": False,
    },
    {
        "num_mixes": 2,
        "mix_normalization": "word",
        "mixed_layers": "top",
        "align_layers": True,
        "mix_l2": 0.5,
        "word_vocab_size": 50,
        "share_word_softmax": False,
        "softmax_type": "adaptive",
        "adaptive_softmax_cutoffs": [10],
        "adaptive_softmax_div_value": 2.0,
        "direction": "backward",
        "head": {"type": "embeddings", "dropout": 0.25},
    },
]


# What every config of transformers has.
COMMON = {
    "return_dict": False,
    "output_hidden_states": True,
    "dtype": torch.float16,
    "chunk_size_feed_forward": 5,
    "architectures": ["ElmoModel"],
    "problem_type": "regression",
    "id2label": {0: "O", 1: "B-X", 2: "I-X"},
    "label2id": {"O": 0, "B-X": 1, "I-X": 2},
}


def other_value(field: Field) -> Any:
    """A value of a head's field that is not its default."""
    kinds = get_args(field.type)
    names = [name for kind in (field.type, *kinds) for name in get_args(kind) if isinstance(name, str)]
    if names or field.name == "character_filters":
        return names[-1] if names else [[2, 3]]
    return not field.default if field.type is bool else 0.25 if float in kinds else 3


def documented(cls: type) -> list[str]:
    """The names under Args of a class's docstring."""
    arguments = inspect.getdoc(cls).split("\nArgs")[1].split("\n", 1)[1].split("\n\n")[0]
    return re.findall(r"^    (\w+):", arguments, re.MULTILINE)


def assert_kept(config: ElmoConfig, folder) -> None:
    """Every way of copying gives the same config, and a second copy the same bytes."""
    config.save_pretrained(folder / "outer" / "inner")
    written = json.loads(config.to_json_string(use_diff=False))
    copies = [
        ElmoConfig.from_pretrained(folder / "outer", subfolder="inner"),
        AutoConfig.from_pretrained(folder / "outer" / "inner"),
        ElmoConfig.from_json_file(folder / "outer" / "inner" / "config.json"),
        ElmoConfig.from_dict(config.to_dict()),
        ElmoConfig.from_dict(config.to_diff_dict()),
        ElmoConfig.from_dict(written),
        copy.deepcopy(config),
        copy.copy(config),
        pickle.loads(pickle.dumps(config)),
    ]
    for other in copies:
        assert type(other) is ElmoConfig
        # Where a config came from is no part of it, and not saved.
        assert {**other.to_dict(), "_name_or_path": ""} == config.to_dict() and other.head == config.head
        other.save_pretrained(folder / "again")
        names = [place / "config.json" for place in (folder / "again", folder / "outer" / "inner")]
        assert names[0].read_bytes() == names[1].read_bytes()


@each_class
def test_a_model_leaves_its_callers_config_as_it_is(name):
    head = config_of(name).head
    mixed = {"head": replace(head, mix_at_output=True)} if hasattr(head, "mix_at_output") else {}
    # The last has the default head put in, which wants sizes that fit.
    for config in (config_of(name), config_of(name, **mixed), config_of(name, head=None)):
        before = copy.deepcopy(config).to_dict()
        with torch.device("meta"):
            model = CASES[name].cls(config)
        assert config.to_dict() == before
        assert model.config.num_mixes == len(model.base_model.mixes) and (head is None or model.config.head)


def test_every_field_is_documented_and_no_other():
    own = {field.name for field in fields(ElmoConfig)} & ElmoConfig.__annotations__.keys()
    # Of each there is another value above; but a row of zeros is no word, whatever the config.
    assert set(documented(ElmoConfig)) == own == set().union({"pad_token_id"}, *SETTINGS)
    inherited = {field.name for field in fields(HeadConfig)}
    assert set(documented(HeadConfig)) == inherited
    for head in HEAD_TYPES.values():
        names = set() if head.__name__ == "EmbeddingsHead" else set(documented(head))
        assert names | inherited == {field.name for field in fields(head)}


@pytest.mark.parametrize("settings", [*SETTINGS, COMMON], ids=lambda settings: next(iter(settings)))
def test_every_documented_field_is_taken_set_and_kept(settings, tmp_path):
    plain, given = ElmoConfig(), ElmoConfig(**settings)
    for key in settings:
        assert getattr(given, key) != getattr(plain, key), key
        if key != "head":
            assert getattr(given, key) == settings[key], key
        setattr(plain, key, settings[key])
    assert plain.to_dict() == given.to_dict()
    assert_kept(given, tmp_path)
    changed = ElmoConfig.from_dict(ElmoConfig().to_dict(), **settings)
    assert changed.to_dict() == given.to_dict()


@pytest.mark.parametrize("kind", HEAD_TYPES)
def test_every_setting_of_a_head_is_taken_and_kept(kind, tmp_path):
    plain = HEAD_TYPES[kind]()
    settings = {field.name: other_value(field) for field in fields(plain)}
    if "mix_at_output" in settings:
        del settings["use_elmo"]  # of which a second mix has need
    head = HEAD_TYPES[kind](**settings)
    for key, value in settings.items():
        assert getattr(head, key) == value != getattr(plain, key), key
    assert ElmoConfig(head={"type": kind, **settings}).head == head
    assert_kept(ElmoConfig(head=head), tmp_path)


# Values, heads and labels


def count_bilm_parameters(config: ElmoConfig) -> int:
    """Parameters of the token encoder and the biLM, less the padding row that the papers' models do not have."""
    with torch.device("meta"):
        model = ElmoModel(config)
    parameters = [*model.token_encoder.parameters(), *model.bilm.parameters()]
    return sum(parameter.numel() for parameter in parameters) - config.character_embedding_size


@pytest.mark.parametrize(
    ("preset", "count", "sizes"),
    [
        ("small", 13_593_296, (1024, 128, 1)),
        ("medium", 28_027_728, (2048, 256, 1)),
        ("original", 93_600_848, (4096, 512, 2)),
    ],
)
def test_presets_have_the_published_sizes(preset, count, sizes):
    config = getattr(ElmoConfig, preset)()
    assert (config.cell_size, config.projection_size, config.num_highway_layers) == sizes
    assert count_bilm_parameters(config) == count
    assert (config.to_dict() == ElmoConfig().to_dict()) is (preset == "original")


def test_what_is_left_out_of_a_head_is_as_published():
    assert [QuestionAnsweringHead(**head).hidden_size for head in ({}, {"reader": "bidaf"})] == [90, 100]
    dropouts, sizes = {}, {}
    for encoder in ("bcn", "esim"):
        model = ElmoForSequenceClassification(make_tiny_config(head=SequenceClassificationHead(encoder=encoder)))
        layers = [*model.text_encoder.modules(), *model.output]
        dropouts[encoder] = [layer.p for layer in layers if isinstance(layer, _DropoutNd)]
        sizes[encoder] = [(layer.out_features, layer.activation) for layer in [*model.output, model.classifier][1::2]]
    assert dropouts == {"bcn": [0.25, 0.1, 0.2, 0.3], "esim": [0.5, 0.5, 0.5]}
    # Maxout takes the largest of four units.
    assert sizes == {"bcn": [(4800, "maxout"), (2400, "maxout"), (8, "maxout")], "esim": [(300, "relu"), (2, None)]}
    head = SequenceClassificationHead(encoder="bcn", hidden_dropout=0.0, output_dropout=0.4)
    model = ElmoForSequenceClassification(make_tiny_config(head=head))
    assert model.text_encoder.dropout.p == 0 and [layer.p for layer in model.output[::2]] == [0.4] * 3


WRONG_TYPES = {
    **{"vocab_size": "262", "character_embedding_size": 16.0, "max_characters_per_word": None, "filters": 5},
    **{"filter_activation": "gelu", "num_highway_layers": True, "train_word_vectors": 1, "cell_clip": "3", "head": 5},
    **{"adaptive_softmax_cutoffs": [2.5]},
}


def test_wrong_types_are_refused_by_name():
    for field, value in WRONG_TYPES.items():
        assert_refused(StrictDataclassError, field, ElmoConfig, **{field: value})
        assert_refused(StrictDataclassError, field, setattr, ElmoConfig(), field, value)


ADAPTIVE = {"softmax_type": "adaptive", "adaptive_softmax_cutoffs": [10, 20], "word_vocab_size": 100}
WORDS = {"token_inputs": "words", "word_table_size": 10, "word_vector_size": 14}
SQUARE = {"project_tokens": False, "project_hidden": False, "projection_size": 14, "cell_size": 14}
REFUSED = [
    ("vocab_size", {"vocab_size": 1}),
    *[("max_characters_per_word", {"max_characters_per_word": value}) for value in (2, 1001)],
    *[("filters", {"filters": value}) for value in ([], [[1, 2, 3]], [[0, 32]], [[True, 32]], [7], [[51, 32]])],
    *[("filters", {"filters": value}) for value in ([[1, 1]] * 1001, [[1, 10**12]])],
    ("num_highway_layers", {"num_highway_layers": -1}),
    *[("cell_size", {"cell_size": value}) for value in (0, 10**12)],
    *[("num_hidden_layers", {"num_hidden_layers": value}) for value in (0, 1001)],
    ("hidden_size", {"hidden_size": 512}),
    ("cell_clip", {"cell_clip": 0}),
    ("projection_clip", {"projection_clip": float("nan")}),
    ("dropout", {"dropout": 1.0}),
    ("num_mixes", {"num_mixes": 0}),
    ("mix_l2", {"mix_l2": -0.1}),
    ("word_vocab_size", {"word_vocab_size": 2}),
    ("pad_token_id", {"pad_token_id": 1}),
    ("adaptive_softmax_cutoffs", {**ADAPTIVE, "softmax_type": "full"}),
    *[
        ("adaptive_softmax_cutoffs", {**ADAPTIVE, "adaptive_softmax_cutoffs": value})
        for value in (None, [], [0, 20], [20, 10], [10, 10], [10, 100])
    ],
    ("adaptive_softmax_div_value", {**ADAPTIVE, "adaptive_softmax_div_value": 0.5}),
    ("adaptive_softmax_div_value", {**ADAPTIVE, "projection_size": 15}),
    *[("word_table_size", {**WORDS, "word_table_size": value}) for value in (None, 0)],
    ("word_vector_size", {**WORDS, "token_inputs": "both", "word_vector_size": None}),
    ("word_vector_size", {**WORDS, "word_vector_size": -1}),
    ("word_table_size", {**WORDS, "token_inputs": "characters"}),
    ("word_vector_size", {"word_vector_size": 4}),
    (("project_hidden", "13"), {"project_hidden": False, "cell_size": 13}),
    (("project_tokens", "14", "15"), {**WORDS, **SQUARE, "projection_size": 15, "cell_size": 15}),
    (("project_tokens", "3 features"), {"project_tokens": False, "filters": [[1, 3]]}),
]


def test_values_that_are_out_of_range_or_contradict_one_another_are_refused_by_name():
    for named, settings in REFUSED:
        assert_refused(StrictDataclassError, named, ElmoConfig, **settings)
    # The last of two clusters has vectors of size 1.
    assert ElmoConfig(**ADAPTIVE, projection_size=16).adaptive_softmax_div_value == 4
    assert ElmoConfig(**WORDS, **SQUARE).hidden_size == 28


def test_a_model_checks_what_was_changed_after_it_was_built():
    config = make_tiny_config(head=TokenClassificationHead())
    config.head.dropout = 7.0
    assert_refused(StrictDataclassError, ("head.dropout", "7.0"), ElmoForTokenClassification, config)
    config.dropout = 7.0
    assert_refused(StrictDataclassError, "dropout is 7.0", ElmoModel, config)


def test_a_slip_of_the_pen_is_told_with_what_was_meant():
    assert_refused(ValueError, ("'projection_siz'", "'projection_size'"), ElmoConfig, projection_siz=3)


def test_a_key_that_nobody_knows_is_kept(tmp_path):
    """Of a tool, of another version of transformers, or of ours: near to a field of today or not."""
    others = {"transformers.js_config": {"dtype": "q8"}, "cell_sizes": [3, 4], "attention_sinks": None}
    ElmoConfig().save_pretrained(tmp_path)
    stored = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**stored, **others}))
    for auto in (ElmoConfig, AutoConfig):
        config = auto.from_pretrained(tmp_path, cell_size=5)
        assert config.cell_size == 5
        config.save_pretrained(tmp_path / "again")
        again = json.loads((tmp_path / "again" / "config.json").read_text())
        assert {**stored, **others, "cell_size": 5} == again
    assert ElmoConfig(something_else=1).something_else == 1


def test_the_ids_of_the_special_tokens_are_those_of_the_tokenizer():
    config, tokenizer = ElmoConfig(), ElmoCharTokenizer()
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        assert getattr(config, name) == getattr(tokenizer, name)


def test_a_head_may_be_a_dict_at_any_time():
    wanted = TokenClassificationHead(lstm_layers=1)
    stored = {"type": "token_classification", "lstm_layers": 1}
    config = ElmoConfig(head=stored)
    assert config.head == wanted and stored == {"type": "token_classification", "lstm_layers": 1}
    config.head = None
    assert config.head is None and config.to_dict()["head"] is None
    config.head = stored
    assert config.head == wanted


@pytest.mark.parametrize(
    ("head", "names"),
    [
        ({"type": "token_classification", "droput": 0.1}, ["TokenClassificationHead", "'droput'"]),
        ({"type": "token_classificaton"}, ["'token_classificaton'", "'token_classification'"]),
        ({"dropout": 0.1}, ["type None", "'token_classification'"]),
        ({"type": "token_classification", "dropout": 1.5}, ["dropout is 1.5"]),
        ({"type": "token_classification", "lstm_size": "9"}, ["'lstm_size'", "int"]),
        ({"type": "token_classification", "lstm_layers": 0, "mix_at_output": True}, ["mix_at_output"]),
        ({"type": "embeddings", "word_table_size": 3}, ["word_vector_size"]),
        ({"type": "embeddings", "use_elmo": False}, ["use_elmo"]),
        ({"type": "embeddings", "character_filters": [[51, 2]]}, ["character_filters", "51"]),
        ({"type": "sequence_classification", "encoder": "lstm"}, ["encoder"]),
        ({"type": "sequence_classification", "output_dropout": 1.0}, ["output_dropout"]),
        ({"type": "sequence_classification", "mix_at_output": True}, ["mix_at_output", "pooled"]),
        ({"type": "question_answering", "max_answer_words": 0}, ["max_answer_words"]),
        ({"type": "question_answering", "mix_at_output": True, "use_elmo": False}, ["use_elmo"]),
        ({"type": "coreference", "spans_per_word": 0.0}, ["spans_per_word"]),
        ({"type": "coreference", "keep_singletons": True}, ["keep_singletons", "mention_loss"]),
        ({"type": "semantic_role_labeling", "num_layers": 0}, ["num_layers"]),
    ],
)
def test_a_wrong_head_is_refused_by_name(head, names):
    with pytest.raises((ValueError, TypeError, StrictDataclassError)) as caught:
        make_tiny_config(head=head)
    assert all(name in str(caught.value) for name in names)


def test_a_model_of_one_task_forgets_the_head_of_another():
    config = make_tiny_config(head={"type": "question_answering", "hidden_size": 4})
    assert ElmoForTokenClassification(config).config.head == TokenClassificationHead()


def test_a_saved_config_names_the_classes_whose_code_lies_beside_it(tmp_path):
    config = make_tiny_config(auto_map={"AutoModel": "elsewhere--modeling_elmo.ElmoModel"})
    config.save_pretrained(tmp_path)
    auto_map = json.loads((tmp_path / "config.json").read_text())["auto_map"]
    assert auto_map == auto_map_of(None) and len(auto_map) == 4 and auto_map["AutoModel"] == "modeling_elmo.ElmoModel"
    assert len(auto_map_of(None, with_heads=True)) == len(auto_map_of(["ElmoForTokenClassification"])) == 7


def test_either_label_table_gives_the_other():
    id2label, label2id = {0: "O", 1: "PER", 2: "LOC"}, {"O": 0, "PER": 1, "LOC": 2}
    for config in (ElmoConfig(id2label=id2label), ElmoConfig(label2id=label2id)):
        assert (config.id2label, config.label2id, config.label_names) == (id2label, label2id, ["O", "PER", "LOC"])


@pytest.mark.parametrize("labels", [{0: "O", 1: "PER"}, {0: "O", 1: "PER", 2: "LOC"}, {"0": "O", "1": "PER"}])
def test_new_labels_at_loading_replace_both_tables(labels, tmp_path):
    ElmoConfig(id2label={0: "NOUN", 1: "VERB"}).save_pretrained(tmp_path)
    config = ElmoConfig.from_pretrained(tmp_path, id2label=labels)
    assert config.id2label == {int(index): label for index, label in labels.items()}
    assert config.label2id == {label: int(index) for index, label in labels.items()}


def test_changes_at_loading_are_checked_and_carried_on_to_what_is_derived(tmp_path):
    make_tiny_config().save_pretrained(tmp_path)
    config = ElmoConfig.from_pretrained(tmp_path, projection_size=9, dropout=0.4)
    assert (config.projection_size, config.hidden_size, config.dropout) == (9, 18, 0.4)
    with pytest.raises(StrictDataclassError, match=r"dropout is 4\.0"):
        ElmoConfig.from_pretrained(tmp_path, dropout=4.0)


def test_characters_of_a_dictionary_want_ids_of_their_own():
    ids = {"padding_character_id": 4, "bos_token_id": 5, "eos_token_id": 6}
    config = make_tiny_config(vocab_size=7, character_scheme="dictionary", **ids)
    assert ElmoModel(config).token_encoder.padding == 4
    assert (ElmoConfig().padding_character_id, ElmoConfig(vocab_size=100).padding_character_id) == (261, 261)
    for name in ids:
        for value in (None, 0, 7):
            wrong = {**ids, name: value}
            with pytest.raises(StrictDataclassError, match=f"{name} is {value}"):
                make_tiny_config(vocab_size=7, character_scheme="dictionary", **wrong)
    assert make_tiny_config(padding_character_id=4).padding_character_id == 261
    head = TokenClassificationHead(word_table_size=3, word_vector_size=2, lower_case_words=True)
    with pytest.raises(ValueError, match="lower_case_words"):
        ElmoForTokenClassification(make_tiny_config(vocab_size=7, character_scheme="dictionary", head=head, **ids))
