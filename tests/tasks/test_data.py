"""Shares of data: fixed by each text alone, of the size asked for, and without overlap."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused
from tolerances import STANDARD_ERRORS

from hf_elmo.tasks.data import FileArguments, describe_source, take_fractions
from hf_elmo.tasks.readers.columns import TaggedSentences
from hf_elmo.tasks.training import TaskTrainingArguments, choose_splits

texts = st.lists(st.text("abc", min_size=1, max_size=4), min_size=40, max_size=80)
shares = st.floats(0.2, 0.8)


def examples(words):
    return TaggedSentences("x", [[word] for word in words], [["O"] for _ in words])


def words_of(part):
    return [word for row in part.words for word in row]


@given(texts, shares, st.randoms(use_true_random=False))
def test_each_text_alone_says_where_it_belongs(words, share, random):
    shuffled = list(words)
    random.shuffle(shuffled)
    try:
        all_of, half, again = (
            take_fractions({"train": examples(its)}, FileArguments(validation_fraction=share, train_fraction=fraction))
            for its, fraction in ((words, 1.0), (words, 0.5), (shuffled, 0.5))
        )
    except ValueError as error:
        assert "_fraction" in str(error)
        return
    train, validation = words_of(all_of["train"]), words_of(all_of["validation"])
    assert sorted(train + validation) == sorted(words) and not set(train) & set(validation)
    assert set(words_of(again["validation"])) == set(words_of(half["validation"])) == set(validation)
    assert set(words_of(half["train"])) <= set(train) and sorted(words_of(again["train"])) == sorted(
        words_of(half["train"])
    )


def test_shares_have_their_size_lie_in_one_another_and_do_not_depend_on_each_other():
    count = 4000
    data = {"train": examples([f"word {number}" for number in range(count)])}
    tenth, half = (
        set(words_of(take_fractions(data, FileArguments(train_fraction=share))["train"])) for share in (0.1, 0.5)
    )
    held = set(words_of(take_fractions(data, FileArguments(validation_fraction=0.1))["validation"]))
    for part, share in ((tenth, 0.1), (half, 0.5), (held, 0.1), (tenth & held, 0.01)):
        spread = math.sqrt(count * share * (1 - share))
        assert abs(len(part) - count * share) < STANDARD_ERRORS * spread
    assert tenth < half


def test_labels_of_the_others_stay_known_and_results_tell_the_share():
    data = TaggedSentences("x", [["a"], ["b"]], [["B-X"], ["B-Y"]], known_labels=("O",))
    assert data.pick([1]).known_labels == ("B-X", "B-Y", "O")
    args = FileArguments("a/b.txt", test_file="c.txt", train_fraction=0.5, validation_fraction=0.2)
    found = [describe_source(args, split) for split in ("train", "validation", "test")]
    assert found == [{"source": "b.txt", "share": 0.4}, {"source": "b.txt", "share": 0.2}, {"source": "c.txt"}]
    assert describe_source(FileArguments("b.txt"), "train") == {"source": "b.txt"}


@pytest.mark.parametrize(
    "settings, splits, named",
    [
        ({"validation_fraction": 1.0}, ("train",), "validation_fraction 1.0"),
        ({"validation_fraction": 0.1}, ("train", "validation"), "validation_fraction 0.1"),
        ({"validation_fraction": 0.1}, ("test",), "validation_fraction 0.1"),
        ({"validation_fraction": 1e-9}, ("train",), ("validation_fraction", "no validation data of 3")),
        ({"train_fraction": 0.0}, ("train",), "train_fraction is 0.0"),
        ({"train_fraction": 1.5}, ("test",), "train_fraction is 1.5"),
        ({"train_fraction": 1e-9}, ("train",), ("train_fraction", "3 examples")),
        ({"num_seeds": 0}, ("train",), "num_seeds is 0"),
        ({"num_seeds": 2, "resume_from_checkpoint": "."}, ("train",), ("num_seeds is 2", "resume_from_checkpoint")),
        ({"early_stopping_patience": 0}, ("train", "validation"), "patience is 0"),
        ({"early_stopping_patience": 2}, ("train",), ("early_stopping_patience", "--validation_fraction")),
        ({"load_best_model_at_end": True}, ("train",), ("load_best_model_at_end", "--validation_fraction")),
        ({"do_predict": True}, ("train",), ("do_predict", "--test_file")),
    ],
)
def test_splits_that_cannot_be_are_refused(settings, splits, named, tmp_path):
    data = {split: examples(["a", "b", "c"]) for split in splits}
    if "fraction" in next(iter(settings)):
        assert_refused(ValueError, named, take_fractions, data, FileArguments(**settings))
    else:
        args = TaskTrainingArguments(output_dir=str(tmp_path), use_cpu=True, **settings)
        assert_refused(ValueError, named, choose_splits, data, args)
