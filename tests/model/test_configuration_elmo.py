"""ElmoConfig: what it accepts, what it refuses and how it says so, and that nothing is lost on disk."""

import json
from dataclasses import asdict, dataclass
from typing import ClassVar

import pytest
import torch
from conftest import make_tiny_config
from huggingface_hub.dataclasses import strict
from huggingface_hub.errors import StrictDataclassError
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused
from transformers import AutoConfig

from hf_elmo import ElmoCharTokenizer, ElmoConfig, ElmoForPreTraining, ElmoForTokenClassification, ElmoModel
from hf_elmo.model import configuration_elmo
from hf_elmo.model.configuration_elmo import HeadSettings, TokenClassificationHead

AUTO_CLASSES = {
    "AutoConfig",
    "AutoModel",
    "AutoModelForPreTraining",
    "AutoModelForQuestionAnswering",
    "AutoModelForSequenceClassification",
    "AutoModelForTokenClassification",
}

VALID_FIELDS = {
    "character_embedding_size": st.integers(1, 20),
    "filters": st.lists(st.tuples(st.integers(1, 10), st.integers(1, 10)), min_size=1, max_size=4),
    "max_characters_per_word": st.integers(10, 60),
    "filter_activation": st.sampled_from(["relu", "tanh"]),
    "num_highway_layers": st.integers(0, 3),
    "projection_size": st.integers(1, 600),
    "cell_size": st.integers(1, 5000),
    "num_hidden_layers": st.integers(1, 4),
    "forget_bias": st.floats(-2, 2),
    "cell_clip": st.none() | st.floats(0.1, 10) | st.integers(1, 10),
    "projection_clip": st.none() | st.floats(0.1, 10) | st.integers(1, 10),
    "use_skip_connections": st.booleans(),
    "dropout": st.floats(0, 0.99),
    "freeze_bilm": st.booleans(),
    "num_mixes": st.integers(1, 4),
    "mix_normalization": st.sampled_from(["none", "batch", "word"]),
    "mix_l2": st.floats(0, 2),
    "word_vocab_size": st.none() | st.integers(3, 10**6),
    "share_word_softmax": st.booleans(),
    "classifier_lstm_size": st.integers(1, 300),
    "head": st.none()
    | st.builds(
        TokenClassificationHead,
        dropout=st.floats(0, 0.99),
        lstm_layers=st.integers(0, 3),
        lstm_size=st.integers(1, 500),
    ),
    "id2label": st.none() | st.just({0: "O", 1: "PER", 2: "LOC"}),
}


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


def test_the_defaults_are_the_original_model():
    assert ElmoConfig().to_dict() == ElmoConfig.original().to_dict()


def test_presets_take_changes():
    config = ElmoConfig.small(cell_size=64, dropout=0.3)
    assert (config.cell_size, config.dropout, config.projection_size) == (64, 0.3, 128)


@given(size=st.integers(1, 10_000))
def test_hidden_size_is_both_directions_side_by_side(size):
    assert ElmoConfig(projection_size=size).hidden_size == 2 * size
    assert ElmoConfig(projection_size=size, hidden_size=2 * size).hidden_size == 2 * size


WRONG_TYPES = [
    ("vocab_size", "262"),
    ("character_embedding_size", 16.0),
    ("max_characters_per_word", None),
    ("filters", 5),
    ("filters", "abc"),
    ("filters", {1: 32}),
    ("filter_activation", "gelu"),
    ("num_highway_layers", True),
    ("token_inputs", "word"),
    ("word_table_size", 5.0),
    ("word_vector_size", "300"),
    ("train_word_vectors", 1),
    ("projection_size", "512"),
    ("cell_size", 4096.5),
    ("num_hidden_layers", [2]),
    ("hidden_size", "1024"),
    ("forget_bias", "1.0"),
    ("cell_clip", "3"),
    ("projection_clip", [3.0]),
    ("use_skip_connections", 1),
    ("dropout", True),
    ("freeze_bilm", "yes"),
    ("num_mixes", 1.0),
    ("mix_normalization", "layer"),
    ("mix_l2", None),
    ("word_vocab_size", 1e6),
    ("share_word_softmax", "yes"),
    ("softmax_type", "sampled"),
    ("adaptive_softmax_cutoffs", 5),
    ("adaptive_softmax_div_value", "4"),
    ("classifier_dropout", "0.5"),
    ("classifier_lstm_layers", False),
    ("classifier_lstm_size", 200.0),
    ("pad_token_id", None),
    ("head", 5),
    ("bos_token_id", "257"),
]


def test_wrong_types_are_refused_by_name():
    for field, value in WRONG_TYPES:
        with pytest.raises(StrictDataclassError, match=field):
            ElmoConfig(**{field: value})
        config = ElmoConfig()
        with pytest.raises(StrictDataclassError, match=field):
            setattr(config, field, value)


OUT_OF_RANGE = [
    ("vocab_size", 1),
    ("character_embedding_size", 0),
    ("max_characters_per_word", 2),
    ("max_characters_per_word", 1001),
    ("filters", [[1, 10**12]]),
    ("filters", [[1, 1]] * 1001),
    ("cell_size", 10**5000),
    ("num_hidden_layers", 1001),
    ("word_vocab_size", 10**12),
    ("filters", []),
    ("filters", [[1, 2, 3]]),
    ("filters", [[0, 32]]),
    ("filters", [[1, 0]]),
    ("filters", [[1, 2.5]]),
    ("filters", [[True, 32]]),
    ("filters", [7]),
    ("filters", [[51, 32]]),
    ("num_highway_layers", -1),
    ("projection_size", 0),
    ("cell_size", 0),
    ("num_hidden_layers", 0),
    ("hidden_size", 512),
    ("cell_clip", 0),
    ("cell_clip", -3.0),
    ("cell_clip", float("nan")),
    ("projection_clip", 0.0),
    ("dropout", 1.0),
    ("dropout", -0.1),
    ("num_mixes", 0),
    ("mix_l2", -0.1),
    ("mix_l2", float("nan")),
    ("word_vocab_size", 2),
    ("classifier_dropout", 1),
    ("classifier_lstm_layers", -1),
    ("classifier_lstm_size", 0),
    ("pad_token_id", 1),
]


def test_values_out_of_range_are_refused_by_name():
    for field, value in OUT_OF_RANGE:
        with pytest.raises(StrictDataclassError, match=field):
            ElmoConfig(**{field: value})


@pytest.mark.parametrize("inputs", [{}, {"token_inputs": "words", "word_table_size": 10, "word_vector_size": 14}])
def test_a_model_without_projections_has_their_sizes_already(inputs, tmp_path):
    config = make_tiny_config(**inputs, projection_size=14, cell_size=14, project_tokens=False, project_hidden=False)
    config.save_pretrained(tmp_path)
    assert ElmoConfig.from_pretrained(tmp_path).to_dict() == config.to_dict()
    model = ElmoForPreTraining(ElmoConfig.from_dict({**config.to_dict(), "word_vocab_size": 5}))
    assert not [name for name, _ in model.named_parameters() if "projection" in name or "weight_hr" in name]
    for change, named in (
        ({"project_hidden": False, "cell_size": 13}, ("project_hidden", "13")),
        ({"project_tokens": False, "filters": [[1, 3]], **inputs, "projection_size": 15}, ("project_tokens", "15")),
    ):
        with pytest.raises(StrictDataclassError) as refused:
            make_tiny_config(**{"projection_size": 14, **change})
        assert all(part in str(refused.value) for part in named)


ADAPTIVE = {"softmax_type": "adaptive", "adaptive_softmax_cutoffs": [10, 20], "word_vocab_size": 100}


WRONG_CLUSTERS = [
    ({**ADAPTIVE, "softmax_type": "full"}, "adaptive_softmax_cutoffs"),
    ({**ADAPTIVE, "adaptive_softmax_cutoffs": None}, "adaptive_softmax_cutoffs"),
    ({**ADAPTIVE, "adaptive_softmax_cutoffs": []}, "adaptive_softmax_cutoffs"),
    ({**ADAPTIVE, "adaptive_softmax_cutoffs": [True, 20]}, "adaptive_softmax_cutoffs"),
    ({**ADAPTIVE, "adaptive_softmax_cutoffs": [2.5]}, "adaptive_softmax_cutoffs"),
    ({**ADAPTIVE, "adaptive_softmax_cutoffs": [0, 20]}, "adaptive_softmax_cutoffs"),
    ({**ADAPTIVE, "adaptive_softmax_cutoffs": [20, 10]}, "adaptive_softmax_cutoffs"),
    ({**ADAPTIVE, "adaptive_softmax_cutoffs": [10, 10]}, "adaptive_softmax_cutoffs"),
    ({**ADAPTIVE, "adaptive_softmax_cutoffs": [10, 100]}, "adaptive_softmax_cutoffs"),
    ({**ADAPTIVE, "adaptive_softmax_div_value": 0.5}, "adaptive_softmax_div_value"),
    ({**ADAPTIVE, "projection_size": 15}, "adaptive_softmax_div_value"),
]


def test_an_adaptive_softmax_needs_clusters_that_fit():
    for fields, named in WRONG_CLUSTERS:
        with pytest.raises(StrictDataclassError, match=named):
            ElmoConfig(**fields)


def test_the_fields_of_an_adaptive_softmax_are_kept(tmp_path):
    config = make_tiny_config(
        softmax_type="adaptive", adaptive_softmax_cutoffs=(4, 9), adaptive_softmax_div_value=2, share_word_softmax=False
    )
    config.save_pretrained(tmp_path)
    loaded = ElmoConfig.from_pretrained(tmp_path)
    assert loaded.to_dict() == config.to_dict() and loaded.adaptive_softmax_cutoffs == [4, 9]


WORDS = {"token_inputs": "words", "word_table_size": 10, "word_vector_size": 4}


WRONG_TABLES = [
    ({**WORDS, "word_table_size": None}, "word_table_size"),
    ({**WORDS, "token_inputs": "both", "word_vector_size": None}, "word_vector_size"),
    ({**WORDS, "word_table_size": 0}, "word_table_size"),
    ({**WORDS, "word_vector_size": -1}, "word_vector_size"),
    ({**WORDS, "token_inputs": "characters"}, "word_table_size"),
    ({"word_vector_size": 4}, "word_vector_size"),
    ({"train_word_vectors": False}, "train_word_vectors"),
]


def test_a_word_table_is_there_where_words_are_looked_up():
    for fields, named in WRONG_TABLES:
        assert_refused(StrictDataclassError, named, ElmoConfig, **fields)


def test_a_config_from_before_there_were_word_tables_reads_characters(tmp_path):
    make_tiny_config().save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    stored = json.loads(path.read_text())
    fields = {"token_inputs", "word_table_size", "word_vector_size", "train_word_vectors"}
    path.write_text(json.dumps({name: value for name, value in stored.items() if name not in fields}))
    assert ElmoConfig.from_pretrained(tmp_path).to_dict() == make_tiny_config().to_dict()


def test_a_model_checks_a_config_that_was_changed_after_it_was_built():
    config = make_tiny_config()
    config.dropout = 7.0
    with pytest.raises(StrictDataclassError, match=r"dropout is 7\.0"):
        ElmoModel(config)


@pytest.mark.parametrize(
    ("key", "nearest"),
    [("projection_siz", "projection_size"), ("cell_sise", "cell_size"), ("classifier_dropuot", "classifier_dropout")],
)
def test_a_slip_of_the_pen_is_told_with_what_was_meant(key, nearest):
    assert_refused(ValueError, (repr(key), repr(nearest)), ElmoConfig, **{key: 3})


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


def test_what_every_config_of_transformers_has_is_taken_where_it_means_nothing(tmp_path):
    nothing = {"tie_word_embeddings": False, "is_decoder": False, "torchscript": False, "problem_type": None}
    config = make_tiny_config(**nothing, output_attentions=False, use_cache=True, return_dict=True, pruned_heads={})
    config.use_cache = False
    config.save_pretrained(tmp_path)
    # transformers keeps settings of generation in a file of their own.
    del config.use_cache
    assert ElmoConfig.from_pretrained(tmp_path).to_dict() == config.to_dict()


@pytest.mark.parametrize("name", ["tie_word_embeddings", "output_attentions"])
@pytest.mark.parametrize("cls", [ElmoModel, ElmoForPreTraining, ElmoForTokenClassification])
def test_what_an_elmo_model_has_no_part_for_changes_nothing(cls, name, tmp_path):
    """As transformers' own models without attention have it."""
    plain = cls(make_tiny_config(word_vocab_size=7)).eval()
    config = make_tiny_config(word_vocab_size=7, **{name: True})
    plain.save_pretrained(tmp_path)
    config.save_pretrained(tmp_path)
    model = cls.from_pretrained(tmp_path)
    assert getattr(model.config, name) is getattr(config, name) is True
    assert model.state_dict().keys() == plain.state_dict().keys()
    ids = ElmoCharTokenizer()("a word", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        found, wanted = model(ids), plain(ids)
    assert found.keys() == wanted.keys() and torch.equal(found[0], wanted[0])
    model.save_pretrained(tmp_path / "again")
    assert getattr(AutoConfig.from_pretrained(tmp_path / "again"), name) is True


def test_the_ids_of_the_sentence_markers_are_those_of_the_tokenizer():
    config, tokenizer = ElmoConfig(), ElmoCharTokenizer()
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        assert getattr(config, name) == getattr(tokenizer, name)
    # Another scheme of characters may have no such ids.
    assert ElmoConfig(vocab_size=100).bos_token_id is None


# The head

OLD_TAGGER = {
    "architectures": ["ElmoForTokenClassification"],
    "cell_size": 10,
    "character_embedding_size": 4,
    "classifier_dropout": 0.25,
    "classifier_lstm_layers": 1,
    "classifier_lstm_size": 3,
    "filters": [[1, 3], [2, 5], [3, 6]],
    "hidden_size": 12,
    "id2label": {"0": "O", "1": "X"},
    "label2id": {"O": 0, "X": 1},
    "model_type": "elmo",
    "num_highway_layers": 1,
    "pad_token_id": 0,
    "projection_size": 6,
    "transformers_version": "5.23.0",
    "word_vocab_size": None,
}
OLD_PRETRAINING = {
    **{name: value for name, value in OLD_TAGGER.items() if name not in ("id2label", "label2id")},
    "architectures": ["ElmoForPreTraining"],
    "classifier_dropout": 0.5,
    "classifier_lstm_layers": 0,
    "classifier_lstm_size": 200,
    "word_vocab_size": 7,
}


def rewrite_config(folder, change) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


def test_a_taggers_checkpoint_from_before_there_was_a_head_gives_the_same_numbers_and_is_saved_with_one(tmp_path):
    head = TokenClassificationHead(dropout=0.25, lstm_layers=1, lstm_size=3)
    model = ElmoForTokenClassification(make_tiny_config(head=head, id2label={0: "O", 1: "X"})).eval()
    model.save_pretrained(tmp_path)
    rewrite_config(tmp_path, lambda stored: {**OLD_TAGGER, "auto_map": stored["auto_map"]})
    old, report = ElmoForTokenClassification.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    assert old.config.head == head and old.dropout.p == 0.25
    ids = torch.randint(1, 262, (2, 3, 50))
    assert torch.equal(old(ids).logits, model(ids).logits)
    old.save_pretrained(tmp_path / "again")
    stored = json.loads((tmp_path / "again" / "config.json").read_text())
    assert stored["head"] == {"type": "token_classification", **asdict(head)}
    assert not any(name.startswith("classifier_") for name in stored)


def test_a_pretrained_checkpoint_from_before_there_was_a_head_has_none(tmp_path):
    model = ElmoForPreTraining(make_tiny_config(word_vocab_size=7))
    model.save_pretrained(tmp_path)
    rewrite_config(tmp_path, lambda stored: OLD_PRETRAINING)
    old, report = ElmoForPreTraining.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values())
    assert old.config.head is None and old.config.classifier_dropout == 0.5
    changed = {"auto_map", "dtype", "architectures", "_name_or_path"}
    stored = [{k: v for k, v in config.to_dict().items() if k not in changed} for config in (old.config, model.config)]
    assert stored[0] == stored[1]


def test_the_settings_of_a_token_classifier_keep_their_names_in_the_config():
    config = ElmoConfig(classifier_lstm_layers=2)
    assert config.head == TokenClassificationHead(lstm_layers=2)
    config.classifier_dropout = 0.1
    assert (config.head.dropout, config.classifier_dropout, config.classifier_lstm_size) == (0.1, 0.1, 200)
    config.head.lstm_size = 7
    assert config.classifier_lstm_size == 7
    plain = ElmoConfig(classifier_dropout=0.5)
    assert plain.head is None and plain.classifier_lstm_layers == 0


def test_a_setting_given_at_loading_changes_the_stored_head_alone(tmp_path):
    make_tiny_config(head=TokenClassificationHead(lstm_layers=2, lstm_size=9)).save_pretrained(tmp_path)
    config = ElmoConfig.from_pretrained(tmp_path, classifier_dropout=0.1)
    assert config.head == TokenClassificationHead(dropout=0.1, lstm_layers=2, lstm_size=9)
    assert ElmoConfig.from_pretrained(tmp_path, head=None).head is None
    rewrite_config(tmp_path, lambda stored: OLD_TAGGER)
    assert ElmoConfig.from_pretrained(tmp_path, head=None).head is None


def test_a_head_may_be_a_dict_at_any_time():
    wanted = TokenClassificationHead(lstm_layers=1)
    stored = {"type": "token_classification", "lstm_layers": 1}
    config = ElmoConfig(head=stored)
    assert config.head == wanted and stored == {"type": "token_classification", "lstm_layers": 1}
    config.head = None
    assert config.head is None and config.to_dict()["head"] is None
    config.head = stored
    assert config.head == wanted


def test_forgetting_a_task_is_one_field(tmp_path):
    model = ElmoForTokenClassification(make_tiny_config(classifier_lstm_layers=1))
    model.config.head = None
    model.save_pretrained(tmp_path)
    assert ElmoConfig.from_pretrained(tmp_path).head is None
    # What a model of a task needs it writes down, the defaults too.
    assert ElmoForTokenClassification(make_tiny_config()).config.head == TokenClassificationHead()


@pytest.mark.parametrize(
    ("head", "names"),
    [
        ({"type": "token_classification", "droput": 0.1}, ["'token_classification'", "'droput'"]),
        ({"type": "token_classificaton"}, ["'token_classificaton'", "'token_classification'"]),
        ({"dropout": 0.1}, ["type None", "'token_classification'"]),
        ({"type": "token_classification", "dropout": 1.5}, ["head.dropout is 1.5"]),
        ({"type": "token_classification", "lstm_size": "9"}, ["'lstm_size'", "int"]),
    ],
)
def test_a_wrong_head_is_refused_by_name(head, names, tmp_path):
    make_tiny_config().save_pretrained(tmp_path)
    rewrite_config(tmp_path, lambda stored: {**stored, "head": head})
    for make in (lambda: ElmoConfig(head=head), lambda: ElmoConfig.from_pretrained(tmp_path)):
        with pytest.raises(ValueError) as caught:
            make()
        assert all(name in str(caught.value) for name in names)


def test_a_head_that_was_changed_later_is_checked_by_the_model():
    config = make_tiny_config(classifier_lstm_layers=1)
    config.head.dropout = 7.0
    assert_refused(StrictDataclassError, ("head.dropout", "7.0"), ElmoForTokenClassification, config)


def test_a_model_of_one_task_forgets_the_head_of_another(monkeypatch):
    @strict
    @dataclass
    class OtherHead(HeadSettings):
        type: ClassVar[str] = "other"
        size: int = 3

    monkeypatch.setitem(configuration_elmo.HEAD_TYPES, "other", OtherHead)
    config = make_tiny_config(head={"type": "other", "size": 4})
    assert config.head == OtherHead(4)
    assert ElmoConfig.from_dict(json.loads(config.to_json_string())).head == OtherHead(4)
    assert_refused(ValueError, ("head", "other"), setattr, config, "classifier_dropout", 0.1)
    assert ElmoForTokenClassification(config).config.head == TokenClassificationHead()


@given(fields=st.fixed_dictionaries({}, optional=VALID_FIELDS))
def test_saving_and_loading_keeps_every_field(fields):
    config = ElmoConfig(**fields)
    loaded = ElmoConfig.from_dict(json.loads(config.to_json_string(use_diff=True)))
    assert loaded.to_dict() == config.to_dict()


def test_a_saved_directory_loads_again(tmp_path):
    config = make_tiny_config(id2label={0: "O", 1: "PER"}, cell_clip=None, word_vocab_size=11)
    config.save_pretrained(tmp_path)
    assert ElmoConfig.from_pretrained(tmp_path).to_dict() == config.to_dict()
    # transformers' word for "as stored", which is no dtype of torch's.
    assert ElmoConfig.from_pretrained(tmp_path, dtype="auto").word_vocab_size == 11


def test_filters_have_one_form_in_memory_and_on_disk():
    assert make_tiny_config(filters=((1, 2), (3, 4))).filters == [[1, 2], [3, 4]]


def test_every_config_names_the_class_of_every_auto_class(tmp_path):
    assert set(json.loads(make_tiny_config().to_json_string())["auto_map"]) == AUTO_CLASSES
    config = make_tiny_config(auto_map={"AutoModel": "elsewhere--modeling_elmo.ElmoModel"})
    config.save_pretrained(tmp_path)
    auto_map = json.loads((tmp_path / "config.json").read_text())["auto_map"]
    assert set(auto_map) == AUTO_CLASSES
    # A name without a repository: the code files lie beside the config.
    assert all(name.startswith(("configuration_elmo.", "modeling_elmo")) for name in auto_map.values())


def test_either_label_table_gives_the_other():
    id2label, label2id = {0: "O", 1: "PER", 2: "LOC"}, {"O": 0, "PER": 1, "LOC": 2}
    for config in (ElmoConfig(id2label=id2label), ElmoConfig(label2id=label2id)):
        assert (config.id2label, config.label2id, config.num_labels) == (id2label, label2id, 3)
        assert (config.label_names, config.id_of_label) == (["O", "PER", "LOC"], label2id)


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


def test_keys_that_are_not_fields_can_be_asked_back(tmp_path):
    make_tiny_config().save_pretrained(tmp_path)
    config, rest = ElmoConfig.from_pretrained(tmp_path, dropout=0.4, extra=1, return_unused_kwargs=True)
    assert (config.dropout, rest) == (0.4, {"extra": 1})


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
    with pytest.raises(StrictDataclassError, match="padding_character_id is 4"):
        make_tiny_config(padding_character_id=4)
    head = TokenClassificationHead(word_table_size=3, word_vector_size=2, lower_case_words=True)
    with pytest.raises(ValueError, match="lower_case_words"):
        ElmoForTokenClassification(make_tiny_config(vocab_size=7, character_scheme="dictionary", head=head, **ids))
