"""`hf-elmo score`: tables on the screen, files for programs, a heat map, and one line for each mistake."""

import csv
import gzip
import io
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import make_tiny_config
from refusals import assert_refused

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining, ElmoModel
from hf_elmo.cli.command_line import main
from hf_elmo.cli.score import ScoringArguments, score
from hf_elmo.inference.embedder import place_words
from hf_elmo.inference.score_files import COLUMNS, MAX_BITS, ScoredLine, open_scores
from hf_elmo.inference.scoring import DIRECTIONS, ElmoScorer, ScoreTotals, SentenceScores
from hf_elmo.text.vocabulary import SPECIAL_WORDS, WordVocabulary

VOCABULARY = WordVocabulary([*SPECIAL_WORDS, *"the cat sat on a mat . !".split()])
TEXT = "The cat sat .\n\nthe zebra sat on a mat !\nmat\n"
EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    directory = tmp_path_factory.mktemp("score") / "elmo"
    ElmoForPreTraining(make_tiny_config(word_vocab_size=len(VOCABULARY))).save_pretrained(directory)
    ElmoCharTokenizer(pre_tokenizer="punctuation", do_lower_case=True).save_pretrained(directory)
    VOCABULARY.save(directory)
    return directory


@pytest.fixture
def run(checkpoint, tmp_path):
    """Score TEXT, with other arguments where they are given."""
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    defaults = {"model_name_or_path": str(checkpoint), "input_file": str(tmp_path / "text.txt"), "device": "cpu"}
    return lambda **arguments: score(ScoringArguments(**{**defaults, **arguments}))


def test_from_a_text_to_tables_and_from_a_mistake_to_one_line(checkpoint, tmp_path, capsys):
    with gzip.open(tmp_path / "text.txt.gz", "wt", encoding="utf-8") as file:
        file.write(TEXT + "mat\n" * 9)
    argv = ["--model_name_or_path", str(checkpoint), "--input_file", str(tmp_path / "text.txt.gz"), "--device", "cpu"]
    main(["score", *argv, "--word", "sat", "--top_k", "3"])
    lines = capsys.readouterr().out.splitlines()
    shown = [line.split(":")[0] for line in lines if line.startswith("sentence")]
    assert shown == [f"sentence {number}" for number in (0, 2, 3, 4, 5)]
    assert "in place of 'sat' at 2:" in lines
    assert any(line.split()[:3] == ["1", "zebra", "*"] for line in lines)
    assert lines[-2].startswith("Scored 12 sentences of 21 words, each from a state of zeros: perplexity ")
    assert "scored as <UNK>: 1 of 21." in lines[-1]
    with pytest.raises(SystemExit) as ended:
        main(["score", *argv, "--word", "dog"])
    assert ended.value.code == 2 and capsys.readouterr().err.startswith("error: --word is 'dog', which no sentence")


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def records_of(path):
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def test_rows_and_records_hold_what_the_scorer_gives_and_where_words_stand(run, checkpoint, tmp_path):
    lines = ['  The "cat",\u00a0sat!', "", "the zebra sat on a mat !", " mat . ", ""]
    (tmp_path / "raw.txt").write_text("\n".join(lines), encoding="utf-8")
    given = {"input_file": str(tmp_path / "raw.txt"), "top_k": 3, "word": "mat"}
    totals = run(output_file=str(tmp_path / "out" / "scores.tsv"), **given)
    assert run(output_file=str(tmp_path / "scores.jsonl"), **given) == totals
    rows, records = rows_of(tmp_path / "out" / "scores.tsv"), records_of(tmp_path / "scores.jsonl")
    scorer = ElmoScorer(str(checkpoint), device="cpu")
    expected = scorer.score_sentences(list(filter(None, lines)))
    assert totals == sum((scores.totals for scores in expected), ScoreTotals())
    assert tuple(rows[0]) == COLUMNS and len(rows) == totals.num_words + 2 * len(expected)
    for number, record, scores in zip((0, 2, 3), records, expected, strict=True):
        places = [at for at, word in enumerate(scores.words) if word == "mat"]
        found = {str(at): [each._asdict() for each in scorer.substitutes(scores.words, at, 3)] for at in places}
        assert (record["words"], record.get("substitutes", {})) == (scores.words, found)
        assert (record["sentence"], record["perplexity"]) == (number, scores.totals.perplexity)
        first, *mine, last = [row for row in rows if row["sentence"] == str(number)]
        assert [row["word"] for row in (first, *mine, last)] == ["<S>", *scores.words, "</S>"]
        assert [row["position"] for row in (first, *mine, last)] == [str(at) for at in range(-1, len(mine) + 1)]
        assert [row["unknown"] == "1" for row in mine] == scores.is_unknown.tolist() == record["unknown"]
        assert [row["substitutes"].split() for row in mine if row["substitutes"]] == [
            [each["word"] for each in those] for those in found.values()
        ]
        for name, key in (("forward", "surprisal"), ("backward", "surprisal_backward"), ("joint", "surprisal_joint")):
            nats = getattr(scores, name)
            assert [float(row[name]) for row in mine] == pytest.approx(nats, abs=1e-6)
            assert record[name] == pytest.approx(nats, abs=1e-6)
            assert [float(row[key]) for row in mine] == record[key] == pytest.approx(-nats / math.log(2), abs=2e-6)
        assert float(first["backward"]) == record["backward_end"] == pytest.approx(scores.backward_end, abs=1e-6)
        assert float(last["forward"]) == record["forward_end"] == pytest.approx(scores.forward_end, abs=1e-6)
        assert not any(row[name] for row in (first, last) for name in ("joint", "start", "end"))
        assert last["surprisal"] and not last["surprisal_backward"]
        offsets = [[int(row["start"]), int(row["end"])] for row in mine]
        assert offsets == record["offsets"]
        assert [lines[number][start:end].lower() for start, end in offsets] == scores.words
        assert [int(row["spaced_word"]) for row in mine] == record["spaced_words"]
    assert records[0]["spaced_words"] == [0, 1, 1, 1, 1, 2, 2]


def test_a_carried_state_changes_all_but_the_first_line(run, tmp_path, capsys):
    for carry_state in (False, True):
        run(output_file=str(tmp_path / f"{carry_state}.jsonl"), carry_state=carry_state)
    alone, carried = ([each["forward"] for each in records_of(tmp_path / f"{name}.jsonl")] for name in (False, True))
    assert carried[0] == alone[0] and carried[1] != alone[1]
    assert "carried from line to line" in capsys.readouterr().out


def test_a_text_from_standard_input_and_rows_to_standard_output(run, monkeypatch, capsys):
    stream = io.BytesIO(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(stream))
    totals = run(input_file="-", output_file="-")
    printed = capsys.readouterr()
    assert totals.num_words == 12 and totals.num_unknown == 1
    assert printed.out.startswith("sentence\tposition") and "perplexity" in printed.err
    assert len(printed.out.splitlines()) == 1 + 12 + 2 * 3
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"the cat\ncaf\xe9\n")))
    assert_refused(ValueError, ("input_file '-'", "line 2"), run, input_file="-")


def test_the_page_has_the_raw_text_with_its_bits_and_needs_nothing(run, tmp_path):
    stream, tokenizer = io.StringIO(), ElmoCharTokenizer(pre_tokenizer="whitespace")
    with open_scores(stream, "html", ["model <a>"]) as report:
        for number, text, bits in ((0, f"  a rare {EVIL}", [0, 19, 99]), (2, "xyz $x$ \t", [10, -1])):
            placed, nats = place_words(text, tokenizer), -math.log(2) * np.array(bits, dtype=float)
            unknown = np.array([word == "xyz" for word in placed.words])
            scores = SentenceScores(placed.words, unknown, nats, nats / 2, nats / 4, 0.0, 0.0)
            report(ScoredLine(number, text, placed, scores, {}))
    page = stream.getvalue()
    body = re.search("<main.*</main>", page, re.DOTALL)[0]
    shown = re.sub("<.*?>", "", body).replace("&lt;", "<").replace("&gt;", ">").split("\n")
    assert shown[1:3] == [f"  a rare {EVIL}", "xyz $x$ \t"]
    for direction, divisor in zip(DIRECTIONS, (1, 2, 4), strict=True):
        found = [float(depth) for depth in re.findall(rf"--{direction}:([\d.]+)", body)]
        expected = [min(max(bits / divisor / MAX_BITS, 0), 1) for bits in (0, 19, 99, 10, -1)]
        assert found == pytest.approx(expected, abs=0.0051)
    assert body.count("class=unknown") == body.count("unknown to the softmax") == 1
    assert "forward 19.0, backward 9.5, joint 4.8 bits" in body
    assert EVIL not in page and "model &lt;a&gt;" in page and "<script" not in page and "://" not in page
    # The command writes it beside the rows.
    run(output_file=str(tmp_path / "scores.tsv"), html=str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("<p><span") == 3 and ">zebra</span>" in page and "text text.txt" in page
    assert len(rows_of(tmp_path / "scores.tsv")) == 18


# What is refused


def test_many_unknown_words_are_warned_of_and_tokenized_text_is_cut_at_white_space(run, tmp_path, capsys):
    (tmp_path / "foreign.txt").write_text("the Katze saß auf der Matte's\n", encoding="utf-8")
    (tmp_path / "scores.jsonl").write_text("old")
    given = {"input_file": str(tmp_path / "foreign.txt"), "output_file": str(tmp_path / "scores.jsonl")}
    run(**given, text_is_tokenized=True, overwrite_output_file=True)
    assert "83% of the words are unknown" in capsys.readouterr().out
    assert records_of(tmp_path / "scores.jsonl")[0]["words"] == "the Katze saß auf der Matte's".split()


MISTAKES = [
    ({"input_file": "blank.txt", "output_file": "out/scores.tsv"}, "holds no words"),
    ({"word": "cat", "carry_state": True}, ("--word", "--carry_state")),
    ({"input_file": "absent.txt"}, "absent.txt"),
    ({"output_file": "scores.xml"}, ("'scores.xml'", ".tsv or .jsonl")),
    ({"html": "page.tsv"}, ("--html", "page.tsv")),
    ({"output_file": "page.html", "html": "page.html"}, "--output_file is 'page.html'"),
    ({"top_k": 0}, "--top_k is 0"),
    ({"word": "dog"}, "--word is 'dog'"),
]


def test_mistakes_are_named_and_files_are_left_alone(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blank.txt").write_text("\n \n")
    for arguments, named in MISTAKES:
        assert_refused((ValueError, OSError), named, run, **arguments)
    assert not list((tmp_path / "out").iterdir())
    (tmp_path / "text.tsv").write_text(TEXT)
    for input_file in ("text.tsv", "*.tsv"):
        arguments = {"input_file": str(tmp_path / input_file), "output_file": str(tmp_path / "text.tsv")}
        assert_refused(ValueError, "the input_file too", run, **arguments, overwrite_output_file=True)
    (tmp_path / "page.html").write_text("mine")
    assert_refused(FileExistsError, "--overwrite_output_file", run, html="page.html")
    assert (tmp_path / "text.tsv").read_text() == TEXT and (tmp_path / "page.html").read_text() == "mine"


def test_a_checkpoint_without_a_softmax_or_its_words_is_refused(run, tmp_path):
    with_softmax = make_tiny_config(word_vocab_size=len(VOCABULARY))
    ElmoModel(make_tiny_config()).save_pretrained(tmp_path / "converted")
    # The config has a softmax, the weights have none.
    ElmoModel(with_softmax).save_pretrained(tmp_path / "base")
    ElmoForPreTraining(with_softmax).save_pretrained(tmp_path / "words")
    for name, named in (("converted", "converted'"), ("base", "'word_softmax"), ("words", "word_vocabulary.txt")):
        assert_refused((ValueError, FileNotFoundError), named, run, model_name_or_path=str(tmp_path / name))
