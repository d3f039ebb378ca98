"""Whole taggers of AllenNLP give its labels, and those that cannot be one here say why."""

import itertools
import json
import tarfile

import numpy as np
import pytest
import torch
from allennlp_files import EXPERIMENT, write_archive, write_namespace
from conftest import make_tiny_config, shared_data
from refusals import assert_refused
from tolerances import FOREIGN_VECTORS
from torch import nn
from transformers import AutoModelForTokenClassification, AutoTokenizer

from hf_elmo import ElmoForTokenClassification, ElmoModel, load_foreign
from hf_elmo.conversion.allennlp import load_source
from hf_elmo.conversion.checked_files import ConversionError
from hf_elmo.conversion.formats import convert_foreign
from hf_elmo.model.modeling_elmo_tasks import can_follow

EMBEDDER = "text_field_embedder.token_embedder_"
WORDS = ("@@UNKNOWN@@", "the", "cat", "été", "x" * 60, "<S>")
SIZE, VECTOR = 5, 3
BIOUL = ("O", "B-A", "I-A", "L-A", "U-A", "U-B", "B-B", "L-B", "I-B")


@pytest.fixture
def elmo():
    model = ElmoModel(make_tiny_config()).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.5)
    return model


def draw(*shape):
    return torch.randn(*shape)


def lstm_weights(input_size, layers=1):
    lstm = nn.LSTM(input_size, SIZE, layers, bidirectional=True, batch_first=True)
    return lstm, {f"encoder._module.{name}": value.detach().clone() for name, value in lstm.named_parameters()}


def make_experiment(kind, words_name=None, layers=1, lower_case=False):
    experiment = json.loads(json.dumps(EXPERIMENT))
    model = experiment["model"]
    model["type"] = kind
    model["encoder"] = {
        "type": "lstm",
        "bidirectional": True,
        "input_size": 12,
        "hidden_size": SIZE,
        "num_layers": layers,
    }
    if words_name is not None:
        model["text_field_embedder"]["token_embedders"][words_name] = {"type": "embedding", "embedding_dim": VECTOR}
        indexer = {"type": "single_id", "lowercase_tokens": lower_case}
        experiment["dataset_reader"]["token_indexers"][words_name] = indexer
    return experiment


def output_weights(num_labels):
    return {
        "tag_projection_layer._module.weight": draw(num_labels, 2 * SIZE),
        "tag_projection_layer._module.bias": draw(num_labels),
    }


def crf_weights(labels, scheme, names):
    """Transitions, and the rules of a scheme as that program has them: start and end stand behind the labels."""
    count = len(labels)
    rules = torch.zeros(count + 2, count + 2)
    for (row, first), (column, second) in itertools.product(enumerate([*names, None, "end"]), repeat=2):
        if first != "end" and second is not None:
            allowed = scheme is None or can_follow(first, None if second == "end" else second, scheme)
            rules[row, column] = float(allowed)
    if scheme is None:
        rules.fill_(1)
    return {
        "crf.transitions": draw(count, count),
        "crf.start_transitions": draw(count),
        "crf.end_transitions": draw(count),
        "crf._constraint_mask": rules,
    }


def mixes_of(elmo, tokenizer, sentences):
    """The mix of each sentence without its markers."""
    batch = tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="pt")
    with torch.no_grad():
        mix = elmo(**batch).last_hidden_state
    return [mix[row, 1 : 1 + len(words)] for row, words in enumerate(sentences)]


def logits_of(model, tokenizer, sentences):
    batch = tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="pt")
    with torch.no_grad():
        logits = model(**batch).logits
    return [logits[row, 1 : 1 + len(words)] for row, words in enumerate(sentences)]


def test_the_fixtures_tagger_scores_what_its_parts_score():
    folder = shared_data("zoo/allennlp")
    model, tokenizer = load_foreign(folder / "tagger.tar.gz")
    assert isinstance(model, ElmoForTokenClassification)
    with tarfile.open(folder / "tagger.tar.gz") as archive:
        weights = torch.load(archive.extractfile("weights.th"), weights_only=True)
        words, labels = (
            archive.extractfile(f"vocabulary/{name}.txt").read().decode().split("\n")[:-1]
            for name in ("tokens", "labels")
        )
    assert list(model.config.id2label.values()) == labels
    ids = {word: index for index, word in enumerate(words, start=1)}
    lstm = nn.LSTM(20, 6, bidirectional=True, batch_first=True)
    lstm.load_state_dict({name: weights[f"encoder._module.{name}"] for name, _ in lstm.named_parameters()})
    mixes, sentences = (
        np.load(folder / "tagger.npz")["call0/mix0"],
        json.loads((folder / "batches.json").read_text())[0],
    )
    with torch.no_grad():
        for row, (sentence, found) in enumerate(zip(sentences, logits_of(model, tokenizer, sentences), strict=True)):
            places = [ids.get(word.lower(), ids["@@UNKNOWN@@"]) for word in sentence]
            vectors = weights[f"{EMBEDDER}tokens.weight"][places]
            read = torch.cat([torch.from_numpy(mixes[row, : len(sentence)]), vectors], dim=-1)
            hidden, _ = lstm(read.unsqueeze(0))
            projection = weights["tag_projection_layer._module.weight"], weights["tag_projection_layer._module.bias"]
            wanted = nn.functional.linear(hidden[0], *projection)
            torch.testing.assert_close(found, wanted, rtol=0, atol=FOREIGN_VECTORS)
    assert len({word for words in sentences for word in words} & ids.keys()) > 3


def test_the_fixtures_tagger_with_a_projection_scores_what_its_parts_score():
    folder = shared_data("zoo/allennlp")
    model, tokenizer = load_foreign(folder / "layer_norm.tar.gz")
    with tarfile.open(folder / "layer_norm.tar.gz") as archive:
        weights = torch.load(archive.extractfile("weights.th"), weights_only=True)
    lstm = nn.LSTM(5, 6, bidirectional=True, batch_first=True)
    lstm.load_state_dict({name: weights[f"encoder._module.{name}"] for name, _ in lstm.named_parameters()})
    projected, batches = np.load(folder / "layer_norm.npz"), json.loads((folder / "batches.json").read_text())
    # The other calls go on from the states that the first left.
    vectors, sentences = torch.from_numpy(projected["call0/projected"]), batches[0]
    for row, (sentence, found) in enumerate(zip(sentences, logits_of(model, tokenizer, sentences), strict=True)):
        with torch.no_grad():
            hidden, _ = lstm(vectors[row : row + 1, : len(sentence)])
        wanted = nn.functional.linear(hidden[0], *output_weights_of(weights))
        torch.testing.assert_close(found, wanted, rtol=0, atol=FOREIGN_VECTORS)


@pytest.mark.parametrize("projected", [0, 4])
@pytest.mark.parametrize("name", ["tokens", "a_name_before_elmo"])
def test_words_beside_elmo_stand_where_their_name_puts_them(tmp_path, elmo, name, projected):
    lstm, weights = lstm_weights((projected or 12) + VECTOR, layers=2)
    vectors = draw(len(WORDS) + 1, VECTOR)
    others = weights | output_weights(2) | {f"{EMBEDDER}{name}.weight": vectors}
    projection = draw(projected, 12), draw(projected)
    if projected:
        names = (f"{EMBEDDER}elmo._projection.{part}" for part in ("weight", "bias"))
        others |= dict(zip(names, projection, strict=True))
    write_archive(tmp_path, elmo, make_experiment("simple_tagger", name, layers=2), others=others)
    write_namespace(tmp_path, "tokens", WORDS)
    model, tokenizer = load_foreign(tmp_path)
    sentences = [["the", "Cat", "été", "cat"], ["x" * 60, "<S>"], []]
    for sentence, mix, found in zip(
        sentences, mixes_of(elmo, tokenizer, sentences), logits_of(model, tokenizer, sentences), strict=True
    ):
        if not sentence:
            assert not len(found)
            continue
        # Words of more than 48 bytes are unknown here.
        places = [1 + WORDS.index(word) if word in WORDS and len(word) < 48 else 1 for word in sentence]
        parts = [nn.functional.linear(mix, *projection) if projected else mix, vectors[places]]
        read = torch.cat(parts if name == "tokens" else parts[::-1], dim=-1)
        with torch.no_grad():
            hidden, _ = lstm(read.unsqueeze(0))
        wanted = nn.functional.linear(hidden[0], *output_weights_of(others))
        torch.testing.assert_close(found, wanted, rtol=0, atol=FOREIGN_VECTORS)


def output_weights_of(weights):
    return weights["tag_projection_layer._module.weight"], weights["tag_projection_layer._module.bias"]


CRFS = {
    "none": (("N", "V", "D"), None, ("N", "V", "D")),
    "BIO": (("O", "B-A", "I-A", "I-B", "B-B"), "IOB2", ("O", "B-A", "I-A", "I-B", "B-B")),
    "IOB1": (("O", "B-A", "I-A", "I-B", "B-B"), "IOB1", ("O", "B-A", "I-A", "I-B", "B-B")),
    "BIOUL": (BIOUL, "BIOES", tuple(label.replace("U-", "S-").replace("L-", "E-") for label in BIOUL)),
}


@pytest.mark.parametrize("rules", CRFS)
def test_a_crf_chooses_the_best_sequence_that_its_rules_allow(tmp_path, elmo, rules):
    labels, scheme, names = CRFS[rules]
    lstm, weights = lstm_weights(12)
    crf = crf_weights(labels, scheme, names)
    others = weights | output_weights(len(labels)) | crf
    write_archive(tmp_path / "files", elmo, make_experiment("crf_tagger"), others=others, labels=labels)
    convert_foreign(tmp_path / "files", tmp_path / "ours")
    model = AutoModelForTokenClassification.from_pretrained(tmp_path / "ours")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "ours")
    assert tuple(model.config.id2label.values()) == names and model.config.head.scheme == scheme
    sentences = [["the", "cat", "."], ["sat"]]
    allowed = crf["crf._constraint_mask"] > 0
    count = len(labels)
    for mix, found in zip(mixes_of(elmo, tokenizer, sentences), logits_of(model, tokenizer, sentences), strict=True):
        with torch.no_grad():
            hidden, _ = lstm(mix.unsqueeze(0))
        scores = nn.functional.linear(hidden[0], *output_weights_of(others))
        best, best_score = None, -torch.inf
        for path in itertools.product(range(count), repeat=len(mix)):
            steps = [(count, path[0]), *itertools.pairwise(path), (path[-1], count + 1)]
            if not all(allowed[step] for step in steps):
                continue
            score = sum(scores[place, label] for place, label in enumerate(path))
            score += sum(crf["crf.transitions"][step] for step in steps[1:-1])
            score += crf["crf.start_transitions"][path[0]] + crf["crf.end_transitions"][path[-1]]
            if score > best_score:
                best, best_score = path, score
        assert tuple(found.argmax(dim=-1).tolist()) == best


def _gru(experiment, others):
    experiment["model"]["encoder"]["type"] = "gru"


def _one_way(experiment, others):
    experiment["model"]["encoder"]["bidirectional"] = False


def _feedforward(experiment, others):
    others["feedforward._linear_layers.0.weight"] = torch.zeros(3, 3)


def _characters(experiment, others):
    embedders = experiment["model"]["text_field_embedder"]["token_embedders"]
    embedders["token_characters"] = {"type": "character_encoding"}


def _classifier(experiment, others):
    experiment["model"]["type"] = "biattentive_classification_network"


def _odd_rules(experiment, others):
    rules = others["crf._constraint_mask"]
    rules[0, 1] = 1 - rules[0, 1]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (_gru, "gru"),
        (_one_way, "lstm"),
        (_feedforward, "feedforward"),
        (_characters, "token_characters"),
        (_classifier, "biattentive"),
        (_odd_rules, "rules"),
    ],
)
def test_of_other_models_the_elmo_is_read_and_the_reason_told(tmp_path, elmo, change, named):
    labels = ("O", "B-A", "I-A")
    experiment, others = make_experiment("crf_tagger"), lstm_weights(12)[1] | output_weights(3)
    others |= crf_weights(labels, "IOB2", labels)
    change(experiment, others)
    write_archive(tmp_path, elmo, experiment, others=others, labels=labels)
    foreign = load_source(tmp_path)
    assert isinstance(foreign.model, ElmoModel)
    assert named in foreign.notes[-1] and "encoder" in foreign.notes[-1]


def test_files_that_do_not_agree_are_refused_by_name(tmp_path, elmo):
    def write(name, labels=("N", "V"), words=WORDS, num_vectors=7, crf_size=None):
        others = lstm_weights(12 + VECTOR)[1] | output_weights(2)
        others[f"{EMBEDDER}tokens.weight"] = draw(num_vectors, VECTOR)
        if crf_size:
            others |= crf_weights(["N"] * crf_size, None, ["N"] * crf_size)
        write_archive(tmp_path / name, elmo, make_experiment("simple_tagger", "tokens"), others=others, labels=labels)
        write_namespace(tmp_path / name, "tokens", words)
        return tmp_path / name

    projection = "tag_projection_layer._module.weight"
    for source, named in (
        (write("labels", labels=("N", "V", "D")), (projection, "(2, 10)", "(3, 10)")),
        (write("vectors", num_vectors=9), (f"{EMBEDDER}tokens.weight", "(9, 3)", "(7, 3)")),
        (write("rules", crf_size=3), ("crf._constraint_mask", "(5, 5)", "(4, 4)")),
    ):
        assert_refused(ConversionError, named, load_foreign, source)
    missing = write("missing")
    (missing / "vocabulary" / "labels.txt").unlink()
    assert_refused(FileNotFoundError, "labels.txt", load_foreign, missing)
    (missing / "vocabulary" / "labels.txt").write_bytes(b"N\n\xff\n")
    assert_refused(ConversionError, ("labels.txt", "line 2"), load_foreign, missing)
