"""Every public model class with small settings and rows that it reads: the one list for tests that hold for all."""

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import torch
from conftest import make_tiny_config
from model_cases import make_model
from torch import nn
from torch.nn.modules.dropout import _DropoutNd
from transformers.utils import ModelOutput

from hf_elmo import (
    ElmoCharTokenizer,
    ElmoEmbeddings,
    ElmoForCausalLM,
    ElmoForCoreferenceResolution,
    ElmoForPreTraining,
    ElmoForQuestionAnswering,
    ElmoForSemanticRoleLabeling,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
)
from hf_elmo.model.modeling_elmo import ElmoWordTable
from hf_elmo.model.modeling_elmo_srl import ElmoHighwayLSTM

SENTENCES = [["a", "bb", "c"], ["d"], ["é", "a"]]
# The second texts of pairs.
OTHERS = [["c", "a"], ["bb", "d", "e"], ["a"]]
# And those of texts of which one or both have no words.
EMPTY, EMPTY_OTHERS = [[], ["c"], []], [["a"], [], []]
KNOWN = ["a", "bb", "<S>"]
WORDS = ["<S>", "</S>", "<UNK>", "a", "bb", "c", "d", "e", "f"]
SPANS = {"id2label": {0: "O", 1: "B-X", 2: "I-X"}}
# Of a whole document: first word, the word behind the last one, cluster.
MENTIONS = [[0, 1, 0], [5, 6, 0], [1, 3, 1], [3, 4, 1]]
# What padding has in the columns that have an entry for each word.
FILLERS = dict.fromkeys(("attention_mask", "token_type_ids", "predicate_mask", "all_predicates", "speaker_ids"), 0)
TARGETS = ("labels", "start_positions", "end_positions", "all_predicates")


class Case(NamedTuple):
    """A class, and the fields of its config; a head as a dict, which each config reads into settings of its own."""

    cls: type
    fields: dict[str, Any]

    @property
    def reads_pairs(self) -> bool:
        """Whether a row is a pair of texts."""
        encoder = self.fields.get("head", {}).get("encoder")
        return self.cls is ElmoForQuestionAnswering or encoder in ("pooled_pairs", "esim")


def headed(kind: str, **settings: Any) -> dict[str, Any]:
    """The fields of a config whose head has these settings."""
    return {"head": {"type": kind, **settings}}


ADAPTIVE = {"softmax_type": "adaptive", "adaptive_softmax_cutoffs": [4], "share_word_softmax": False}
TABLE = {"word_table_size": len(KNOWN)}
FINDER = {"find_predicates": True, "finder_size": 4}
MORE_OF_COREFERENCE = {"spans_per_word": 1.0, "use_speakers": True, "mention_loss": 0.5}
CHARACTERS = {"character_filters": [[2, 3]], "character_embedding_size": 2}
CASES = {
    "base": Case(ElmoModel, {"num_mixes": 2}),
    "word vectors": Case(
        ElmoModel, {"token_inputs": "both", **TABLE, "word_vector_size": 5, "mix_normalization": "word"}
    ),
    "pretraining": Case(ElmoForPreTraining, {"word_vocab_size": 9}),
    "adaptive softmax": Case(ElmoForPreTraining, {"word_vocab_size": 9, **ADAPTIVE}),
    "causal": Case(ElmoForCausalLM, {"word_vocab_size": len(WORDS)}),
    "causal backward": Case(
        ElmoForCausalLM, {"word_vocab_size": len(WORDS), "direction": "backward", "share_word_softmax": False}
    ),
    "embeddings": Case(
        ElmoEmbeddings,
        {"num_mixes": 2} | headed("embeddings", **CHARACTERS, **TABLE, word_vector_size=2, train_word_vectors=False),
    ),
    "tokens": Case(
        ElmoForTokenClassification,
        SPANS | headed("token_classification", output_layer="crf", scheme="IOB2", lstm_layers=1, lstm_size=3),
    ),
    "texts": Case(
        ElmoForSequenceClassification,
        {"num_labels": 3} | headed("sequence_classification", encoder="bcn", hidden_size=3, mix_at_output=True),
    ),
    "pairs": Case(
        ElmoForSequenceClassification,
        {"num_labels": 3} | headed("sequence_classification", encoder="esim", hidden_size=3),
    ),
    "answers": Case(ElmoForQuestionAnswering, headed("question_answering", hidden_size=3, mix_at_output=True)),
    "answers by BiDAF": Case(ElmoForQuestionAnswering, headed("question_answering", reader="bidaf", hidden_size=3)),
    "roles": Case(
        ElmoForSemanticRoleLabeling,
        SPANS | headed("semantic_role_labeling", predicate_size=2, hidden_size=3, num_layers=2, **FINDER),
    ),
    "coreference": Case(
        ElmoForCoreferenceResolution,
        headed("coreference", lstm_size=3, hidden_size=4, feature_size=2, max_span_width=3, **MORE_OF_COREFERENCE),
    ),
}
LABELED = [name for name, case in CASES.items() if {"num_labels", "id2label"} & set(case.fields)]
LEARNERS = [name for name, case in CASES.items() if case.cls not in (ElmoModel, ElmoEmbeddings)]
HEADED = [name for name, case in CASES.items() if case.cls is not ElmoModel]
# Of a document there is one to a batch.
ROW_BY_ROW = [name for name in CASES if name != "coreference"]
each_class = pytest.mark.parametrize("name", CASES)
WORDS_ALONE = {"token_inputs": "words", **TABLE, "word_vector_size": 5}
SQUARE = {"project_tokens": False, "project_hidden": False, "projection_size": 14, "cell_size": 14}
TWO_MIXES = {"hidden_size": 3, "mix_at_output": True}
SINGLETONS = {"max_span_width": 3, "read_across_sentences": True, "allow_crossing": True, "keep_singletons": True}
# And what these settings leave out: by name the case, and what is changed of it.
VARIANTS = {
    **{name: (name, {}) for name in CASES},
    "words alone": ("base", {**WORDS_ALONE, "mixed_layers": "top", "mix_normalization": "batch"}),
    "aligned": ("base", {"align_layers": True, "mixed_layers": "average", "filter_activation": "tanh"}),
    "no skips": ("base", {"num_hidden_layers": 3, "use_skip_connections": False, "forget_bias": 0.3}),
    "no projections": ("pretraining", SQUARE),
    "pooled": ("texts", headed("sequence_classification")),
    "pooled pairs": ("pairs", headed("sequence_classification", encoder="pooled_pairs")),
    "pairs, two mixes": ("pairs", headed("sequence_classification", encoder="esim", **TWO_MIXES)),
    "pairs, no ELMo": ("pairs", headed("sequence_classification", encoder="esim", use_elmo=False, **CHARACTERS)),
    "texts, one mix": ("texts", headed("sequence_classification", encoder="bcn", hidden_size=3)),
    "answers by self-attention": ("answers by BiDAF", headed("question_answering", hidden_size=3)),
    "answers, 2 mixes": ("answers by BiDAF", headed("question_answering", reader="bidaf", **TWO_MIXES)),
    "tags": ("tokens", headed("token_classification", lstm_layers=2, mix_at_output=True)),
    "small tags": ("tokens", headed("token_classification", lstm_layers=2, lstm_size=3)),
    "tags without a biLSTM": ("tokens", headed("token_classification")),
    "singletons": ("coreference", headed("coreference", mention_loss=2.0, **SINGLETONS)),
    "roles, two mixes": ("roles", headed("semantic_role_labeling", find_predicates=True, **TWO_MIXES)),
    "roles, no ELMo": ("roles", headed("semantic_role_labeling", hidden_size=3, use_elmo=False, **CHARACTERS)),
}


def config_of(name: str, **changes: Any):
    """The small config of a case."""
    return make_tiny_config(**{**CASES[name].fields, **changes})


def build(name: str, dtype: torch.dtype = torch.float32, **changes: Any):
    """The model of a case or variant, in evaluation mode, its weights showing any mistake, its word tables filled."""
    case, its_changes = VARIANTS[name]
    model = make_model(CASES[case].cls, dtype, **{**CASES[case].fields, **its_changes, **changes})
    if isinstance(model, ElmoForCausalLM):
        model.words = WORDS
    for module in model.modules():
        if isinstance(module, ElmoWordTable):
            module.fill(torch.from_numpy(ElmoCharTokenizer().encode_words(KNOWN)))
    return model


# For tests that change nothing.
shared = functools.cache(build)


def without_dropout(model):
    """The same model, which leaves nothing out in training."""
    for module in model.modules():
        if isinstance(module, _DropoutNd):
            module.p = 0.0
        elif isinstance(module, nn.RNNBase):
            module.dropout = 0.0
        elif isinstance(module, ElmoHighwayLSTM):
            module.recurrent_dropout = 0.0
    return model


def features_of(name: str, empty: bool = False) -> list[dict[str, Any]]:
    """Rows as a data set has them, lists of numbers, with all that the class learns from but mentions."""
    case, (firsts, seconds) = CASES[VARIANTS[name][0]], (SENTENCES, OTHERS)
    if empty:
        firsts, seconds = firsts + EMPTY, seconds + EMPTY_OTHERS
    texts = zip(firsts, seconds, strict=True) if case.reads_pairs else ([words] for words in firsts)
    return [_feature(case.cls, number, words) for number, words in enumerate(texts)]


def _feature(cls: type, number: int, texts) -> dict[str, Any]:
    if cls is ElmoForCausalLM:
        ids = [WORDS.index(word) if word in WORDS else 2 for word in ("<S>", *texts[0])]
        return {"input_ids": ids, "attention_mask": [1] * len(ids), "labels": [-100, *ids[1:]]}
    encoded = ElmoCharTokenizer()(*texts, is_split_into_words=True, return_special_tokens_mask=True)
    feature = dict(encoded)
    is_word = [not special for special in feature.pop("special_tokens_mask")]
    if cls is ElmoForPreTraining:
        feature["labels"] = [(3 * place + number) % 9 for place in range(len(is_word))]
    elif cls in (ElmoForTokenClassification, ElmoForSemanticRoleLabeling):
        feature["labels"] = [place % 3 if word else -100 for place, word in enumerate(is_word)]
    elif cls is ElmoForSequenceClassification:
        feature["labels"] = number % 3
    elif cls is ElmoForQuestionAnswering:
        places = [place for place, second in enumerate(feature["token_type_ids"]) if second and is_word[place]]
        feature["start_positions"], feature["end_positions"] = (places[0], places[-1]) if places else (-100, -100)
    elif cls is ElmoForCoreferenceResolution:
        feature["speaker_ids"] = [number] * len(is_word)
    if cls is ElmoForSemanticRoleLabeling:
        feature["predicate_mask"] = [int(place == 1) for place in range(len(is_word))]
        feature["all_predicates"] = [int(word) for word in is_word]
    return feature


def collate(features: list[dict[str, Any]], side: str = "right", extra: int = 0) -> dict[str, torch.Tensor]:
    """Rows as a batch, padded on one side to so many words more than the longest has."""
    width = max(len(feature["input_ids"]) for feature in features) + extra
    padded = [_pad(feature, width - len(feature["input_ids"]), side) for feature in features]
    return {key: torch.tensor([feature[key] for feature in padded]) for key in padded[0]}


def _pad(feature: dict[str, Any], amount: int, side: str) -> dict[str, Any]:
    padded = {}
    for key, value in feature.items():
        if isinstance(value, list):
            is_word = key == "input_ids" and isinstance(value[0], list)
            filler = [[0] * len(value[0])] if is_word else [FILLERS.get(key, 1 if key == "input_ids" else -100)]
            padded[key] = amount * filler + value if side == "left" else value + amount * filler
        else:
            padded[key] = value + amount * (key.endswith("_positions") and side == "left" and value >= 0)
    return padded


def make_batch(name: str, empty: bool = False, **how: Any) -> dict[str, torch.Tensor]:
    """All rows of a case as one batch, with what is learned from them; arguments as `collate`'s."""
    batch = collate(features_of(name, empty), **how)
    if CASES[VARIANTS[name][0]].cls is ElmoForCoreferenceResolution:
        batch["labels"] = torch.tensor([MENTIONS])
    return batch


def data_of(name):
    """Rows with what makes batches of them; each document is a batch of its own."""
    if name in ROW_BY_ROW:
        return features_of(name), collate, 2
    return [make_batch(name)] * 2, lambda batches: batches[0], 1


def make_inputs(name: str, **how: Any) -> dict[str, torch.Tensor]:
    """As `make_batch`, without what is learned from it."""
    return {key: value for key, value in make_batch(name, **how).items() if key not in TARGETS}


def tensors_of(output: Any, name: str = "output") -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of an output, of its tuples and its state, each with a name."""
    if isinstance(output, torch.Tensor):
        yield name, output
    elif isinstance(output, ModelOutput):
        for key, value in output.items():
            yield from tensors_of(value, f"{name}.{key}")
    elif isinstance(output, (list, tuple)):
        for number, value in enumerate(output):
            yield from tensors_of(value, f"{name}[{number}]")


def loss_of(output: ModelOutput) -> torch.Tensor:
    """An output's loss, or where the class has none a number that all of its numbers have a part in."""
    if "loss" in output:
        return output.loss
    return sum(tensor.float().square().mean() for _, tensor in tensors_of(output) if tensor.requires_grad)
