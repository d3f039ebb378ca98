"""`hf-elmo vocabulary`: the vocabulary that `hf-elmo pretrain` would build, its figures, and what it refuses."""

import gzip
import json
from collections import Counter

import pytest
from conftest import shared_data
from refusals import assert_refused

from hf_elmo.cli.build_vocabulary import VocabularyArguments, build_vocabulary
from hf_elmo.cli.command_line import main
from hf_elmo.text.spelling import SpellingModel
from hf_elmo.text.vocabulary import WordVocabulary

TEXT = "the cat sat on the mat .\nthe dog , the <UNK>\n\nThe end .\n"


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture
def build(text, tmp_path):
    def run(**options):
        arguments = {"train_file": [str(text)], "output_dir": str(tmp_path / "out"), "min_count": 1, **options}
        return build_vocabulary(VocabularyArguments(**arguments))

    return run


def test_the_command_writes_a_vocabulary_and_says_what_it_holds(text, tmp_path, capsys):
    out = tmp_path / "out"
    main(["vocabulary", "--train_file", str(text), "--output_dir", str(out), "--do_lower_case"])
    said = capsys.readouterr().out
    assert "Counted 15 words in 3 sentences, 10 distinct" in said
    # <unk> in lower case is a word like any other.
    assert "Kept 5 words, the three special ones included: 53.33% of the running words will be <UNK>." in said
    assert f"--vocab_file {out / 'word_vocabulary.txt'} --pre_tokenizer whitespace --do_lower_case" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "text.txt"]
    assert WordVocabulary.load(out).words == ["<S>", "</S>", "<UNK>", "the", "."]
    spelling = SpellingModel.load(out / "spelling.npz")
    assert spelling.log_probabilities(["cat"]) > spelling.log_probabilities(["tac"])
    facts = json.loads((out / "vocabulary.json").read_text())
    assert facts["training_text"] == {"words": 15, "sentences": 3, "distinct_words": 10}
    assert (facts["vocabulary_size"], facts["unknown_share"], facts["do_lower_case"]) == (5, 8 / 15, True)
    assert "command" in facts and "commit" in facts


def test_files_and_datasets_give_the_same_words(build, tmp_path):
    wanted = build(max_vocab_size=7).words
    assert wanted == WordVocabulary.from_counts(Counter(TEXT.split()), max_size=7).words
    (tmp_path / "text.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.jsonl").write_text(json.dumps({"body": TEXT}) + "\n")
    for number, options in enumerate(
        (
            {"train_file": [str(tmp_path / "text.t*.gz")]},
            {"train_file": None, "dataset_name": str(tmp_path / "data"), "text_column": "body"},
        )
    ):
        assert build(output_dir=str(tmp_path / f"out{number}"), max_vocab_size=7, **options).words == wanted


def test_figures_for_smaller_vocabularies_of_real_text(build, tmp_path, capsys):
    words = build(train_file=[str(shared_data("movie_reviews") / "heldout.txt")], min_count=2, pre_tokenizer="penn")
    assert "n't" in words
    facts = json.loads((tmp_path / "out" / "vocabulary.json").read_text())
    shares = [*facts["unknown_share_at_size"].values(), facts["unknown_share"]]
    assert list(facts["unknown_share_at_size"]) == ["1000", "3000"]
    assert shares == sorted(shares, reverse=True) and 0 < shares[-1] < shares[0] < 0.5
    assert f"1,000 words {shares[0]:.2%}; 3,000 words" in capsys.readouterr().out


def test_mistakes_are_named_and_leave_nothing_behind(build, text, tmp_path):
    for options, named in (
        ({"dataset_name": "wikitext"}, ("--train_file", "--dataset_name")),
        ({"train_file": None}, ("--train_file", "--dataset_name")),
        ({"min_count": 0}, "--min_count is 0"),
        ({"max_vocab_size": 3}, "--max_vocab_size is 3"),
        ({"min_count": 50}, ("50 times", "min_count")),
        ({"train_file": ["nothing*"]}, ("--train_file", "nothing*")),
        ({"output_dir": str(tmp_path)}, "--overwrite_output_dir"),
        ({"output_dir": str(tmp_path), "overwrite_output_dir": True}, ("output_dir", "--train_file")),
    ):
        assert_refused((ValueError, OSError), named, build, **options)
    for content, named in ((b" \n \n", "holds no words"), (b"good\ncaf\xe9\n", ("UTF-8", "line 2"))):
        text.write_bytes(content)
        assert_refused(ValueError, named, build)
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]
