"""`hf-elmo score`: tables for the eye, files for programs, and one line for each mistake."""

import csv
import gzip
import io
import json
import math
import os
from pathlib import Path

import fresh_process
import pytest
from conftest import ROOT, make_tiny_config
from refusals import assert_refused

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining, ElmoModel
from hf_elmo.commands.score import ScoringArguments, main, run_scoring
from hf_elmo.inference.score_report import COLUMNS
from hf_elmo.inference.scorer import load_scoring_checkpoint
from hf_elmo.inference.scoring import ScoreTotals, best_substitutes, score_sentences
from hf_elmo.text.vocabulary import SPECIAL_WORDS, WordVocabulary

VOCABULARY = WordVocabulary([*SPECIAL_WORDS, *"the cat sat on a mat . !".split()])
TEXT = "The cat sat .\n\nthe zebra sat on a mat !\nmat\n"


@pytest.fixture
def checkpoint(tmp_path):
    directory = tmp_path / "elmo"
    ElmoForPreTraining(make_tiny_config(word_vocab_size=len(VOCABULARY))).save_pretrained(directory)
    ElmoCharTokenizer(pre_tokenizer="punctuation", do_lower_case=True).save_pretrained(directory)
    VOCABULARY.save(directory)
    return directory


@pytest.fixture
def run(checkpoint, tmp_path):
    """Score TEXT, with other arguments where they are given."""
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")

    def run(**arguments):
        defaults = {
            "model_name_or_path": str(checkpoint),
            "input_file": str(tmp_path / "text.txt"),
            "device": "cpu",
        }
        return run_scoring(ScoringArguments(**{**defaults, **arguments}))

    return run


def run_script(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return fresh_process.run(["-m", "hf_elmo", "score", *arguments], env=environment)


def test_from_a_text_to_a_table_and_from_a_mistake_to_one_line(checkpoint, tmp_path, capsys):
    with gzip.open(tmp_path / "text.txt.gz", "wt", encoding="utf-8") as file:
        file.write(TEXT)
    paths = ["--model_name_or_path", checkpoint, "--input_file", tmp_path / "text.txt.gz"]
    result = run_script(*paths, "--substitutes", "3", "--word", "sat", "--device", "cpu")
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert [line.split(":")[0] for line in lines if line.startswith("sentence")] == [
        "sentence 0",
        "sentence 2",
        "sentence 3",
    ]
    assert "in place of 'sat' at 2:" in lines
    assert any(line.split()[:3] == ["1", "zebra", "*"] for line in lines)
    assert lines[-2].startswith("Scored 3 sentences of 12 words, each from a state of zeros: perplexity ")
    assert "scored as <UNK>: 1 of 12." in lines[-1]
    with pytest.raises(SystemExit) as ended:
        main([*map(str, paths), "--substitutes", "3", "--position", "7"])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("error: --position is 7, and no sentence of input_file has so") and error.count("\n") == 1


def test_tsv_has_a_line_a_word_and_sums_to_the_perplexities(run, tmp_path, capsys):
    totals = run(output_file=str(tmp_path / "out" / "scores.tsv"), substitutes=2, word="mat")
    header, *lines = (tmp_path / "out" / "scores.tsv").read_text(encoding="utf-8").splitlines()
    assert tuple(header.split("\t")) == COLUMNS
    rows = [dict(zip(COLUMNS, line.split("\t"), strict=True)) for line in lines]
    assert len(rows) == 12 + 2 * 3
    assert [row["word"] for row in rows[:6]] == ["<S>", "the", "cat", "sat", ".", "</S>"]
    assert [row["position"] for row in rows[:6]] == ["-1", "0", "1", "2", "3", "4"]
    assert {row["sentence"] for row in rows} == {"0", "2", "3"}
    for column in ("forward", "backward"):
        values = [float(row[column]) for row in rows if row[column]]
        assert len(values) == totals.num_targets
        assert math.exp(-sum(values) / len(values)) == pytest.approx(getattr(totals, f"{column}_perplexity"), rel=1e-5)
    joint = [float(row["joint"]) for row in rows if row["joint"]]
    assert math.exp(-sum(joint) / len(joint)) == pytest.approx(totals.pseudo_perplexity, rel=1e-5)
    assert [row["word"] for row in rows if row["unknown"] == "1"] == ["zebra"]
    assert [len(row["substitutes"].split()) for row in rows if row["word"] == "mat"] == [2, 2]
    assert "perplexity" in capsys.readouterr().out


def test_json_lines_hold_what_the_functions_give(run, checkpoint, tmp_path):
    totals = run(output_file=str(tmp_path / "scores.jsonl"), substitutes=3, position=0, prior="uniform")
    records = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text(encoding="utf-8").splitlines()]
    loaded = load_scoring_checkpoint(str(checkpoint))
    even = [1.0] * len(VOCABULARY)
    wanted = list(score_sentences(*loaded, [line for line in TEXT.splitlines() if line], frequencies=even))
    assert totals == sum((scores.totals for scores in wanted), ScoreTotals())
    for record, scores in zip(records, wanted, strict=True):
        assert record["words"] == scores.words
        for name in ("forward", "backward", "joint", "forward_end", "backward_end"):
            assert record[name] == pytest.approx(getattr(scores, name), abs=1e-6)
        assert record["perplexity"] == scores.totals.perplexity
        substitutes = best_substitutes(*loaded, scores.words, 0, 3, frequencies=even)
        assert record["substitutes"] == {"0": [vars(each) for each in substitutes]}


def test_sentences_too_short_for_the_position_are_scored_and_counted(run, tmp_path, capsys):
    totals = run(output_file=str(tmp_path / "scores.jsonl"), substitutes=2, position=4)
    records = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text(encoding="utf-8").splitlines()]
    assert totals.num_words == 12
    assert [list(record.get("substitutes", {})) for record in records] == [[], ["4"], []]
    assert "too short for position 4: 2." in capsys.readouterr().out


def rows_of(path, **dialect):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, **dialect))


def test_every_format_has_the_same_bits_and_the_same_places_in_the_raw_line(run, tmp_path):
    text = '  The "cat",\u00a0sat!\n\n mat .\n'
    (tmp_path / "raw.txt").write_text(text, encoding="utf-8")
    files = {suffix: tmp_path / f"scores.{suffix}" for suffix in ("tsv", "csv", "jsonl")}
    for file in files.values():
        run(input_file=str(tmp_path / "raw.txt"), output_file=str(file))
    tsv = rows_of(files["tsv"], delimiter="\t", quoting=csv.QUOTE_NONE)
    assert tsv == rows_of(files["csv"])
    records = [json.loads(line) for line in files["jsonl"].read_text(encoding="utf-8").splitlines()]
    lines = text.split("\n")
    for record in records:
        words = [row for row in tsv if row["sentence"] == str(record["sentence"]) and row["start"]]
        assert [row["word"] for row in words] == record["words"]
        for column, key in (("forward", "surprisal"), ("backward", "surprisal_backward"), ("joint", "surprisal_joint")):
            bits = [float(row[key]) for row in words]
            assert bits == record[key]
            assert bits == pytest.approx([-float(row[column]) / math.log(2) for row in words], abs=2e-6)
        line = lines[record["sentence"]]
        assert [[int(row["start"]), int(row["end"])] for row in words] == record["offsets"]
        assert [line[start:end].lower() for start, end in record["offsets"]] == record["words"]
        assert [int(row["spaced_word"]) for row in words] == record["spaced_words"]
    assert records[0]["spaced_words"] == [0, 1, 1, 1, 1, 2, 2]
    ends = [row for row in tsv if row["word"] == "</S>"]
    assert all(row["surprisal"] and not row["surprisal_backward"] and not row["start"] for row in ends)


def test_a_carried_state_changes_all_but_the_first_line(run, tmp_path, capsys):
    scores = {}
    for carry_state in (False, True):
        output_file = str(tmp_path / f"{carry_state}.jsonl")
        run(output_file=output_file, carry_state=carry_state)
        lines = Path(output_file).read_text(encoding="utf-8").splitlines()
        scores[carry_state] = [json.loads(line)["forward"] for line in lines]
    assert scores[True][0] == scores[False][0]
    assert scores[True][1] != scores[False][1]
    assert "carried from line to line" in capsys.readouterr().out


@pytest.mark.parametrize(("output_format", "first"), [(None, "sentence\tposition"), ("jsonl", '{"sentence": 0')])
def test_a_text_from_standard_input_and_rows_to_standard_output(run, monkeypatch, capsys, output_format, first):
    stream = io.BytesIO(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(stream))
    totals = run(input_file="-", output_file="-", output_format=output_format)
    printed = capsys.readouterr()
    assert totals.num_words == 12 and totals.num_unknown == 1
    assert printed.out.startswith(first) and "perplexity" in printed.err
    assert len(printed.out.splitlines()) == (1 + 12 + 2 * 3 if output_format is None else 3)


def test_many_unknown_words_are_warned_of(run, tmp_path, capsys):
    run()
    assert "mean little" not in capsys.readouterr().out
    (tmp_path / "foreign.txt").write_text("the Katze saß auf der Matte\n", encoding="utf-8")
    run(input_file=str(tmp_path / "foreign.txt"))
    assert "83% of the words are unknown" in capsys.readouterr().out


def test_standard_input_that_is_not_utf8_is_refused_by_its_line(run, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"the cat\ncaf\xe9\n")))
    with pytest.raises(ValueError, match="line 2 of standard input"):
        run(input_file="-")


def test_words_of_tokenized_text_stand_between_white_space(run, tmp_path):
    (tmp_path / "tokenized.txt").write_text("The cat's mat.\n")
    (tmp_path / "scores.jsonl").write_text("old")
    arguments = {"input_file": str(tmp_path / "tokenized.txt"), "output_file": str(tmp_path / "scores.jsonl")}
    totals = run(**arguments, text_is_tokenized=True, overwrite_output_file=True)
    assert (totals.num_words, totals.num_unknown) == (3, 2)
    assert json.loads((tmp_path / "scores.jsonl").read_text())["words"] == ["The", "cat's", "mat."]


def test_only_the_first_sentences_are_shown(run, capsys):
    run(max_sentences_shown=1)
    shown = capsys.readouterr().out
    assert "sentence 0" in shown and "sentence 2" not in shown and "Scored 3 sentences" in shown


MISTAKES = [
    ({"output_file": "scores.tsv", "output_format": "xml"}, "'scores.tsv'"),
    ({"output_format": "csv"}, ("--output_format", "--output_file")),
    ({"substitutes": 1, "word": "cat", "carry_state": True}, ("--substitutes", "--carry_state")),
    ({"input_file": "absent.txt"}, "input_file 'absent.txt'"),
    ({"output_file": "scores.xml"}, ("'scores.xml'", ".tsv, .csv, .jsonl")),
    ({"substitutes": 3}, "--substitutes is 3"),
    ({"substitutes": 3, "word": "cat", "position": 1}, ("--substitutes is 3", "position", "word")),
    ({"substitutes": -1}, "--substitutes is -1"),
    ({"position": 1}, ("--position", "--substitutes is 0")),
    ({"substitutes": 1, "word": "dog"}, "--word is 'dog'"),
    ({"substitutes": 1, "position": -1}, "--position is -1"),
    ({"chunk_size": 0}, "chunk_size is 0"),
    ({"device": "abacus"}, "device 'abacus'"),
    ({"model_name_or_path": "absent"}, "model_name_or_path 'absent'"),
]


def test_mistakes_are_named(run):
    for arguments, named in MISTAKES:
        assert_refused((ValueError, OSError), named, run, **arguments)


def test_a_text_without_words_leaves_no_file(run, tmp_path):
    (tmp_path / "blank.txt").write_text("\n \n")
    with pytest.raises(ValueError, match="holds no words"):
        run(input_file=str(tmp_path / "blank.txt"), output_file=str(tmp_path / "out" / "scores.tsv"))
    assert not list((tmp_path / "out").iterdir())


def test_the_input_is_not_overwritten(run, tmp_path):
    (tmp_path / "text.tsv").write_text(TEXT)
    arguments = {"input_file": str(tmp_path / "text.tsv"), "output_file": str(tmp_path / "text.tsv")}
    with pytest.raises(FileExistsError, match="--overwrite_output_file"):
        run(**arguments)
    with pytest.raises(ValueError, match="input_file"):
        run(**arguments, overwrite_output_file=True)
    assert (tmp_path / "text.tsv").read_text() == TEXT


def test_a_checkpoint_without_a_softmax_is_refused(run, tmp_path):
    ElmoModel(make_tiny_config()).save_pretrained(tmp_path / "converted")
    with pytest.raises(ValueError, match="converted'"):
        run(model_name_or_path=str(tmp_path / "converted"))
    # The config tells of a softmax, the weights hold none.
    ElmoModel(make_tiny_config(word_vocab_size=len(VOCABULARY))).save_pretrained(tmp_path / "base")
    with pytest.raises(ValueError, match="'word_softmax"):
        run(model_name_or_path=str(tmp_path / "base"))


def test_the_words_of_the_softmax_may_lie_elsewhere(run, checkpoint, tmp_path, capsys):
    words = (checkpoint / "word_vocabulary.txt").rename(tmp_path / "words.txt")
    with pytest.raises(FileNotFoundError, match=r"word_vocabulary\.txt.*--vocab_file"):
        run()
    run(vocab_file=str(words))
    assert "Scored 3 sentences" in capsys.readouterr().out
    words.write_text("".join(f"{word}\n" for word in [*SPECIAL_WORDS, "a"]))
    with pytest.raises(ValueError, match=r"4 words.*11"):
        run(vocab_file=str(words))
