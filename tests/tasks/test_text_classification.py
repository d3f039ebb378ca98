"""Text classification: from labeled texts and pairs to classifiers that the pipelines load."""

import json
import random
from functools import partial

import numpy as np
import pytest
from conftest import make_tiny_config
from refusals import assert_refused
from toy_tasks import TOY_CONFIG, prepare
from transformers import pipeline

from hf_elmo.tasks.text_classification import TextClassification, write_records, write_table

make_task = partial(prepare, TextClassification)


def write_reviews(path, count, seed):
    """Sentences such as `a good film`, whose one telling word says the label."""
    draw = random.Random(seed)
    telling = {"0": ["bad", "dull", "poor"], "1": ["good", "great", "fine"]}
    lines = ["label\tsentence"]
    for _ in range(count):
        label = draw.choice("01")
        words = ["the", draw.choice(telling[label]), draw.choice(["film", "plot", "end"])]
        lines.append(f"{label}\t{' '.join(words[draw.randint(0, 1) :])}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def write_pairs(path, count, seed):
    """SNLI's lines; the second text says the same as the first one, or something else."""
    draw = random.Random(seed)
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            first, other = draw.sample(["red", "blue", "green"], 2)
            label = draw.choice(["entailment", "contradiction"])
            second = first if label == "entailment" else other
            thing = draw.choice(["hat", "coat", "shoe", "sock"])
            record = {"sentence1": f"a {first} {thing}", "sentence2": f"it is {second}", "gold_label": label}
            file.write(json.dumps({**record, "pairID": f"p{number}"}) + "\n")
        file.write('{"sentence1": "x", "sentence2": "y", "gold_label": "-", "pairID": "none"}\n')
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classification")
    make_tiny_config(**TOY_CONFIG).save_pretrained(folder / "architecture")
    for seed, (split, count) in enumerate({"train": 160, "dev": 24, "test": 24}.items()):
        write_reviews(folder / f"{split}.tsv", count, seed)
        write_pairs(folder / f"{split}.jsonl", 2 * count, seed)
    return folder


@pytest.fixture
def model(folder):
    return {"model_name_or_path": str(folder / "architecture"), "from_scratch": True}


def files(folder, ending):
    names = {"train_file": "train", "validation_file": "dev", "test_file": "test"}
    return {argument: str(folder / f"{name}.{ending}") for argument, name in names.items()}


@pytest.fixture(scope="module")
def reviewer(folder):
    """The directory and the results of one training on the reviews, by words and characters of the task's own."""
    model = {"model_name_or_path": str(folder / "architecture"), "from_scratch": True, "hidden_size": 8}
    inputs = {"learn_words": True, "word_vector_size": 8, "character_filters": [[3, 8]]}
    training = {"num_train_epochs": 4, "learning_rate": 1e-2, "per_device_train_batch_size": 16}
    out = {"output_dir": str(folder / "reviewer"), "load_best_model_at_end": True}
    return folder / "reviewer", make_task({**model, **inputs}, files(folder, "tsv"), {**out, **training}).run()


@pytest.fixture(scope="module")
def judge(folder):
    """The same for pairs."""
    model = {"model_name_or_path": str(folder / "architecture"), "from_scratch": True, "learn_words": True}
    head = {"mix_normalization": "word", "hidden_size": 8}
    dropouts = {"dropout": 0.0, "hidden_dropout": 0.0, "output_dropout": 0.0}
    data = {**files(folder, "jsonl"), "validation_file": None, "validation_fraction": 0.2}
    training = {"output_dir": str(folder / "judge"), "num_train_epochs": 8, "learning_rate": 1e-2}
    return folder / "judge", make_task({**model, **head, **dropouts}, data, training).run()


def test_a_run_on_texts_learns_and_writes_what_it_scored(reviewer, folder):
    directory, results = reviewer
    assert results["predict_accuracy"] > 0.8 and results["predict_macro_f1"] > 0.8
    assert results["task"] == "text-classification"
    assert np.sum(results["predict_confusion"]) == 24
    assert results["data"]["train"]["texts"] == 160 and results["data"]["train"]["source"] == "train.tsv"
    assert json.loads((directory / "results.json").read_text(encoding="utf-8")) == results
    card = (directory / "README.md").read_text(encoding="utf-8")
    assert f"| test | {100 * results['predict_accuracy']:.2f} |" in card and 'model="reviewer"' in card
    given = [line.split("\t") for line in (folder / "test.tsv").read_text().splitlines()[1:]]
    title, *rows = [line.split("\t") for line in (directory / "test_predictions.tsv").read_text().splitlines()]
    assert title == ["id", "gold", "predicted", "p(0)", "p(1)"]
    assert [(number, gold) for number, gold, *_ in rows] == [(str(n), gold) for n, (gold, _) in enumerate(given)]
    right = sum(gold == predicted for _, gold, predicted, *_ in rows)
    assert right / 24 == pytest.approx(results["predict_accuracy"])
    classifier = pipeline("text-classification", model=str(directory), top_k=None)
    for (_, text), (_, _, predicted, *numbers) in zip(given, rows, strict=True):
        scores = {entry["label"]: entry["score"] for entry in classifier([text])[0]}
        assert max(scores, key=scores.get) == predicted
        assert [scores["0"], scores["1"]] == pytest.approx(list(map(float, numbers)), abs=1e-5)


def test_a_checkpoint_is_scored_and_trained_further(reviewer, folder, tmp_path):
    directory, results = reviewer
    model, data = {"model_name_or_path": str(directory)}, {"test_file": str(folder / "test.tsv")}
    again = make_task(model, data, {"output_dir": str(tmp_path / "scores")}).run()
    assert again["predict_accuracy"] == results["predict_accuracy"]
    assert again["predict_confusion"] == results["predict_confusion"]
    (tmp_path / "other.tsv").write_text("label\ttext\n" + "no\tbad film\nyes\tgood film\nso\tsome film\n" * 4)
    training = {"output_dir": str(tmp_path / "more"), "max_steps": 1}
    task = make_task(model, {"train_file": str(tmp_path / "other.tsv")}, training)
    assert task.model.classifier.activation == "maxout" and "new ones for classifier;" in task.description
    assert task.run()["card"]["labels"] == ["no", "so", "yes"]


def test_phrases_of_trees_are_trained_on_but_not_scored(model, tmp_path):
    trees = tmp_path / "train.txt"
    trees.write_text("(1 (0 bad) (1 (1 good) (1 end)))\n(0 (0 bad) (0 end))\n" * 3)
    data = {"train_file": str(trees), "validation_file": str(trees), "min_phrase_words": 2}
    task = make_task({**model, "encoder": "pooled"}, data, {"output_dir": str(tmp_path / "out")})
    assert len(task.splits["train"]) == 9 and len(task.splits["validation"]) == 6


def test_a_run_on_pairs_learns_and_writes_snlis_lines(judge, folder):
    directory, results = judge
    assert results["predict_accuracy"] > 0.9 and results["card"]["labels"] == ["contradiction", "entailment"]
    assert results["data"]["test"]["unlabeled"] == 1 and results["data"]["test"]["texts"] == 48
    written = [json.loads(line) for line in (directory / "test_predictions.jsonl").read_text().splitlines()]
    given = [json.loads(line) for line in (folder / "test.jsonl").read_text().splitlines()[:-1]]
    assert all(record.items() <= line.items() for record, line in zip(given, written, strict=True))
    right = sum(line["gold_label"] == line["predicted_label"] for line in written)
    assert right / 48 == pytest.approx(results["predict_accuracy"])
    assert (directory / "test_predictions.tsv").read_text().splitlines()[1].startswith("p0\t")
    # Pairs of one first text are held out together: twelve such texts in all, each on one side.
    parts = [results["data"][split]["texts"] for split in ("train", "validation")]
    assert sum(parts) == 320 and min(parts) > 0
    held_out = (directory / "validation_predictions.jsonl").read_text().splitlines()
    firsts = {json.loads(line)["sentence1"] for line in held_out}
    everywhere = [json.loads(line)["sentence1"] for line in (folder / "train.jsonl").read_text().splitlines()]
    assert len(held_out) == sum(first in firsts for first in everywhere) and len(firsts) < 12


def test_a_judge_of_entailment_is_a_zero_shot_classifier(judge):
    zero_shot = pipeline("zero-shot-classification", model=str(judge[0]))
    assert (zero_shot.model.encoder_name, zero_shot.model.config.mix_normalization) == ("esim", "word")
    found = zero_shot("a red hat", ["red", "blue"], hypothesis_template="it is {}", multi_label=True)
    assert found["labels"][0] == "red"


def test_raw_text_is_cut_by_the_tokenizer_unless_it_is_tokenized_and_told_of_where_that_does_not(
    model, tmp_path, capsys
):
    (tmp_path / "raw.tsv").write_text("label\ttext\n" + "1\tIt's fun. (U.S.)\n0\tBad, bad film!\n" * 20)
    data, out = {"train_file": str(tmp_path / "raw.tsv")}, {"output_dir": str(tmp_path / "out")}
    words = {}
    for cut, is_tokenized in (("unicode", False), ("unicode", True), (None, False)):
        given = {**data, "text_is_tokenized": is_tokenized}
        task = make_task({**model, "pre_tokenizer": cut}, given, out)
        assert ("raw text" in capsys.readouterr().err) == (cut is None or is_tokenized)
        words[cut, is_tokenized] = task.tokenizer.decode(task.encode("train")[0]["input_ids"].tolist())
        assert task.data["train"]["words"] == 20 * (11 if cut == "unicode" and not is_tokenized else 6)
    assert words["unicode", False] == "<S> It's fun . ( U.S. ) </S>"
    assert words["unicode", True] == words[None, False] == "<S> It's fun. (U.S.) </S>"


def test_pairs_have_types_and_are_cut_where_too_long(model, tmp_path):
    (tmp_path / "pairs.tsv").write_text("premise\thypothesis\tlabel\na b c d\te\tn\nf\tg\tm\n")
    data, out = {"train_file": str(tmp_path / "pairs.tsv")}, {"output_dir": str(tmp_path / "out")}
    row, _ = make_task(model, data, out).encode("train")
    assert row["token_type_ids"].tolist() == [0] * 6 + [1] * 3 and row["labels"] == 1
    task = make_task({**model, "max_length": 7}, data, out)
    assert task.tokenizer.decode(task.encode("train")[0]["input_ids"].tolist()) == "<S> a b </S> <S> e </S>"


def test_tables_and_records():
    labeled = [({"id": "i\t2", "gold_label": "yes"}, ["b", "d"], {"no": 0.125, "yes": 0.875})]
    assert list(write_table(labeled, ["no", "yes"]))[1:] == ["i 2\tyes\tyes\t0.125000\t0.875000"]
    (record,) = map(json.loads, write_records(labeled))
    assert record["predicted_label"] == "yes" and record["probabilities"] == {"no": 0.125, "yes": 0.875}
    assert (record["sentence1"], record["sentence2"], record["gold_label"]) == ("b", "d", "yes")


@pytest.mark.parametrize(
    ("given", "data", "named"),
    [
        ({}, {"test_file": "odd.tsv"}, ("test_file", "odd.tsv", "line 2", "'5'", "column")),
        ({}, {"train_file": "one.tsv"}, ("'0'", "label_column")),
        ({}, {"min_phrase_words": 4}, ("min_phrase_words", "train.tsv")),
        ({}, {"min_phrase_words": 4, "validation_file": None, "validation_fraction": 0.1}, "validation_fraction 0.1"),
        ({"max_length": 0}, {}, "max_length"),
        ({"encoder": "pooled", "mix_at_output": True}, {}, "mix_at_output"),
        ({}, {"train_file": None, "validation_file": None}, "no head of the task text-classification"),
        ({}, {"test_file": "test.jsonl"}, ("test.jsonl", "train.tsv", "--text_pair_column")),
        ({"encoder": "esim"}, {}, ("'esim'", "single texts", "bcn and pooled", "--text_pair_column")),
        ({}, {"text_pair_column": "label"}, ("train.tsv", "text_pair", "label")),
    ],
)
def test_bad_arguments_and_data(given, data, named, model, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd.tsv").write_text("label\tsentence\n5\tgood\n6\tgood\n")
    (tmp_path / "one.tsv").write_text("label\tsentence\n0\tgood\n0\tbad\n")
    (tmp_path / "test.jsonl").write_bytes((folder / "test.jsonl").read_bytes())
    args = {**model, **given}, {**files(folder, "tsv"), **data}, {"output_dir": str(tmp_path / "out")}
    assert_refused((ValueError, FileNotFoundError), named, make_task, *args)
    assert not (tmp_path / "out").exists()


def test_labels_that_only_the_test_data_have_are_scored_as_missed(reviewer, folder, tmp_path, capsys):
    rows = (folder / "test.tsv").read_text().splitlines()
    (tmp_path / "test.tsv").write_text("\n".join([*rows, "so\tsome film", "so\tany film"]) + "\n")
    task = make_task(
        {"model_name_or_path": str(reviewer[0])},
        {"test_file": str(tmp_path / "test.tsv")},
        {"output_dir": str(tmp_path / "out"), "per_device_eval_batch_size": 2},
    )
    assert capsys.readouterr().err.count("'so' (test_file") == 1
    results, known = task.run(), reviewer[1]
    assert results["card"]["labels"] == ["0", "1"] and results["unseen_labels"] == ["so"]
    assert results["predict_accuracy"] == pytest.approx(known["predict_accuracy"] * 24 / 26)
    assert results["predict_by_class"]["so"] == {"precision": 0, "recall": 0, "f1": 0, "number": 2}
    assert sum(results["predict_confusion"][2]) == 2 and len(results["predict_confusion"]) == 3
    # The last batch has no label that the model knows.
    assert results["predict_loss"] == pytest.approx(known["predict_loss"] * 24 / 26, rel=1e-4)
    assert len((tmp_path / "out" / "test_predictions.tsv").read_text().splitlines()[-1].split("\t")) == 5


def test_a_classifier_of_pairs_is_none_of_texts(judge, folder, tmp_path):
    directory, _ = judge
    given, data = {"model_name_or_path": str(directory)}, {"train_file": str(folder / "train.tsv")}
    out = {"output_dir": str(tmp_path / "out")}
    assert_refused(ValueError, ("'esim'", str(directory), "--head encoder"), make_task, given, data, out)
    task = make_task({**given, "encoder": "pooled"}, data, out)
    assert task.model.encoder_name == "pooled" and task.labels == ["0", "1"]
