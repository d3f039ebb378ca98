"""Question answering: from SQuAD's JSON to readers that the pipeline loads, their scores and their answers."""

import json
import random
from functools import partial

import pytest
from conftest import make_tiny_config
from refusals import assert_refused
from torch.utils.data import DataLoader
from toy_tasks import TOY_CONFIG, prepare
from transformers import AutoModelForQuestionAnswering, Trainer, pipeline

from hf_elmo import ElmoForQuestionAnswering
from hf_elmo.tasks.metrics import score_answers
from hf_elmo.tasks.question_answering import QuestionAnswering
from hf_elmo.tasks.readers.questions import read_questions

make_task = partial(prepare, QuestionAnswering)


def write_questions(path, count, seed):
    """Contexts such as `They say the hat is red.` and questions for its thing or for its colour."""
    draw = random.Random(seed)
    data = []
    for number in range(count):
        words = {"thing": draw.choice(["hat", "coat", "shoe", "sock"]), "colour": draw.choice(["red", "blue", "green"])}
        context = (
            f"{draw.choice(['They say the', 'The'])} {words['thing']} is {draw.choice(['', 'so '])}{words['colour']}."
        )
        asked = draw.choice(list(words))
        start = context.index(words[asked])
        # One answer ends inside a word.
        text = words[asked][:-1] if number == 0 else words[asked]
        answers = [{"text": text, "answer_start": start}] * 2
        question = {"id": f"{seed}-{number}", "question": f"Which {asked}?", "answers": answers}
        data.append({"title": f"article {number}", "paragraphs": [{"context": context, "qas": [question]}]})
    path.write_text(json.dumps({"version": "1.1", "data": data}))
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("questions")
    make_tiny_config(**TOY_CONFIG).save_pretrained(folder / "architecture")
    for seed, (split, count) in enumerate({"train": 150, "dev": 20, "test": 20}.items()):
        write_questions(folder / f"{split}.json", count, seed)
    return folder


@pytest.fixture
def flags(folder):
    model = {"model_name_or_path": str(folder / "architecture"), "from_scratch": True, "pre_tokenizer": "penn"}
    model |= {"hidden_size": 16, "dropout": 0.0}
    data = {"train_file": str(folder / "train.json"), "test_file": str(folder / "test.json")}
    return model, data


def test_a_reader_learns_and_its_answers_are_those_of_the_pipeline(folder, flags, tmp_path, capsys):
    model, data = flags
    training = {"num_train_epochs": 10, "per_device_train_batch_size": 8, "learning_rate": 0.01}
    training |= {"output_dir": str(tmp_path / "out"), "load_best_model_at_end": True}
    data = {**data, "validation_file": str(folder / "dev.json")}
    results = make_task({**model, "mix_normalization": "word", "hidden_dropout": 0.0}, data, training).run()
    shown = capsys.readouterr()
    assert "1 of 150 answers begin or end inside a word" in shown.err
    assert results["predict_f1"] > 0.8 and results["eval_f1"] > 0.8, shown.out
    assert results["data"]["train"]["widened_answers"] == 1 and results["data"]["test"]["questions"] == 20
    # Scored in the order of the rows during training too, whose batches are of one length.
    assert f"validation loss {results['eval_loss']:.4f}, f1 {100 * results['eval_f1']:.2f}" in shown.out
    predictions = json.loads((tmp_path / "out" / "test_predictions.json").read_text())
    questions = read_questions(data["test_file"])
    scores = score_answers(predictions, questions.answers())
    assert scores == {name: pytest.approx(results[f"predict_{name}"]) for name in ("exact_match", "f1")}
    assert isinstance(AutoModelForQuestionAnswering.from_pretrained(tmp_path / "out"), ElmoForQuestionAnswering)
    answer = pipeline("extractive-question-answering", model=str(tmp_path / "out"))
    for question in questions.questions:
        context = questions.contexts[question.context]
        found = answer(question=question.text, context=context)
        assert found["answer"] == predictions[question.id] == context[found["start"] : found["end"]]
    card = (tmp_path / "out" / "README.md").read_text()
    assert f"{100 * results['predict_f1']:.2f}" in card and "extractive-question-answering" in card

    # Evaluated alone, in windows and whole, by the trained checkpoint.
    evaluate = {"model_name_or_path": str(tmp_path / "out")}
    for number, more in enumerate(({}, {"max_length": 11, "stride": 2})):
        training = {"output_dir": str(tmp_path / f"{number}")}
        found = make_task({**evaluate, **more}, {"test_file": data["test_file"]}, training).run()
        assert found["predict_f1"] == pytest.approx(results["predict_f1"]) or (more and found["predict_f1"] > 0.3)


def test_answers_are_scored_in_whatever_order_they_come(flags, tmp_path, monkeypatch):
    model, data = flags
    loader = Trainer.get_eval_dataloader

    def get_reversed(trainer, dataset=None):
        return DataLoader(list(dataset or trainer.eval_dataset)[::-1], 7, collate_fn=loader(trainer).collate_fn)

    results = []
    for number in range(2):
        training = {"output_dir": str(tmp_path / f"{number}"), "num_train_epochs": 2, "load_best_model_at_end": True}
        results.append(make_task(model, {**data, "validation_file": data["test_file"]}, training).run())
        monkeypatch.setattr(Trainer, "get_eval_dataloader", get_reversed)
    assert results[1]["kept_step"] == results[0]["kept_step"]
    best = [json.loads((tmp_path / f"{number}" / "trainer_state.json").read_text())["best_metric"] for number in (0, 1)]
    assert best[0] == best[1] > 0


def test_the_longest_answers_of_the_training_data_bound_those_of_the_model(flags, tmp_path):
    text = "a b c d e"
    qas = [{"id": f"{end}", "question": "?", "answers": [{"text": text[:end], "answer_start": 0}]} for end in (1, 3, 7)]
    file = tmp_path / "train.json"
    file.write_text(json.dumps({"data": [{"title": "t", "paragraphs": [{"context": text, "qas": qas}]}]}))
    data, training = {"train_file": str(file)}, {"output_dir": str(tmp_path / "out")}
    for given, wanted in (({}, 4), ({"max_answer_words": 2}, 2), ({"max_answer_words": None}, None)):
        assert make_task({**flags[0], **given}, data, training).model.max_answer_words == wanted


def test_folds_are_of_whole_articles_and_cover_the_file(flags, tmp_path):
    model, data = flags
    tested = []
    for fold in range(3):
        folds = {"train_file": data["train_file"], "num_folds": 3, "fold": fold, "validation_fraction": 0.2}
        task = make_task({**model, "reader": "bidaf"}, folds, {"output_dir": str(tmp_path / "out")})
        parts = {split: {question.id for question in task.splits[split].questions} for split in task.splits}
        assert set(parts) == {"train", "validation", "test"}
        assert sum(map(len, parts.values())) == len(set.union(*parts.values())) == 150
        tested.append(parts["test"])
        assert task.data["test"]["source"] == f"train.json, fold {fold} of 3"
        assert task.data["validation"]["source"] == f"train.json, all but fold {fold} of 3"
    assert len(set.union(*tested)) == sum(map(len, tested)) == 150


@pytest.mark.parametrize(
    ("model", "data", "names"),
    [
        ({}, {"train_file": None, "test_file": None}, ("--train_file",)),
        ({}, {"num_folds": 3}, ("num_folds", "test_file")),
        ({}, {"num_folds": 3, "fold": 3, "test_file": None}, ("num_folds", "fold")),
        ({}, {"num_folds": 900, "test_file": None}, ("num_folds", "150 articles")),
        ({}, {"num_folds": 1, "test_file": None}, ("num_folds is 1",)),
        ({}, {"fold": 1}, ("fold", "num_folds")),
        ({"stride": 3}, {}, ("stride", "max_length")),
        ({"max_length": 7}, {}, ("max_length", "7")),
        ({"max_answer_words": -1}, {}, ("max_answer_words", "-1")),
        ({"hidden_size": 0}, {}, ("hidden_size", "0")),
        ({}, {"train_file": None}, ("no head",)),
    ],
)
def test_flags_that_make_no_sense_are_refused_before_anything_is_written(flags, tmp_path, model, data, names):
    given = {**flags[0], **model}, {**flags[1], **data}, {"output_dir": str(tmp_path / "out")}
    assert_refused(ValueError, names, make_task, *given)
    assert not (tmp_path / "out").exists()
