"""The token classification task: from tagged sentences to a tagger that the pipeline loads."""

import itertools
import json
import math
import random
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from conftest import make_tiny_config
from datasets import ClassLabel, Dataset, DatasetDict, Features, Sequence, Value
from hypothesis import given
from hypothesis import strategies as st
from model_cases import save_in_half_precision
from refusals import assert_refused
from toy_tasks import TOY_CONFIG, prepare
from transformers import AutoModelForTokenClassification, pipeline

from hf_elmo import ElmoForPreTraining
from hf_elmo.hub.sharing import files_to_send
from hf_elmo.model.modeling_elmo_tasks import SCHEMES, Span, can_follow, write_spans
from hf_elmo.tasks import layer_cache
from hf_elmo.tasks.data import encode_rows, pad_rows
from hf_elmo.tasks.inputs import find_unseen
from hf_elmo.tasks.readers.columns import TaggedSentences, read_tagged_file
from hf_elmo.tasks.token_classification import TokenClassification, find_scheme, in_scheme, to_scheme

make_task = partial(prepare, TokenClassification)
TOY_LABELS = {"B-LOC", "B-PER", "I-PER", "O"}


def write_toy(path, count, seed):
    """Sentences such as `Anna Smith sees Oslo .` with their people and places marked."""
    draw = random.Random(seed)
    blocks = []
    for _ in range(count):
        rows = [(draw.choice(["Anna", "Bert", "Carla", "Dirk"]), "B-PER")]
        rows += [("Smith", "I-PER")] if draw.random() < 0.4 else []
        rows += [
            (draw.choice(["sees", "visits", "likes"]), "O"),
            (draw.choice(["Oslo", "Rome", "Lima"]), "B-LOC"),
            (".", "O"),
        ]
        blocks.append("".join(f"{word}\t{label}\n" for word, label in rows))
    path.write_text("\n".join(blocks), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """The flags of an untrained model and those of the toy files."""
    folder = tmp_path_factory.mktemp("toy")
    make_tiny_config(**TOY_CONFIG).save_pretrained(folder / "architecture")
    counts = {"train": 192, "validation": 24, "test": 24}
    files = {
        f"{split}_file": write_toy(folder / f"{split}.conll", count, seed)
        for seed, (split, count) in enumerate(counts.items())
    }
    return {"model_name_or_path": str(folder / "architecture"), "from_scratch": True}, files


@pytest.fixture(scope="module")
def tagger(toy, tmp_path_factory):
    """The directory and the results of a run in another scheme than its files', with all that can stand beside ELMo."""
    out = tmp_path_factory.mktemp("crf") / "tagger"
    head = {"output_layer": "crf", "lstm_layers": 1, "lstm_size": 8, "mix_at_output": True, "dropout": 0.1}
    inputs = {"learn_words": True, "word_vector_size": 8, "character_filters": [[3, 8]]}
    training = {"num_train_epochs": 4, "learning_rate": 2e-2, "num_seeds": 2, "load_best_model_at_end": True}
    task = make_task({**toy[0], **head, **inputs, "convert_scheme": "BIOES"}, toy[1], {"output_dir": out, **training})
    return out, task.run()


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """A pre-training checkpoint in half precision."""
    return save_in_half_precision(tmp_path_factory.mktemp("pretrained"))


@pytest.fixture
def out(tmp_path):
    return {"output_dir": str(tmp_path / "out")}


def tagged(*sentences, source="train_file 'train.conll'"):
    """Sentences given as "word/label word/label"."""
    pairs = [[pair.split("/") for pair in sentence.split()] for sentence in sentences]
    lines = [[10 * row + word for word in range(len(sentence))] for row, sentence in enumerate(pairs, start=1)]
    return TaggedSentences(
        source, [[p[0] for p in row] for row in pairs], [[p[1] for p in row] for row in pairs], lines
    )


def test_rows_have_all_words_and_are_padded_behind_them(tokenizer):
    sentences = [["<S>", "", "a b"], ["d"], []]
    rows = encode_rows(tokenizer, "x", sentences, is_split_into_words=True)
    for row, words in zip(rows, sentences, strict=True):
        row["labels"] = [-100, *range(len(words)), -100]
    batch = pad_rows(rows)
    assert batch["input_ids"].shape == (3, 5, 50) and batch["input_ids"].dtype == torch.int64
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 0, 0, 0]]
    assert batch["labels"].tolist() == [[-100, 0, 1, 2, -100], [-100, 0, *[-100] * 3], [-100] * 5]
    wanted = tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="pt")
    assert torch.equal(batch["input_ids"], wanted["input_ids"])


def test_labels_are_those_of_training_or_of_a_checkpoint_that_knows_them():
    train, known = tagged("a/O b/B-X"), ["O", "B-Y", "B-X"]

    def choose_labels(known, **splits):
        return TokenClassification.choose_labels(SimpleNamespace(splits=splits), known)

    assert choose_labels(known, train=train) == choose_labels(known, test=tagged("a/O")) == known
    assert choose_labels(known, train=tagged("a/B-Q")) == ["B-Q"]
    train.known_labels = ("O", "B-Z")
    assert choose_labels(None, train=train, test=tagged("a/B-A")) == ["B-X", "B-Z", "O"]
    test = tagged("a/O", "b/O c/B-Y", source="test_file 'test.conll'")
    splits = {"train": tagged("a/O"), "test": test, "validation": tagged("a/O b/B-Z c/B-Y")}
    unseen = find_unseen(splits, ["O"])
    assert unseen == {"B-Y": "test_file 'test.conll', line 21", "B-Z": "train_file 'train.conll', line 11"}
    assert find_unseen(splits, ["O", "B-Y", "B-Z"]) == {}
    assert_refused(ValueError, ("line 10: ", "'O'", "'X'"), find_unseen, {"test": tagged("a/O")}, ["X"])


# Runs


def test_a_run_learns_and_writes_the_scheme_of_the_files(tagger, toy):
    out, results = tagger
    assert results["predict_f1"] > 0.95
    assert results["predict_entities"]["LOC"]["number"] == 24 and results["predict_accuracy"] > 0.95
    gold, written = read_tagged_file(toy[1]["test_file"]), read_tagged_file(out / "test_predictions.conll")
    assert written.words == gold.words and {label for row in written.labels for label in row} <= TOY_LABELS
    assert read_tagged_file(out / "test_predictions.conll", label_column=1).labels == gold.labels
    assert len(results["seeds"]) == 2 and results["predict_f1"] in {row["predict_f1"] for row in results["seeds"]}
    assert json.loads((out / "results.json").read_text(encoding="utf-8")) == results
    model = AutoModelForTokenClassification.from_pretrained(out)
    head = model.config.head
    assert (head.scheme, head.output_layer, head.dropout, model.config.num_mixes) == ("BIOES", "crf", 0.1, 2)
    assert results["layer_shares"] == [pytest.approx(shares) for shares in model.layer_shares()]
    names = {path.name for path in out.iterdir()}
    assert {"tokenizer_config.json", "modeling_elmo.py", "trainer_state.json", "validation_predictions.conll"} <= names
    assert not [name for name in names if name.startswith(("checkpoint-", "."))] and not list(out.parent.glob(".*"))
    sent = {path.name for path in files_to_send(out)}
    assert {"README.md", "results.json", "model.safetensors"} <= sent and "training_args.bin" not in sent
    card = (out / "README.md").read_text(encoding="utf-8")
    for part in ("mean of seeds", "seed 4", "± ", "scheme BIOES", "predictions of IOB2", "tagger"):
        assert part in card, part
    assert f"| test | {100 * results['predict_f1']:.2f} |" in card and f"| {results['kept_step']} |" in card
    assert re.search(r"word_table_size \d+", card) and re.search(r"character_filters .*3, 8", card)


def test_pipeline_predictions_and_scores_of_the_checkpoint_are_those_of_the_run(tagger, toy, tmp_path):
    out, results = tagger
    grouped = pipeline("token-classification", model=str(out), aggregation_strategy="simple")
    found = [(one["entity_group"], one["word"]) for one in grouped("Anna Smith sees Oslo .")]
    assert found == [("PER", "Anna Smith"), ("LOC", "Oslo")]
    data, again = {"test_file": toy[1]["test_file"]}, tmp_path / "again"
    scored = make_task({"model_name_or_path": str(out)}, data, {"output_dir": str(again)}).run()
    assert scored["predict_f1"] == results["predict_f1"]
    assert {path.name for path in again.iterdir()} == {"results.json", "test_predictions.conll"}
    name = "test_predictions.conll"
    assert (again / name).read_bytes() == (out / name).read_bytes()


def test_a_tagger_goes_on_with_its_labels_and_has_new_parts_for_others(tagger, toy, out, tmp_path):
    model, source = {"model_name_or_path": str(tagger[0])}, AutoModelForTokenClassification.from_pretrained(tagger[0])
    task = make_task(model, toy[1], out)
    assert torch.equal(task.model.classifier.weight, source.classifier.weight) and "new ones" not in task.description
    (tmp_path / "other.conll").write_text(Path(toy[1]["train_file"]).read_text().replace("-PER", "-HUM"))
    task = make_task(model, {"train_file": str(tmp_path / "other.conll")}, out)
    assert task.model.classifier.weight.shape == source.classifier.weight.shape
    assert not torch.equal(task.model.classifier.weight, source.classifier.weight)
    assert "classifier, crf" in task.description and not task.model.crf.transitions.any()
    assert "S-HUM" in task.model.config.label2id and task.model.classifier.weight.requires_grad


def test_best_epoch_is_the_one_kept(toy, out):
    # Upside down, so that the best epoch is not the last.
    best = {"load_best_model_at_end": True, "metric_for_best_model": "accuracy", "greater_is_better": False}
    training = {**out, **best, "num_train_epochs": 4, "learning_rate": 1e-2}
    results = make_task({**toy[0], "freeze_bilm": False}, {**toy[1], "test_file": None}, training).run()
    state = json.loads((Path(out["output_dir"]) / "trainer_state.json").read_text(encoding="utf-8"))
    history = [entry["eval_accuracy"] for entry in state["log_history"] if "eval_accuracy" in entry]
    assert results["eval_accuracy"] == min(history) < history[-1]


def test_checkpoints_asked_for_are_kept_and_can_be_resumed(toy, tmp_path, capsys):
    data, first = {**toy[1], "test_file": None}, tmp_path / "first"
    training = {"num_train_epochs": 2, "save_strategy": "epoch", "load_best_model_at_end": True}
    make_task(toy[0], data, {"output_dir": str(first), **training}).run()
    state = json.loads((first / "trainer_state.json").read_text(encoding="utf-8"))
    assert Path(state["best_model_checkpoint"]).is_dir()
    capsys.readouterr()
    training |= {"num_train_epochs": 3, "resume_from_checkpoint": str(first / "checkpoint-6")}
    make_task(toy[0], data, {"output_dir": str(tmp_path / "second"), **training}).run()
    assert re.findall(r"epoch (\d) of 3: training", capsys.readouterr().out) == ["2", "3"]


def test_kept_layers_change_no_score(pretrained, toy, tmp_path, capsys, monkeypatch):
    data = {split: toy[1][split] for split in ("train_file", "validation_file")}
    model, results = {"model_name_or_path": pretrained, "layer_cache_dir": str(tmp_path / "layers")}, []
    for number in range(3):
        with monkeypatch.context() as patched:
            if number == 0:
                patched.setattr(layer_cache.shutil, "disk_usage", lambda path: SimpleNamespace(free=0))
            training = {"output_dir": str(tmp_path / f"out{number}"), "num_train_epochs": 2, "seed": 1}
            task = make_task(model, data, training)
            if number == 2:
                task.model.elmo.bilm.register_forward_hook(lambda *_: pytest.fail("the biLM was run"))
            results.append(task.run())
    assert capsys.readouterr().out.count("layers: computing") == len(list((tmp_path / "layers").glob("*.npy"))) == 1
    for found in results[1:]:
        assert found["eval_loss"] == pytest.approx(results[0]["eval_loss"], abs=1e-4)
        assert found["eval_f1"] == results[0]["eval_f1"]


def test_labels_that_only_the_test_data_have_are_scored_as_missed(toy, tmp_path, out, capsys):
    # As CoNLL-2000 has them; here in the form of CoNLL-2003, too, with B where IOB1 has no B.
    text = Path(toy[1]["train_file"]).read_text(encoding="utf-8").replace("B-", "I-").replace("\t", " NN ")
    (tmp_path / "eng.train").write_text("-DOCSTART- -X- O\n\n" + text.replace("I-LOC", "B-LOC", 2), encoding="utf-8")
    rows = "Anna NN I-PER\nsees NN O\nLima NN I-NEW\n\nBert NN I-PER\nlikes NN O\nRome NN I-LOC\n"
    (tmp_path / "eng.testb").write_text(rows, encoding="utf-8")
    task = make_task(
        {**toy[0], "freeze_bilm": False, "output_layer": "crf"},
        {"train_file": str(tmp_path / "eng.train"), "test_file": str(tmp_path / "eng.testb")},
        {**out, "num_train_epochs": 4, "learning_rate": 1e-2},
    )
    told = capsys.readouterr().err.splitlines()
    assert [line for line in told if "'I-NEW'" in line and "line 3" in line and "as missed" in line] == told[-1:]
    assert len(told) == 2 and "the rules of IOB1: 2 (the first: train_file" in told[0]
    results = task.run()
    assert results["unseen_labels"] == ["I-NEW"] and "I-NEW" not in task.model.config.label2id
    new = results["predict_entities"]["NEW"]
    assert new["number"] == 1 and new["recall"] == 0 and results["predict_recall"] == 0.75
    assert math.isfinite(results["predict_loss"]) and results["predict_loss"] < 0.5
    gold = read_tagged_file(tmp_path / "out" / "test_predictions.conll", label_column=1).labels
    assert gold == [["I-PER", "O", "I-NEW"], ["I-PER", "O", "I-LOC"]]


def test_a_dataset_with_named_labels(toy, tmp_path, out):
    labels = Sequence(ClassLabel(names=["O", "B-X", "I-X"]))
    columns = {"tokens": [["a", "b"], [], ["c d", "e\tf"]], "ner_tags": [[0, 1], [], [0, 0]]}
    features = Features({"tokens": Sequence(Value("string")), "ner_tags": labels})
    part, data = Dataset.from_dict(columns, features=features), {"dataset_name": str(tmp_path / "dataset")}
    DatasetDict(train=part, validation=part, test=part).save_to_disk(tmp_path / "dataset")
    task = make_task(toy[0], data, {**out, "num_train_epochs": 1})
    assert list(task.model.config.id2label.values()) == ["B-X", "I-X", "O"]
    assert task.data["test"]["source"] == "dataset, test"
    task.run()
    written = (tmp_path / "out" / "test_predictions.conll").read_text(encoding="utf-8")
    assert re.fullmatch(r"a\tO\t\S+\nb\tB-X\t\S+\n\n\nc d\tO\t\S+\ne f\tO\t\S+\n\n", written)
    asked = {"output_dir": str(tmp_path / "new"), "do_train": True}
    assert set(make_task(toy[0], data, asked).splits) == {"train", "validation"}
    assert set(make_task(toy[0], data, {**asked, "do_predict": True}).splits) == {"train", "validation", "test"}


# Models


def test_pretrained_weights_are_kept_in_float32_or_drawn_anew(pretrained, toy, out):
    source = ElmoForPreTraining.from_pretrained(pretrained, dtype=torch.float32)
    task = make_task({"model_name_or_path": pretrained}, toy[1], out)
    for name, parameter in task.model.elmo.named_parameters():
        assert parameter.dtype == torch.float32
        assert torch.equal(parameter, source.elmo.get_parameter(name)), name
    assert task.tokenizer.do_lower_case and task.model.config.word_vocab_size is None
    assert "except new ones for classifier" in task.description and task.training_args.learning_rate == 1e-3
    assert not any(parameter.requires_grad for parameter in task.model.elmo.bilm.parameters())
    task = make_task({"model_name_or_path": pretrained, "from_scratch": True, "freeze_bilm": False}, toy[1], out)
    assert task.tokenizer.do_lower_case and "all weights random" in task.description
    assert task.model.config.projection_size == source.config.projection_size
    for name, parameter in task.model.elmo.named_parameters():
        if name.endswith(("weight", "weight_ih", "weight_hh", "weight_hr")) and not name.startswith("mixes"):
            assert not torch.equal(parameter, source.elmo.get_parameter(name)), name


def test_settings_and_layers_of_the_model_are_those_of_the_flags(pretrained, toy, out):
    model = {"model_name_or_path": pretrained, "freeze_bilm": False, "layers": "top", "mix_l2": 0.5}
    task = make_task({**model, "lstm_layers": 2, "lstm_size": 7, "dropout": 0.25}, toy[1], out)
    config, head = task.model.config, task.model.config.head
    assert (head.lstm_layers, head.lstm_size, head.dropout) == (2, 7, 0.25)
    assert (config.mix_l2, config.freeze_bilm, config.mixed_layers) == (0.5, False, "top")
    assert all(parameter.requires_grad for parameter in task.model.parameters() if parameter.ndim > 1)
    assert task.training_args.learning_rate == 1e-4 and "except new ones for classifier, lstm" in task.description


def test_the_same_seed_gives_the_same_model(pretrained, toy, out):
    weights = [
        make_task({"model_name_or_path": pretrained}, toy[1], {**out, "seed": seed}).model.classifier.weight
        for seed in (1, 1, 2)
    ]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])


# What is refused


@pytest.mark.parametrize(
    "model, data, training, named",
    [
        ({}, {"train_file": None}, {}, "--train_file"),
        ({}, {"dataset_name": "x"}, {}, ("dataset_name 'x'", "train.conll")),
        ({"dropout": 1.5}, {}, {}, "dropout"),
        ({"lstm_layers": -1}, {}, {}, "lstm_layers"),
        ({"mix_l2": -1.0}, {}, {}, "mix_l2"),
        ({}, {}, {"push_to_hub": True}, "push_to_hub"),
        ({}, {}, {"output_dir": "full"}, "--overwrite_output_dir"),
        ({}, {}, {"output_dir": "toy", "overwrite_output_dir": True}, "train_file"),
        ({"model_name_or_path": "none/none"}, {}, {}, "model_name_or_path 'none/none'"),
        ({"model_name_or_path": "full"}, {}, {}, "config.json"),
        ({"model_name_or_path": "bert"}, {}, {}, ("'bert'", "'elmo'")),
        ({"from_scratch": False}, {}, {}, "--from_scratch"),
        ({}, {"train_file": "open.conllu", "label_column": "xpos"}, {}, ("open.conllu", "['_']", "--label_column")),
        ({"model_name_or_path": "shapes", "from_scratch": False}, {}, {}, "'elmo.bilm"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_written(
    model, data, training, named, toy, pretrained, tmp_path, out, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name in ("full", "bert", "shapes"):
        (tmp_path / name).mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "open.conllu").write_text("1\tAnna\t_\tPROPN" + "\t_" * 6 + "\n")
    (tmp_path / "bert" / "config.json").write_text('{"model_type": "bert"}')
    for name in ("model.safetensors", "tokenizer_config.json"):
        (tmp_path / "shapes" / name).write_bytes((Path(pretrained) / name).read_bytes())
    make_tiny_config(cell_size=12).save_pretrained(tmp_path / "shapes")
    (tmp_path / "toy").symlink_to(Path(toy[1]["train_file"]).parent)
    data = {"train_file": toy[1]["train_file"], **data}
    errors = (ValueError, FileNotFoundError, FileExistsError)
    assert_refused(errors, named, make_task, {**toy[0], **model}, data, {**out, **training})
    assert not (tmp_path / "out").exists()


def test_mixed_tags(toy, tmp_path, out):
    data = {"train_file": str(tmp_path / "mixed.conll")}
    (tmp_path / "mixed.conll").write_text("a B-X\nb NN\n")
    assert_refused(ValueError, ("'NN'", "--tag_scheme words"), make_task, toy[0], data, out)
    assert make_task(toy[0], {**data, "tag_scheme": "words"}, out).tag_scheme == "words"
    (tmp_path / "mixed.conll").write_text("a JJ\nb NN\n")
    assert_refused(ValueError, "'BIOES'", make_task, {**toy[0], "convert_scheme": "BIOES"}, data, out)


# Schemes

LETTERS = {"BILOU": str.maketrans("ES", "LU"), "BMES": str.maketrans("I", "M")}
ALL = (*SCHEMES, *LETTERS)


@st.composite
def spans_of_sentences(draw):
    """Spans of some sentences, among them one with two neighbors of a type and one of three words."""
    rows = [[Span("X", 0, 1), Span("X", 1, 2), Span("X", 3, 6)]]
    for _ in range(draw(st.integers(0, 3))):
        row, place = [], 0
        for kind, gap, length in draw(st.lists(st.tuples(st.sampled_from("XY"), st.integers(0, 2), st.integers(1, 3)))):
            row.append(Span(kind, place + gap, place + gap + length))
            place += gap + length
        rows.append(row)
    return rows


def corpus(rows, scheme):
    labels = []
    for row in rows:
        length = row[-1].stop + 1 if row else 2
        written = write_spans(row, length, "BIOES" if scheme in LETTERS else scheme)
        change = LETTERS.get(scheme, {})
        labels.append([label[0].translate(change) + label[1:] for label in written])
    return TaggedSentences("train_file 'x'", [["w"] * len(row) for row in labels], labels)


@pytest.mark.parametrize("scheme", ALL)
@given(spans_of_sentences())
def test_a_scheme_is_told_and_comes_back(scheme, rows):
    sentences = corpus(rows, scheme)
    assert find_scheme([sentences]) == (scheme, [])
    for model in SCHEMES:
        converted = to_scheme(sentences, model)
        assert {label for row in converted.labels for label in row} <= set(converted.known_labels)
        for row in converted.labels:
            marks = [None, *row, None]
            assert all(can_follow(*pair, model) for pair in itertools.pairwise(marks))
        assert [in_scheme(row, scheme) for row in converted.labels] == sentences.labels


@pytest.mark.parametrize(
    "labels, scheme, wrong, read",
    [
        (["B-X", "I-X", "O", "I-X"], "IOB2", ["line 6: the label 'I-X'"], ["B-X", "I-X", "O", "B-X"]),
        (["S-X", "O", "B-X", "O"], "BIOES", ["line 5: the label 'B-X'"], ["S-X", "O", "S-X", "O"]),
        # As in eng.train of CoNLL-2003.
        (["I-X", "O", "B-Y", "I-Y"], "IOB1", ["line 5: the label 'B-Y'"], ["I-X", "O", "I-Y", "I-Y"]),
        (["L-X", "U-X", "B-X", "O"], "BILOU", ["line 3: ", "line 5: "], ["S-X", "S-X", "S-X", "O"]),
    ],
)
def test_labels_that_break_the_rules_are_counted_and_read_as_conlleval_reads_them(labels, scheme, wrong, read):
    first = TaggedSentences("train_file 'x'", [["w"] * 3], corpus([[Span("Z", 0, 2)]], scheme).labels, [[1, 2, 3]])
    second = TaggedSentences("test_file 'y'", [["w"] * 4], [labels], [[3, 4, 5, 6]])
    found, places = find_scheme([first, second])
    assert found == scheme and len(places) == len(wrong)
    assert all(place.startswith(f"test_file 'y', {start}") for place, start in zip(places, wrong, strict=True))
    assert to_scheme(second, scheme if scheme in SCHEMES else "BIOES").labels == [read]


def test_a_label_without_a_type_has_no_scheme():
    words = [TaggedSentences("train_file 'x'", [["w"] * 2], [["B", "I"]])]
    assert_refused(ValueError, ("train_file 'x'", "'B'", "--head output_layer=softmax"), find_scheme, words)


@pytest.mark.parametrize(
    "labels, settings, scheme, converted",
    [
        ("BIO", {}, None, None),
        ("BIOI", {}, None, None),
        ("BIOI", {"output_layer": "crf"}, "IOB2", "IOB2"),
        ("BIO", {"output_layer": "crf"}, "IOB2", None),
        ("BIO", {"output_layer": "crf", "convert_scheme": "BIOES"}, "BIOES", "IOB2"),
        ("BIO", {"output_layer": "crf", "scheme": "BIOES"}, "IOB2", None),
        ("BIO", {"convert_scheme": "IOB2"}, "IOB2", None),
        ("BLO", {"output_layer": "crf"}, "BIOES", "BILOU"),
        ("NVV", {"output_layer": "crf", "scheme": "IOB2"}, None, None),
    ],
)
def test_which_scheme_a_model_learns(labels, settings, scheme, converted, tmp_path):
    make_tiny_config().save_pretrained(tmp_path)
    lines = (f"w\t{label}-X\n" if label in "BIL" else f"w\t{label}\n" for label in labels)
    (tmp_path / "train.conll").write_text("".join(lines))
    model = {"model_name_or_path": str(tmp_path), "from_scratch": True, **settings}
    data, training = {"train_file": str(tmp_path / "train.conll")}, {"output_dir": str(tmp_path / "out")}
    task = make_task(model, data, training)
    assert (task.model.config.head.scheme, task.corpus_scheme) == (scheme, converted)
