"""Question answering: from SQuAD's JSON to readers that the pipeline loads, their scores and their answers."""

import json
import random
from functools import partial

import numpy as np
import pytest
from conftest import make_tiny_config
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused
from torch.utils.data import DataLoader
from toy_tasks import TOY_CONFIG, prepare
from transformers import AutoModelForQuestionAnswering, Trainer, pipeline

from hf_elmo import ElmoCharTokenizer, ElmoForQuestionAnswering
from hf_elmo.tasks.metrics import score_answers
from hf_elmo.tasks.question_answering import AnswerRows, QuestionAnswering, locate
from hf_elmo.tasks.readers.questions import Answer, Question, Questions, read_questions

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
    # Another reader has its own size and keeps the rest.
    head = make_task({**evaluate, "reader": "bidaf"}, data, {"output_dir": str(tmp_path / "bidaf")}).model.config.head
    assert (head.reader, head.hidden_size, head.hidden_dropout, head.max_answer_words) == ("bidaf", 100, 0.0, 1)


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
    for head, wanted in (({}, 4), ({"max_answer_words": 2}, 2), ({"max_answer_words": None}, None)):
        assert make_task({**flags[0], **head}, data, training).model.max_answer_words == wanted


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
        ({}, {"num_folds": 3}, ("num_folds", "test_file")),
        ({}, {"num_folds": 3, "fold": 3, "test_file": None}, ("num_folds", "fold")),
        ({}, {"num_folds": 900, "test_file": None}, ("num_folds", "150 articles")),
        ({}, {"num_folds": 1, "test_file": None}, ("num_folds is 1",)),
        ({}, {"fold": 1}, ("fold", "num_folds")),
        ({"stride": 3}, {}, ("stride", "max_length")),
        ({"max_length": 7}, {}, ("max_length", "7")),
        ({"max_answer_words": -1}, {}, ("max_answer_words", "-1")),
    ],
)
def test_flags_that_make_no_sense_are_refused_before_anything_is_written(flags, tmp_path, model, data, names):
    given = {**flags[0], **model}, {**flags[1], **data}, {"output_dir": str(tmp_path / "out")}
    assert_refused(ValueError, names, make_task, *given)
    assert not (tmp_path / "out").exists()


# Rows

CONTEXT = "The cat, which sat\non the mat, was grey."
TOKENIZER = ElmoCharTokenizer(pre_tokenizer="penn")


def questions_on(context, *answers, asked="Who was it?") -> Questions:
    rows = [
        Question(f"q{number}", asked, 0, (Answer(text, context.index(text)),)) for number, text in enumerate(answers)
    ]
    return Questions("file 'x'", (context,), ("title",), rows)


@given(st.data())
def test_the_words_of_an_answer_are_those_that_share_a_character_with_it(data):
    words = data.draw(st.lists(st.sampled_from(["a", "bcd", "ef"]), min_size=1, max_size=6))
    context, spans = "", []
    for word in words:
        context += " " * data.draw(st.integers(0, 2))
        spans.append((len(context), len(context) + len(word)))
        context += word
    start = data.draw(st.integers(0, len(context) - 1))
    text = context[start : data.draw(st.integers(start + 1, len(context)))]
    characters = {start + place for place, character in enumerate(text) if character != " "}
    wanted = [place for place, span in enumerate(spans) if characters & set(range(*span))]
    # Of another sentence beside it are the words without a place.
    found = locate(Answer(text, start), [None, *spans, None])
    if not wanted:
        assert found is None
        return
    ends = spans[wanted[0]][0], spans[wanted[-1]][1]
    assert found == (1 + wanted[0], 1 + wanted[-1], ends != (min(characters), max(characters) + 1))


def spans_of(rows):
    return np.array([(row["start_positions"], row["end_positions"], 0.0) for row in rows.rows])


def test_rows_say_where_the_answers_stand_and_give_them_back():
    rows = AnswerRows(questions_on(CONTEXT, "cat", "mat, was", "sat\non", "gre"), TOKENIZER)
    assert (rows.num_widened, rows.num_lost, rows.answer_words) == (1, 0, [1, 3, 2, 1])
    spans = spans_of(rows)
    for row, (first, last, _) in zip(rows.rows, spans.astype(int), strict=True):
        assert row["token_type_ids"][first] == row["token_type_ids"][last] == 1
        assert len(row["input_ids"]) == len(row["token_type_ids"])
    found = rows.answers(spans, np.array([row["row"] for row in rows.rows]))
    assert found == {"q0": "cat", "q1": "mat, was", "q2": "sat\non", "q3": "grey"}
    assert TOKENIZER.decode(rows.rows[0]["input_ids"][spans[0, 0].astype(int)].tolist()) == "cat"
    # What is no answer: a word of the question, an end before its start.
    odd = np.array([[1, 8, 0], [9, 8, 0], [8, 99, 0], [0, 0, 0]])
    odd[2, 1] = len(rows.rows[2]["input_ids"]) - 1
    assert set(rows.answers(odd, np.arange(4)).values()) == {""}


def test_windows_hold_the_answer_or_none():
    context = " ".join(f"w{number}" for number in range(30))
    questions = questions_on(context, "w3", "w14 w15", "w29", asked="Who ?")
    rows = AnswerRows(questions, TOKENIZER, max_length=16, stride=4)
    spans = spans_of(rows)
    has_answer = spans[:, 0] != -100
    assert rows.num_lost == 0 and len(rows.rows) > 3 and 0 < has_answer.sum() < len(has_answer)
    assert all(len(row["input_ids"]) <= 16 for row in rows.rows)
    # The windows without an answer give their first word, with a lower score.
    spans[~has_answer, :2], spans[has_answer, 2] = 6, 1.0
    order = np.random.default_rng(0).permutation(len(spans))
    numbers = np.array([row["row"] for row in rows.rows])
    assert rows.answers(spans[order], numbers[order]) == {"q0": "w3", "q1": "w14 w15", "q2": "w29"}
    trained = AnswerRows(questions, TOKENIZER, max_length=16, stride=4, only_answerable=True)
    assert len(trained.rows) == has_answer.sum() and "row" not in trained.rows[0]
    whole = questions_on(context, "w3 " + " ".join(f"w{number}" for number in range(4, 25)), asked="Who ?")
    assert AnswerRows(whole, TOKENIZER, max_length=16, stride=4).num_lost == 1


@pytest.mark.parametrize(("length", "stride", "named"), [(8, None, "max_length"), (12, 6, "stride is 6")])
def test_windows_without_room_are_refused(length, stride, named):
    assert_refused(ValueError, named, AnswerRows, questions_on(CONTEXT, "cat"), TOKENIZER, length, stride)
