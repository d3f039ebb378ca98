"""What transformers asks of every config: all that it documents can be set, and is kept by every way of copying it."""

import copy
import inspect
import json
import pickle
import re
from dataclasses import fields, replace

import pytest
import torch
from class_cases import CASES, config_of, each_class
from transformers import AutoConfig, PreTrainedConfig

from hf_elmo import ElmoConfig
from hf_elmo.model.configuration_elmo import HEAD_TYPES, WordInputsHead

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
HEADS = {
    "embeddings": {
        "dropout": 0.25,
        "use_elmo": False,
        "word_table_size": 3,
        "word_vector_size": 5,
        "train_word_vectors": False,
        "lower_case_words": True,
        "character_embedding_size": 3,
        "character_filters": [[2, 3]],
    },
    "token_classification": {
        "lstm_layers": 1,
        "lstm_size": 3,
        "lstm_reads_markers": False,
        "mix_at_output": True,
        "output_layer": "crf",
        "scheme": "BIOES",
    },
    "sequence_classification": {
        "encoder": "esim",
        "hidden_size": 3,
        "hidden_dropout": 0.125,
        "mix_at_output": True,
        "output_activation": "maxout",
        "output_sizes": [4, 5],
        "output_dropouts": [0.25, 0.0, 0.125],
    },
    "question_answering": {
        "reader": "bidaf",
        "hidden_size": 3,
        "hidden_dropout": 0.125,
        "highway_layers": 1,
        "modeling_layers": 1,
        "mix_at_output": True,
        "max_answer_words": None,
    },
    "semantic_role_labeling": {
        "dropout": 0.25,
        "predicate_size": 2,
        "hidden_size": 3,
        "num_layers": 2,
        "recurrent_dropout": 0.25,
        "mix_at_output": True,
        "find_predicates": True,
        "finder_size": 4,
    },
    "coreference": {
        "lstm_size": 3,
        "hidden_size": 4,
        "hidden_dropout": 0.25,
        "feature_size": 2,
        "max_span_width": 3,
        "spans_per_word": 1.0,
        "max_antecedents": 5,
        "allow_crossing": True,
        "read_across_sentences": True,
        "use_speakers": True,
        "mention_loss": 0.5,
        "keep_singletons": True,
    },
}


def documented(cls: type) -> list[str]:
    """The names under Args of a class's docstring."""
    arguments = inspect.getdoc(cls).split("\nArgs:\n")[1].split("\n\n")[0]
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
def test_the_config_of_a_model_is_kept_by_every_way_of_copying(name, tmp_path):
    assert_kept(CASES[name].cls(config_of(name)).config, tmp_path)


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


def test_an_empty_file_gives_the_defaults(tmp_path):
    for content in ("{}", '{"model_type": "elmo"}'):
        (tmp_path / "config.json").write_text(content)
        assert ElmoConfig.from_pretrained(tmp_path).to_dict() == ElmoConfig().to_dict()


def test_every_field_is_documented_and_no_other():
    own = {field.name for field in fields(ElmoConfig)} & ElmoConfig.__annotations__.keys()
    assert set(documented(ElmoConfig)) == own
    for head in HEAD_TYPES.values():
        inherited = set() if head is WordInputsHead else {field.name for field in fields(WordInputsHead)}
        if head.__name__ == "EmbeddingsHead":
            assert set(documented(WordInputsHead)) == inherited
        else:
            assert set(documented(head)) - inherited == {field.name for field in fields(head)} - inherited


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


def test_no_documented_field_is_left_out_of_these():
    covered = set().union(*SETTINGS)
    # A row of zeros is no word, whatever the config.
    assert set(documented(ElmoConfig)) - covered == {"pad_token_id"}
    for kind, settings in HEADS.items():
        shared = {field.name for field in fields(WordInputsHead)} if kind != "embeddings" else set()
        assert {field.name for field in fields(HEAD_TYPES[kind])} - shared <= settings.keys()
    assert HEADS.keys() == HEAD_TYPES.keys()


@pytest.mark.parametrize("kind", HEADS)
def test_every_setting_of_a_head_is_taken_and_kept(kind, tmp_path):
    head, plain = HEAD_TYPES[kind](**HEADS[kind]), HEAD_TYPES[kind]()
    for key, value in HEADS[kind].items():
        assert getattr(head, key) == value != getattr(plain, key), key
    config = ElmoConfig(head=head)
    assert ElmoConfig(head={"type": kind, **HEADS[kind]}).head == head
    assert_kept(config, tmp_path)


def test_the_number_of_labels_and_their_names_go_together(tmp_path):
    names = {"id2label": {0: "O", 1: "B-X", 2: "I-X"}}
    config = ElmoConfig(num_labels=3)
    assert config.id2label == {index: f"LABEL_{index}" for index in range(3)}
    ElmoConfig(**names).save_pretrained(tmp_path)
    for same in ({}, {"num_labels": 3}):
        assert ElmoConfig.from_pretrained(tmp_path, **same).id2label == names["id2label"]
    for found in (ElmoConfig.from_pretrained(tmp_path, num_labels=4), ElmoConfig(num_labels=4)):
        assert found.num_labels == len(found.id2label) == 4
        assert found.label2id == {label: index for index, label in found.id2label.items()}
    config.num_labels = 2
    assert config.id2label == {0: "LABEL_0", 1: "LABEL_1"} and config.label2id == {"LABEL_0": 0, "LABEL_1": 1}
    assert len(PreTrainedConfig().id2label) == ElmoConfig().num_labels == 2
