"""Text classification: from labelled texts and pairs to classifiers that the pipelines load."""

import json
import random
from functools import partial

import numpy as np
import pytest
import torch
from conftest import make_tiny_config
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value
from refusals import assert_refused
from toy_tasks import TOY_CONFIG, prepare
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

from hf_elmo import ElmoCharTokenizer, ElmoForSequenceClassification
from hf_elmo.tasks.readers.texts import LabelledTexts
from hf_elmo.tasks.text_classification import (
    TextClassification,
    encode,
    words_of,
    write_records,
    write_table,
)

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
        write_pairs(folder / f"{split}.jsonl", 3 * count, seed)
    return folder


def files(folder, ending):
    names = {"train_file": "train", "validation_file": "dev", "test_file": "test"}
    return {argument: str(folder / f"{name}.{ending}") for argument, name in names.items()}


@pytest.fixture(scope="module")
def reviewer(folder):
    """The directory and the results of one training on the reviews, by words and characters of the task's own."""
    task = make_task(
        {
            "model_name_or_path": str(folder / "architecture"),
            "from_scratch": True,
            "hidden_size": 8,
            "learn_words": True,
            "word_vector_size": 8,
            "character_filters": [[3, 8]],
        },
        files(folder, "tsv"),
        {
            "output_dir": str(folder / "reviewer"),
            "num_train_epochs": 4,
            "learning_rate": 1e-2,
            "per_device_train_batch_size": 16,
            "load_best_model_at_end": True,
        },
    )
    return folder / "reviewer", task.run()


@pytest.fixture(scope="module")
def judge(folder):
    """The same for pairs."""
    task = make_task(
        {
            "model_name_or_path": str(folder / "architecture"),
            "from_scratch": True,
            "encoder": "esim",
            "mix_normalization": "word",
            "hidden_size": 8,
            "dropout": 0.0,
            "hidden_dropout": 0.0,
            "output_dropout": 0.0,
            "learn_words": True,
        },
        {**files(folder, "jsonl"), "validation_file": None, "validation_fraction": 0.2},
        {"output_dir": str(folder / "judge"), "num_train_epochs": 8, "learning_rate": 1e-2},
    )
    return folder / "judge", task.run()


class TestTexts:
    def test_it_learns_and_writes_what_it_scored(self, reviewer, folder):
        directory, results = reviewer
        assert results["predict_accuracy"] > 0.8 and results["predict_macro_f1"] > 0.8
        assert results["task"] == "text-classification" and results["labels"] == ["0", "1"]
        assert np.sum(results["predict_confusion"]) == 24
        assert results["data"]["train"]["texts"] == 160 and results["data"]["train"]["source"] == "train.tsv"
        assert json.loads((directory / "results.json").read_text(encoding="utf-8")) == results
        rows = [line.split("\t") for line in (directory / "test_predictions.tsv").read_text().splitlines()]
        assert rows[0] == ["id", "gold", "predicted", "p(0)", "p(1)"] and len(rows) == 25
        right = sum(gold == predicted for _, gold, predicted, *_ in rows[1:])
        assert right / 24 == pytest.approx(results["predict_accuracy"])
        gold = [line.split("\t")[0] for line in (folder / "test.tsv").read_text().splitlines()[1:]]
        assert [row[1] for row in rows[1:]] == gold
        card = (directory / "README.md").read_text(encoding="utf-8")
        assert f"| test | {100 * results['predict_accuracy']:.2f} |" in card and 'model="reviewer"' in card

    def test_the_pipeline_predicts_what_the_file_says(self, reviewer, folder):
        directory, _ = reviewer
        texts = [line.split("\t")[1] for line in (folder / "test.tsv").read_text().splitlines()[1:]]
        written = [line.split("\t") for line in (directory / "test_predictions.tsv").read_text().splitlines()[1:]]
        classifier = pipeline("text-classification", model=str(directory), top_k=None)
        for text, (_, _, predicted, *numbers) in zip(texts, written, strict=True):
            scores = {entry["label"]: entry["score"] for entry in classifier([text])[0]}
            assert max(scores, key=scores.get) == predicted
            assert [scores["0"], scores["1"]] == pytest.approx(list(map(float, numbers)), abs=1e-5)

    def test_a_checkpoint_is_scored_and_trained_further(self, reviewer, folder, tmp_path):
        directory, results = reviewer
        data = {"test_file": str(folder / "test.tsv")}
        again = make_task({"model_name_or_path": str(directory)}, data, {"output_dir": str(tmp_path / "scores")}).run()
        assert again["predict_accuracy"] == results["predict_accuracy"]
        assert again["predict_confusion"] == results["predict_confusion"]
        other = tmp_path / "other.tsv"
        other.write_text("label\ttext\n" + "no\tbad film\nyes\tgood film\nso\tsome film\n" * 4)
        more = make_task(
            {"model_name_or_path": str(directory)},
            {"train_file": str(other)},
            {"output_dir": str(tmp_path / "more"), "max_steps": 1},
        ).run()
        assert more["labels"] == ["no", "so", "yes"]

    def test_phrases_of_trees_are_trained_on_but_not_scored(self, folder, tmp_path):
        trees = tmp_path / "train.txt"
        trees.write_text("(1 (0 bad) (1 (1 good) (1 end)))\n(0 (0 bad) (0 end))\n" * 3)
        task = make_task(
            {"model_name_or_path": str(folder / "architecture"), "from_scratch": True, "encoder": "pooled"},
            {"train_file": str(trees), "validation_file": str(trees), "min_phrase_words": 2},
            {"output_dir": str(tmp_path / "out")},
        )
        assert len(task.splits["train"]) == 9 and len(task.splits["validation"]) == 6

    def test_a_dataset_with_named_labels(self, folder, tmp_path):
        features = Features({"body": Value("string"), "label": ClassLabel(names=["neg", "pos", "odd"])})
        rows = Dataset.from_dict(
            {"body": ["good good", "bad", "dull", "fine"], "label": [1, 0, 0, 1]}, features=features
        )
        DatasetDict({"train": rows, "test": rows}).save_to_disk(tmp_path / "reviews")
        task = make_task(
            {
                "model_name_or_path": str(folder / "architecture"),
                "from_scratch": True,
                "encoder": "pooled",
                "use_elmo": False,
                "learn_words": True,
            },
            {"dataset_name": str(tmp_path / "reviews"), "text_column": "body", "train_fraction": 0.9},
            {"output_dir": str(tmp_path / "out")},
        )
        assert task.labels == ["neg", "odd", "pos"] and task.data["test"]["source"] == "reviews, test"
        assert not task.model.uses_elmo and task.model.features.word_table is not None


class TestPairs:
    def test_it_learns_and_writes_snlis_lines(self, judge, folder):
        directory, results = judge
        assert results["predict_accuracy"] > 0.9 and results["labels"] == ["contradiction", "entailment"]
        assert results["data"]["test"]["unlabelled"] == 1 and results["data"]["test"]["texts"] == 72
        written = [json.loads(line) for line in (directory / "test_predictions.jsonl").read_text().splitlines()]
        given = [json.loads(line) for line in (folder / "test.jsonl").read_text().splitlines()[:-1]]
        assert all(record.items() <= line.items() for record, line in zip(given, written, strict=True))
        right = sum(line["gold_label"] == line["predicted_label"] for line in written)
        assert right / 72 == pytest.approx(results["predict_accuracy"])
        assert (directory / "test_predictions.tsv").read_text().splitlines()[1].startswith("p0\t")

    def test_pairs_of_one_first_text_are_held_out_together(self, judge, folder):
        _, results = judge
        parts = [results["data"][split]["texts"] for split in ("train", "validation")]
        assert sum(parts) == 480 and min(parts) > 0
        directory, _ = judge
        held_out = (directory / "validation_predictions.jsonl").read_text().splitlines()
        firsts = {json.loads(line)["sentence1"] for line in held_out}
        # Twelve first texts in all, each on one side; every pair of one is there.
        everywhere = [json.loads(line)["sentence1"] for line in (folder / "train.jsonl").read_text().splitlines()]
        assert len(held_out) == sum(first in firsts for first in everywhere) and len(firsts) < 12

    def test_pipelines_and_auto_classes(self, judge):
        directory, _ = judge
        model = AutoModelForSequenceClassification.from_pretrained(directory).eval()
        tokenizer = AutoTokenizer.from_pretrained(directory)
        with torch.no_grad():
            logits = model(**tokenizer("a red hat", "it is red", return_tensors="pt")).logits
        assert isinstance(model, ElmoForSequenceClassification) and model.config.mix_normalization == "word"
        (answer,) = pipeline("text-classification", model=str(directory))(
            [{"text": "a red hat", "text_pair": "it is red"}]
        )
        assert answer["label"] == model.config.id2label[int(logits.argmax())]
        assert answer["score"] == pytest.approx(float(logits.softmax(-1).max()), abs=1e-5)
        zero_shot = pipeline("zero-shot-classification", model=str(directory))
        found = zero_shot("a red hat", ["red", "blue"], hypothesis_template="it is {}", multi_label=True)
        assert found["labels"][0] == "red"


class TestEncoding:
    def test_text_is_cut_by_the_tokenizer_unless_it_is_tokenized(self):
        tokenizer = ElmoCharTokenizer(pre_tokenizer="unicode")
        raw = LabelledTexts("x", ["It's fun. (U.S.)"], ["a"], ["line 1"])
        cut = encode(raw, tokenizer, {"a": 0})
        tokenized = encode(LabelledTexts(**{**vars(raw), "is_tokenized": True}), tokenizer, {"a": 0})
        assert tokenizer.decode(cut["input_ids"][0]) == "<S> It's fun . ( U.S. ) </S>"
        assert tokenizer.decode(tokenized["input_ids"][0]) == "<S> It's fun. (U.S.) </S>"
        assert list(words_of(raw, tokenizer)) == tokenizer.decode(cut["input_ids"][0]).split()[1:-1]

    def test_pairs_have_types_and_are_cut_where_too_long(self, tokenizer):
        pairs = LabelledTexts("x", ["a b c d"], ["n"], ["line 1"], second_texts=["e"])
        (row,) = encode(pairs, tokenizer, {"n": 3})
        assert row["token_type_ids"] == [0] * 6 + [1] * 3 and row["labels"] == 3
        (short,) = encode(pairs, tokenizer, {"n": 0}, max_length=7)
        assert tokenizer.decode(short["input_ids"]) == "<S> a b </S> <S> e </S>"


class TestReports:
    TEXTS = LabelledTexts("x", ["a", "b"], ["no", "yes"], ["1", "2"], second_texts=["c", "d"], ids=["i 1", "i\t2"])
    NUMBERS = np.array([[0.25, 0.75], [0.125, 0.875]])

    def test_tables_and_records(self, tmp_path):
        write_table(tmp_path / "a.tsv", self.TEXTS, ["no", "yes"], self.NUMBERS)
        assert (tmp_path / "a.tsv").read_text().splitlines()[1:] == [
            "i 1\tno\tyes\t0.250000\t0.750000",
            "i 2\tyes\tyes\t0.125000\t0.875000",
        ]
        write_records(tmp_path / "a.jsonl", self.TEXTS, ["no", "yes"], self.NUMBERS)
        first = json.loads((tmp_path / "a.jsonl").read_text().splitlines()[0])
        assert first["predicted_label"] == "yes" and first["probabilities"] == {"no": 0.25, "yes": 0.75}


def test_bad_arguments_and_data(folder, tmp_path):
    model = {"model_name_or_path": str(folder / "architecture"), "from_scratch": True}
    good = files(folder, "tsv")
    odd = tmp_path / "odd.tsv"
    odd.write_text("label\tsentence\n5\tgood\n6\tgood\n")
    one = tmp_path / "one.tsv"
    one.write_text("label\tsentence\n0\tgood\n0\tbad\n")
    many = tmp_path / "many.tsv"
    many.write_text("label\tsentence\n" + "".join(f"{number}\tgood\n" for number in range(30)))
    out = {"output_dir": str(tmp_path / "out")}
    for given, data, named in (
        (model, {"train_file": str(many)}, ("many.tsv", "30 different", "label_column")),
        (model, {**good, "test_file": str(odd)}, ("test_file", "odd.tsv", "line 2", "'5'", "column")),
        (model, {"train_file": str(one)}, ("'0'", "label_column")),
        (model, {**good, "min_phrase_words": 4}, ("min_phrase_words", "train.tsv")),
        (model, {}, "--train_file"),
        ({"model_name_or_path": "none"}, good, "model_name_or_path"),
        ({**model, "max_length": 0}, good, "max_length"),
        ({**model, "hidden_size": 0}, good, "hidden_size"),
        ({**model, "encoder": "pooled", "mix_at_output": True}, good, "mix_at_output"),
        (model, {"test_file": good["test_file"]}, "no head of the task text-classification"),
        (model, {**good, "test_file": str(folder / "test.jsonl")}, ("test.jsonl", "train.tsv", "--text_pair_column")),
        ({**model, "encoder": "esim"}, good, ("'esim'", "single texts", "bcn and pooled", "--text_pair_column")),
        (model, {**good, "text_pair_column": "label"}, ("train.tsv", "text_pair", "label")),
    ):
        assert_refused((ValueError, FileNotFoundError), named, make_task, given, data, out)
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
    assert results["labels"] == ["0", "1"] and results["unseen_labels"] == ["so"]
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


def test_raw_text_for_a_tokenizer_that_cuts_at_white_space_is_told(folder, tmp_path, capsys):
    raw = tmp_path / "raw.tsv"
    raw.write_text("label\ttext\n" + "1\tIt was good, really.\n0\tBad, bad film!\n" * 20)
    model = {"model_name_or_path": str(folder / "architecture"), "from_scratch": True, "encoder": "pooled"}
    out = {"output_dir": str(tmp_path / "out")}
    make_task(model, {"train_file": str(raw)}, out)
    assert "raw text" in capsys.readouterr().err
    task = make_task({**model, "pre_tokenizer": "penn"}, {"train_file": str(raw)}, out)
    assert "raw text" not in capsys.readouterr().err and task.tokenizer.pre_tokenizer == "penn"
