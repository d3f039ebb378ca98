"""The token classification task: from tagged sentences to a tagger that the pipeline loads."""

import json
import math
import random
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from conftest import make_tiny_config, shared_data
from datasets import ClassLabel, Dataset, DatasetDict, Features, Sequence, Value
from model_cases import save_in_half_precision
from refusals import assert_refused
from toy_tasks import TOY_CONFIG, prepare
from transformers import (
    AutoModelForTokenClassification,
    DataCollatorForTokenClassification,
    Trainer,
    TrainingArguments,
    pipeline,
)

from hf_elmo import ElmoCharTokenizer, ElmoConfig, ElmoForPreTraining, ElmoForTokenClassification
from hf_elmo.hub.sharing import files_to_send
from hf_elmo.model.modeling_elmo_tasks import read_spans
from hf_elmo.tasks import layer_cache
from hf_elmo.tasks.inputs import choose_labels, find_unseen
from hf_elmo.tasks.readers.columns import TaggedSentences, read_tagged_file
from hf_elmo.tasks.token_classification import (
    TokenClassification,
    encode,
    write_predictions,
)

make_task = partial(prepare, TokenClassification)

TOY_LABELS = ["B-LOC", "B-PER", "I-PER", "O"]


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
    """The toy files and an untrained config."""
    folder = tmp_path_factory.mktemp("toy")
    make_tiny_config(**TOY_CONFIG).save_pretrained(folder / "architecture")
    counts = {"train": 192, "validation": 24, "test": 24}
    files = {
        f"{split}_file": write_toy(folder / f"{split}.conll", count, seed)
        for seed, (split, count) in enumerate(counts.items())
    }
    return folder, files


@pytest.fixture(scope="module")
def trained(toy):
    """The output directory and the results of one training on the toy files."""
    folder, files = toy
    task = make_task(
        {
            "model_name_or_path": str(folder / "architecture"),
            "from_scratch": True,
            "freeze_bilm": False,
            "dropout": 0.1,
        },
        files,
        {
            "output_dir": str(folder / "tagger"),
            "num_train_epochs": 6,
            "learning_rate": 1e-2,
            "load_best_model_at_end": True,
        },
    )
    return folder / "tagger", task.run()


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """A pre-training checkpoint in half precision."""
    return save_in_half_precision(tmp_path_factory.mktemp("pretrained"))


def tagged(*sentences, source="train_file 'train.conll'"):
    """Sentences given as "word/label word/label"."""
    pairs = [[pair.split("/") for pair in sentence.split()] for sentence in sentences]
    lines = [[10 * row + word for word in range(len(sentence))] for row, sentence in enumerate(pairs, start=1)]
    return TaggedSentences(
        source, [[p[0] for p in row] for row in pairs], [[p[1] for p in row] for row in pairs], lines
    )


class TestEncoding:
    def test_special_tokens_have_no_label(self, tokenizer):
        sentences = tagged("Anna/B-PER Smith/I-PER", "!/O")
        dataset = encode(sentences, tokenizer, {"O": 0, "B-PER": 1, "I-PER": 2})
        assert set(dataset.column_names) == {"input_ids", "attention_mask", "labels"}
        assert dataset["labels"][:] == [[-100, 1, 2, -100], [-100, 0, -100]]
        assert tokenizer.decode(dataset["input_ids"][0]) == "<S> Anna Smith </S>"

    def test_collator_pads_rows_and_labels(self, tokenizer):
        dataset = encode(tagged("a/O b/O c/O", "d/X"), tokenizer, {"O": 0, "X": 1})
        batch = DataCollatorForTokenClassification(tokenizer)([dataset[0], dataset[1]])
        assert batch["input_ids"].shape == (2, 5, 50)
        assert batch["labels"].tolist() == [[-100, 0, 0, 0, -100], [-100, 1, -100, -100, -100]]
        assert batch["attention_mask"].tolist() == [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]
        assert not batch["input_ids"][1, 3:].any()

    def test_words_that_look_like_special_tokens_keep_their_labels(self, tokenizer):
        dataset = encode(TaggedSentences("x", [["<S>", "", "a b"]], [["X", "O", "O"]]), tokenizer, {"O": 0, "X": 1})
        assert dataset["labels"][:] == [[-100, 1, 0, 0, -100]]


class TestLabels:
    def test_training_declared_and_extra_labels(self):
        train = tagged("a/O b/B-X")
        train.known_labels = ("O", "B-Z")
        assert choose_labels({"train": train}) == ["B-X", "B-Z", "O"]

    def test_a_checkpoint_that_knows_them_keeps_its_order(self):
        known = ["O", "B-Y", "B-X"]
        assert choose_labels({"train": tagged("a/O b/B-X")}, checkpoint_labels=known) == known
        assert choose_labels({"test": tagged("a/O")}, checkpoint_labels=known) == known
        assert choose_labels({"train": tagged("a/B-Q")}, checkpoint_labels=known) == ["B-Q"]

    def test_label_only_in_the_test_set(self):
        splits = {"train": tagged("a/O"), "test": tagged("a/O", "b/O c/B-Y", source="test_file 'test.conll'")}
        assert choose_labels(splits) == ["O"]
        splits["validation"] = tagged("a/O b/B-Z c/B-Y")
        unseen = find_unseen(splits, ["O"])
        assert unseen == {"B-Y": "test_file 'test.conll', line 21", "B-Z": "train_file 'train.conll', line 11"}
        assert find_unseen(splits, ["O", "B-Y", "B-Z"]) == {}

    def test_without_training(self):
        with pytest.raises(ValueError, match=r"line 10: .*'O'.*'X'"):
            find_unseen({"test": tagged("a/O")}, ["X"])


class TestTraining:
    def test_it_learns(self, trained):
        _, results = trained
        assert results["predict_f1"] > 0.95
        assert results["predict_accuracy"] > 0.95
        assert results["predict_entities"]["LOC"]["number"] == 24
        assert results["train_loss"] < math.log(len(TOY_LABELS))

    def test_everything_is_written_and_nothing_is_left_behind(self, trained):
        directory, results = trained
        names = {path.name for path in directory.iterdir()}
        assert {"model.safetensors", "config.json", "tokenizer_config.json", "modeling_elmo.py"} <= names
        assert {"results.json", "trainer_state.json", "validation_predictions.conll", "test_predictions.conll"} <= names
        assert not [name for name in names if name.startswith("checkpoint-")]
        assert not list(directory.parent.glob(".*"))
        assert ".partial" not in (directory / "trainer_state.json").read_text(encoding="utf-8")
        assert json.loads((directory / "results.json").read_text(encoding="utf-8")) == results
        assert {"command", "commit", "machine"} <= results.keys()

    def test_it_has_a_card_and_can_be_shared(self, trained):
        directory, results = trained
        card = (directory / "README.md").read_text(encoding="utf-8")
        assert 'model="tagger"' in card and f"| test | {100 * results['predict_f1']:.2f} |" in card
        assert "| test data | test.conll: 24 sentences, " in card and f"| {results['kept_step']} |" in card
        names = {path.name for path in files_to_send(directory)}
        assert {"README.md", "results.json", "model.safetensors"} <= names and "training_args.bin" not in names

    def test_the_pipeline_predicts_what_the_file_says(self, trained, toy):
        directory, _ = trained
        gold = read_tagged_file(toy[1]["test_file"])
        written = read_tagged_file(directory / "test_predictions.conll")
        assert written.words == gold.words
        assert read_tagged_file(directory / "test_predictions.conll", label_column=1).labels == gold.labels
        tagger = pipeline("token-classification", model=str(directory), ignore_labels=[])
        for words, labels in zip(written.words, written.labels, strict=True):
            assert [entry["entity"] for entry in tagger(" ".join(words))] == labels

    def test_labels_and_settings_are_in_the_config(self, trained):
        config = ElmoConfig.from_pretrained(trained[0])
        assert [config.id2label[index] for index in range(4)] == TOY_LABELS
        assert config.head.dropout == 0.1
        assert config.freeze_bilm is False

    def test_the_layers_that_it_reads_are_told(self, trained):
        folder, results = trained
        model = ElmoForTokenClassification.from_pretrained(folder)
        assert results["layer_shares"] == [pytest.approx(shares) for shares in model.layer_shares()]
        (shares,) = results["layer_shares"]
        assert sum(shares) == pytest.approx(1) and len(set(shares)) > 1
        assert json.loads((folder / "results.json").read_text())["layer_shares"] == results["layer_shares"]

    def test_best_epoch_is_the_one_kept(self, toy, tmp_path):
        folder, files = toy
        task = make_task(
            {"model_name_or_path": str(folder / "architecture"), "from_scratch": True, "freeze_bilm": False},
            {**files, "test_file": None},
            # Upside down, so that the best epoch is not the last.
            {
                "output_dir": str(tmp_path / "out"),
                "num_train_epochs": 4,
                "learning_rate": 1e-2,
                "load_best_model_at_end": True,
                "metric_for_best_model": "accuracy",
                "greater_is_better": False,
            },
        )
        results = task.run()
        state = json.loads((tmp_path / "out" / "trainer_state.json").read_text(encoding="utf-8"))
        history = [entry["eval_accuracy"] for entry in state["log_history"] if "eval_accuracy" in entry]
        assert results["eval_accuracy"] == min(history) < history[-1]

    def test_checkpoints_asked_for_are_kept_and_can_be_resumed(self, toy, tmp_path, capsys):
        folder, files = toy
        model, data = (
            {"model_name_or_path": str(folder / "architecture"), "from_scratch": True},
            {**files, "test_file": None},
        )
        training = {"num_train_epochs": 2, "save_strategy": "epoch", "load_best_model_at_end": True}
        make_task(model, data, {"output_dir": str(tmp_path / "first"), **training}).run()
        state = json.loads((tmp_path / "first" / "trainer_state.json").read_text(encoding="utf-8"))
        assert Path(state["best_model_checkpoint"]).is_dir()
        capsys.readouterr()
        resumed = str(tmp_path / "first" / "checkpoint-6")
        training = {**training, "num_train_epochs": 3, "resume_from_checkpoint": resumed}
        make_task(model, data, {"output_dir": str(tmp_path / "second"), **training}).run()
        assert re.findall(r"epoch (\d) of 3: training", capsys.readouterr().out) == ["2", "3"]

    def test_a_failure_leaves_the_old_directory(self, toy, tmp_path, monkeypatch):
        folder, files = toy
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "precious").write_text("kept")
        task = make_task(
            {"model_name_or_path": str(folder / "architecture"), "from_scratch": True},
            {**files},
            {"output_dir": str(tmp_path / "out"), "overwrite_output_dir": True, "num_train_epochs": 1},
        )
        monkeypatch.setattr(
            "hf_elmo.tasks.token_classification.write_predictions", lambda *_: (_ for _ in ()).throw(OSError("full"))
        )
        with pytest.raises(OSError, match="full"):
            task.run()
        assert [path.name for path in tmp_path.iterdir()] == ["out"]
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["precious"]

    def test_wnut17_in_a_few_steps(self, tmp_path, capsys):
        folder = shared_data("wnut17")
        task = make_short_task(tmp_path, folder / "train.conll", folder / "test.conll")
        results = task.run()
        assert len(task.model.config.id2label) == 13
        assert results["data"]["test"]["sentences"] == 1287
        assert len(read_tagged_file(tmp_path / "out" / "test_predictions.conll")) == 1287
        assert "creative-work" in capsys.readouterr().out

    def test_parts_of_speech_in_a_few_steps(self, tmp_path):
        folder = shared_data("ud_english_ewt")
        results = make_short_task(tmp_path, folder / "dev.conllu", folder / "test.conllu").run()
        assert results["tag_scheme"] == "words"
        assert results["predict_f1"] == pytest.approx(results["predict_accuracy"])


def make_short_task(folder, train_file, test_file):
    """Two steps of a random model on real files."""
    return make_task(
        {"model_name_or_path": make_architecture(folder), "from_scratch": True},
        {"train_file": str(train_file), "test_file": str(test_file)},
        {"output_dir": str(folder / "out"), "max_steps": 2},
    )


def make_architecture(folder):
    make_tiny_config().save_pretrained(folder / "architecture")
    return str(folder / "architecture")


class TestModels:
    def test_pretrained_weights_are_kept_in_float32(self, pretrained, toy, tmp_path):
        task = make_task({"model_name_or_path": pretrained}, toy[1], {"output_dir": str(tmp_path / "out")})
        source = ElmoForPreTraining.from_pretrained(pretrained, dtype=torch.float32)
        for name, parameter in task.model.elmo.named_parameters():
            assert parameter.dtype == torch.float32
            assert torch.equal(parameter, source.elmo.get_parameter(name)), name
        assert task.tokenizer.do_lower_case
        assert task.model.config.word_vocab_size is None
        assert "except new ones for classifier" in task.description
        assert not any(parameter.requires_grad for parameter in task.model.elmo.bilm.parameters())
        assert task.training_args.learning_rate == 1e-3

    def test_random_weights_of_the_same_architecture(self, pretrained, toy, tmp_path):
        model = {"model_name_or_path": pretrained, "from_scratch": True, "freeze_bilm": False}
        task = make_task(model, toy[1], {"output_dir": str(tmp_path / "out")})
        source = ElmoForPreTraining.from_pretrained(pretrained, dtype=torch.float32)
        assert task.tokenizer.do_lower_case
        assert "all weights random" in task.description
        assert task.model.config.projection_size == source.config.projection_size
        for name, parameter in task.model.elmo.named_parameters():
            if name.endswith(("weight", "weight_ih", "weight_hh", "weight_hr")) and not name.startswith("mixes"):
                assert not torch.equal(parameter, source.elmo.get_parameter(name)), name

    def test_task_settings(self, pretrained, toy, tmp_path):
        task = make_task(
            {
                "model_name_or_path": pretrained,
                "freeze_bilm": False,
                "lstm_layers": 2,
                "lstm_size": 7,
                "dropout": 0.25,
                "mix_l2": 0.5,
            },
            toy[1],
            {"output_dir": str(tmp_path / "out")},
        )
        config = task.model.config
        assert (config.head.lstm_layers, config.head.lstm_size) == (2, 7)
        assert (config.head.dropout, config.mix_l2, config.freeze_bilm) == (0.25, 0.5, False)
        assert all(parameter.requires_grad for parameter in task.model.parameters())
        assert task.training_args.learning_rate == 1e-4
        assert "except new ones for classifier, lstm" in task.description

    def test_the_layers_that_the_task_reads(self, pretrained, toy, tmp_path):
        for layers, wanted in (("top", "top"), (None, "all")):
            model, out = {"model_name_or_path": pretrained, "layers": layers}, {"output_dir": str(tmp_path / "out")}
            assert make_task(model, toy[1], out).config.mixed_layers == wanted

    def test_kept_layers_change_no_score(self, pretrained, toy, tmp_path, capsys, monkeypatch):
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

    def test_a_tagger_with_the_same_labels_goes_on(self, trained, toy, tmp_path):
        task = make_task({"model_name_or_path": str(trained[0])}, toy[1], {"output_dir": str(tmp_path / "out")})
        source = AutoModelForTokenClassification.from_pretrained(trained[0])
        assert torch.equal(task.model.classifier.weight, source.classifier.weight)
        assert "new ones" not in task.description

    def test_a_tagger_with_as_many_other_labels_gets_a_new_classifier(self, trained, toy, tmp_path):
        text = Path(toy[1]["train_file"]).read_text(encoding="utf-8").replace("-PER", "-HUM")
        (tmp_path / "other.conll").write_text(text, encoding="utf-8")
        task = make_task(
            {"model_name_or_path": str(trained[0])},
            {"train_file": str(tmp_path / "other.conll")},
            {"output_dir": str(tmp_path / "out")},
        )
        source = ElmoForTokenClassification.from_pretrained(trained[0])
        assert task.model.config.label2id == {"B-HUM": 0, "B-LOC": 1, "I-HUM": 2, "O": 3}
        assert task.model.classifier.weight.shape == source.classifier.weight.shape
        assert not torch.equal(task.model.classifier.weight, source.classifier.weight)
        assert "except new ones for classifier" in task.description
        assert task.model.classifier.weight.requires_grad

    def test_a_tagger_is_only_evaluated_without_training_data(self, trained, toy, tmp_path):
        directory, results = trained
        task = make_task(
            {"model_name_or_path": str(directory)},
            {"test_file": toy[1]["test_file"]},
            {"output_dir": str(tmp_path / "out")},
        )
        assert task.run()["predict_f1"] == results["predict_f1"]
        assert {path.name for path in (tmp_path / "out").iterdir()} == {"results.json", "test_predictions.conll"}

    def test_the_same_seed_gives_the_same_model(self, pretrained, toy, tmp_path):
        tasks = [
            make_task(
                {"model_name_or_path": pretrained},
                toy[1],
                {"output_dir": str(tmp_path / "out"), "seed": seed},
            )
            for seed in (1, 1, 2)
        ]
        weights = [task.model.classifier.weight for task in tasks]
        assert torch.equal(weights[0], weights[1])
        assert not torch.equal(weights[0], weights[2])


class TestDatasets:
    @pytest.fixture
    def dataset_name(self, tmp_path):
        features = Features(
            {"tokens": Sequence(Value("string")), "ner_tags": Sequence(ClassLabel(names=["O", "B-X", "I-X"]))}
        )
        dataset = Dataset.from_dict(
            {"tokens": [["a", "b"], [], ["c d", "e\tf"]], "ner_tags": [[0, 1], [], [0, 0]]}, features=features
        )
        DatasetDict(train=dataset, validation=dataset, test=dataset).save_to_disk(tmp_path / "dataset")
        return str(tmp_path / "dataset")

    def test_class_labels(self, dataset_name, tmp_path):
        task = make_task(
            {"model_name_or_path": make_architecture(tmp_path), "from_scratch": True},
            {"dataset_name": dataset_name},
            {"output_dir": str(tmp_path / "out"), "num_train_epochs": 1},
        )
        assert list(task.model.config.id2label.values()) == ["B-X", "I-X", "O"]
        task.run()
        written = (tmp_path / "out" / "test_predictions.conll").read_text(encoding="utf-8")
        assert re.fullmatch(r"a\tO\t\S+\nb\tB-X\t\S+\n\n\nc d\tO\t\S+\ne f\tO\t\S+\n\n", written)

    def test_splits_asked_for(self, dataset_name, tmp_path):
        architecture = make_architecture(tmp_path)
        for flags, splits in (
            ({"do_train": True}, {"train", "validation"}),
            ({"do_train": True, "do_predict": True}, {"train", "validation", "test"}),
        ):
            training = {"output_dir": str(tmp_path / "out"), **flags}
            task = make_task(
                {"model_name_or_path": architecture, "from_scratch": True},
                {"dataset_name": dataset_name},
                training,
            )
            assert set(task.splits) == splits

    def test_missing_column(self, dataset_name, tmp_path):
        with pytest.raises(ValueError, match=r"'train'.*'pos_tags'.*--label_column"):
            make_task(
                {"model_name_or_path": make_architecture(tmp_path), "from_scratch": True},
                {"dataset_name": dataset_name, "label_column": "pos_tags"},
                {"output_dir": str(tmp_path / "out")},
            )


class TestBadArguments:
    def test_values(self, toy, tmp_path):
        folder, files = toy
        for model, data, training, named in (
            ({}, {"train_file": None}, {}, "--train_file"),
            ({}, {"dataset_name": "x"}, {}, ("dataset_name 'x'", "train.conll")),
            ({"dropout": 1.5}, {}, {}, "dropout"),
            ({"lstm_layers": -1}, {}, {}, "lstm_layers"),
            ({"mix_l2": -1.0}, {}, {}, "mix_l2"),
            ({}, {}, {"load_best_model_at_end": True}, "load_best_model_at_end"),
            ({}, {}, {"do_predict": True}, ("do_predict", "--test_file")),
            ({}, {}, {"push_to_hub": True}, "push_to_hub"),
        ):
            assert_refused(
                ValueError,
                named,
                make_task,
                {"model_name_or_path": str(folder / "architecture"), "from_scratch": True, **model},
                {"train_file": files["train_file"], **data},
                {"output_dir": str(tmp_path / "out"), **training},
            )

    def test_paths(self, toy, tmp_path):
        folder, files = toy
        data = {"train_file": files["train_file"]}
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "file").touch()
        (tmp_path / "bert").mkdir()
        (tmp_path / "bert" / "config.json").write_text('{"model_type": "bert"}')
        architecture = {"model_name_or_path": str(folder / "architecture"), "from_scratch": True}
        replaced = {"output_dir": str(folder), "overwrite_output_dir": True}
        for model, training, error, named in (
            (architecture, {"output_dir": str(tmp_path / "full")}, FileExistsError, "--overwrite_output_dir"),
            (architecture, replaced, ValueError, "train_file"),
            ({"model_name_or_path": "none/none"}, {}, FileNotFoundError, "model_name_or_path 'none/none'"),
            ({"model_name_or_path": str(tmp_path / "full")}, {}, FileNotFoundError, "config.json"),
            ({"model_name_or_path": str(tmp_path / "bert")}, {}, ValueError, ("'bert'", "'elmo'")),
            ({"model_name_or_path": str(folder / "architecture")}, {}, FileNotFoundError, "--from_scratch"),
        ):
            given = {"output_dir": str(tmp_path / "out"), **training}
            assert_refused(error, named, make_task, model, data, given)
        assert not (tmp_path / "out").exists()

    def test_mixed_tags(self, toy, tmp_path):
        (tmp_path / "mixed.conll").write_text("a B-X\nb NN\n")
        model = {"model_name_or_path": str(toy[0] / "architecture"), "from_scratch": True}
        data, training = {"train_file": str(tmp_path / "mixed.conll")}, {"output_dir": str(tmp_path / "out")}
        with pytest.raises(ValueError, match=r"'NN'.*--tag_scheme words"):
            make_task(model, data, training)
        assert make_task(model, {**data, "tag_scheme": "words"}, training).tag_scheme == "words"
        (tmp_path / "mixed.conll").write_text("a JJ\nb NN\n")
        with pytest.raises(ValueError, match=r"tag_scheme is 'spans'.*'JJ', 'NN'"):
            make_task(model, {**data, "tag_scheme": "spans"}, training)

    def test_weights_of_another_shape(self, pretrained, toy, tmp_path):
        for name in ("model.safetensors", "tokenizer_config.json"):
            (tmp_path / name).write_bytes((Path(pretrained) / name).read_bytes())
        make_tiny_config(cell_size=12).save_pretrained(tmp_path)
        with pytest.raises(ValueError, match=r"'elmo\.bilm"):
            make_task(
                {"model_name_or_path": str(tmp_path)},
                toy[1],
                {"output_dir": str(tmp_path / "out")},
            )


def test_no_entities_at_all(tmp_path):
    (tmp_path / "train.conll").write_text("a\tO\nb\tO\n")
    task = make_task(
        {"model_name_or_path": make_architecture(tmp_path), "from_scratch": True},
        {"train_file": str(tmp_path / "train.conll"), "test_file": str(tmp_path / "train.conll")},
        {"output_dir": str(tmp_path / "out"), "num_train_epochs": 1},
    )
    results = task.run()
    assert (results["predict_f1"], results["predict_accuracy"], results["predict_entities"]) == (0.0, 1.0, {})


def test_predictions_file(tmp_path):
    sentences = TaggedSentences("x", [["New\tYork", "."], ["a b"]], [["B-LOC", "O"], ["O"]])
    write_predictions(tmp_path / "predictions.conll", sentences.words, sentences.labels, [["O", "O"], ["B-LOC"]])
    text = (tmp_path / "predictions.conll").read_text(encoding="utf-8")
    assert text == "New York\tB-LOC\tO\n.\tO\tO\n\na b\tO\tB-LOC\n\n"


class TestCRF:
    """The toy task learned in another scheme than its files', with all that can stand beside ELMo."""

    @pytest.fixture(scope="class")
    def tagger(self, toy, tmp_path_factory):
        folder, files = toy
        out = tmp_path_factory.mktemp("crf") / "out"
        model = {
            "model_name_or_path": str(folder / "architecture"),
            "from_scratch": True,
            "output_layer": "crf",
            "convert_scheme": "BIOES",
            "lstm_layers": 1,
            "lstm_size": 8,
            "mix_at_output": True,
            "learn_words": True,
            "word_vector_size": 8,
            "character_filters": [[3, 8]],
            "dropout": 0.1,
        }
        training = {"output_dir": str(out), "num_train_epochs": 4, "learning_rate": 2e-2, "num_seeds": 2}
        return out, make_task(model, files, training).run()

    def test_it_learns_and_writes_the_scheme_of_the_files(self, tagger, toy):
        out, results = tagger
        assert results["predict_f1"] > 0.95 and results["converted"] == {"corpus": "IOB2", "model": "BIOES"}
        assert (
            read_tagged_file(out / "test_predictions.conll", label_column=1).labels
            == read_tagged_file(toy[1]["test_file"]).labels
        )
        assert {label for row in read_tagged_file(out / "test_predictions.conll").labels for label in row} <= set(
            TOY_LABELS
        )
        assert len(results["seeds"]) == 2 and results["predict_f1"] in {row["predict_f1"] for row in results["seeds"]}
        config = ElmoConfig.from_pretrained(out)
        assert (config.head.scheme, config.head.output_layer, config.num_mixes) == ("BIOES", "crf", 2)
        assert len(results["layer_shares"]) == 2

    def test_the_card_says_seeds_shares_and_features(self, tagger):
        card = (tagger[0] / "README.md").read_text(encoding="utf-8")
        for part in (
            "mean of seeds",
            "seed 4",
            "± ",
            "![shares of the layers](layer_shares.png)",
            "CRF, labels in BIOES",
        ):
            assert part in card, part
        assert re.search(r"ELMo \+ trained vectors of \d+ words \+ 8 features of characters, and ELMo again", card)

    def test_pipeline_predictions_and_scores_of_the_checkpoint_are_those_of_the_run(self, tagger, toy, tmp_path):
        out, results = tagger
        grouped = pipeline("token-classification", model=str(out), aggregation_strategy="simple")
        found = [(one["entity_group"], one["word"]) for one in grouped("Anna Smith sees Oslo .")]
        assert found == [("PER", "Anna Smith"), ("LOC", "Oslo")]
        task = make_task(
            {"model_name_or_path": str(out)},
            {"test_file": toy[1]["test_file"]},
            {"output_dir": str(tmp_path / "out")},
        )
        again = task.run()
        assert again["predict_f1"] == results["predict_f1"] and again["converted"] == results["converted"]
        assert (tmp_path / "out" / "test_predictions.conll").read_bytes() == (
            out / "test_predictions.conll"
        ).read_bytes()

    def test_a_trainer_by_hand_predicts_the_best_sequences(self, tagger, toy, tmp_path):
        model = AutoModelForTokenClassification.from_pretrained(tagger[0])
        tokenizer = ElmoCharTokenizer.from_pretrained(tagger[0])
        sentences = read_tagged_file(toy[1]["test_file"]).pick(range(5))
        rows = encode(replace(sentences, labels=[["O"] * len(row) for row in sentences.labels]), tokenizer, {"O": 0})
        args = TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none", disable_tqdm=True)
        trainer = Trainer(model, args, data_collator=DataCollatorForTokenClassification(tokenizer))
        logits = trainer.predict(rows).predictions
        plain = pipeline("token-classification", model=str(tagger[0]), ignore_labels=[])
        for row, words in zip(logits, sentences.words, strict=True):
            labels = [model.config.id2label[label] for label in row.argmax(-1)[1 : len(words) + 1]]
            assert labels == [one["entity"] for one in plain(" ".join(words))]
            read_spans(labels, "BIOES")

    def test_other_labels_get_another_crf(self, tagger, toy, tmp_path):
        text = Path(toy[1]["train_file"]).read_text(encoding="utf-8").replace("-PER", "-HUM")
        (tmp_path / "other.conll").write_text(text, encoding="utf-8")
        data, training = {"train_file": str(tmp_path / "other.conll")}, {"output_dir": str(tmp_path / "out")}
        task = make_task({"model_name_or_path": str(tagger[0])}, data, training)
        assert "classifier, crf" in task.description and not task.model.crf.transitions.any()
        assert "S-HUM" in task.model.config.label2id

    def test_a_label_that_breaks_the_scheme_is_counted_and_read_as_conlleval_reads_it(self, toy, tmp_path, capsys):
        lines = Path(toy[1]["train_file"]).read_text(encoding="utf-8").splitlines()
        place = next(number for number, line in enumerate(lines) if line.endswith("B-LOC"))
        lines[place] = lines[place].replace("B-LOC", "I-LOC")
        (tmp_path / "broken.conll").write_text("\n".join(lines))
        model = {"model_name_or_path": str(toy[0] / "architecture"), "from_scratch": True, "output_layer": "crf"}
        data, training = {"train_file": str(tmp_path / "broken.conll")}, {"output_dir": str(tmp_path / "out")}
        task = make_task(model, data, training)
        assert task.splits["train"].labels == read_tagged_file(toy[1]["train_file"]).labels
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("note: 1 label breaks the rules of IOB2")
        assert f"'{tmp_path / 'broken.conll'}', line {place + 1}: the label 'I-LOC'" in line
        assert make_task({**model, "output_layer": "softmax"}, data, training).exchange is None


@pytest.mark.parametrize("output_layer", ["softmax", "crf"])
def test_labels_that_only_the_test_data_have_are_scored_as_missed(toy, tmp_path, capsys, output_layer):
    # As CoNLL-2000 has them; here in the form of CoNLL-2003, too, with B where IOB1 has no B.
    text = Path(toy[1]["train_file"]).read_text(encoding="utf-8").replace("B-", "I-").replace("\t", " NN ")
    (tmp_path / "eng.train").write_text("-DOCSTART- -X- O\n\n" + text.replace("I-LOC", "B-LOC", 2), encoding="utf-8")
    rows = "Anna NN I-PER\nsees NN O\nLima NN I-NEW\n\nBert NN I-PER\nlikes NN O\nRome NN I-LOC\n"
    (tmp_path / "eng.testb").write_text(rows, encoding="utf-8")
    task = make_task(
        {
            "model_name_or_path": str(toy[0] / "architecture"),
            "from_scratch": True,
            "freeze_bilm": False,
            "output_layer": output_layer,
        },
        {"train_file": str(tmp_path / "eng.train"), "test_file": str(tmp_path / "eng.testb")},
        {"output_dir": str(tmp_path / "out"), "num_train_epochs": 4, "learning_rate": 1e-2, "num_seeds": 2},
    )
    told = capsys.readouterr().err.splitlines()
    assert [line for line in told if "'I-NEW'" in line and "line 3" in line and "as missed" in line] == told[-1:]
    assert len(told) == (2 if output_layer == "crf" else 1) and ("2 labels break" in told[0]) == (len(told) == 2)
    results = task.run()
    assert results["unseen_labels"] == ["I-NEW"] and "I-NEW" not in task.model.config.label2id
    new = results["predict_entities"]["NEW"]
    assert new["number"] == 1 and new["recall"] == 0 and results["predict_recall"] == 0.75
    assert math.isfinite(results["predict_loss"]) and results["predict_loss"] < 0.5
    gold = read_tagged_file(tmp_path / "out" / "test_predictions.conll", label_column=1).labels
    assert gold == [["I-PER", "O", "I-NEW"], ["I-PER", "O", "I-LOC"]]


@pytest.mark.parametrize(
    "data, labels, sentences",
    [
        ({"train_file": "litbank/entities/train.tsv.gz", "label_column": "1"}, 13, 3000),
        ({"train_file": "litbank/entities/dev.tsv.gz", "label_column": "2"}, 9, 200),
        ({"train_file": "ud_korean_gsd/dev.conllu", "validation_fraction": 0.5}, 15, 400),
        ({"train_file": "ud_english_ewt/train.conllu.gz"}, 17, 10000),
    ],
)
def test_real_files_of_each_task(data, labels, sentences, tmp_path):
    data = {**data, "train_file": str(shared_data(data["train_file"]))}
    model = {"model_name_or_path": make_architecture(tmp_path), "from_scratch": True, "output_layer": "crf"}
    task = make_task(model, data, {"output_dir": str(tmp_path / "out")})
    assert len(task.model.config.id2label) >= labels and len(task.splits["train"]) >= sentences
    if "validation_fraction" in data:
        assert 0.8 < len(task.splits["train"]) / len(task.splits["validation"]) < 1.25
