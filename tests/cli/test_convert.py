"""`hf-elmo convert` and `hf-elmo export`: what they write and print, and one line for each mistake."""

import hashlib
from pathlib import Path

import pytest
from bilm_tf_files import are_equal, make_options, write_checkpoint
from conftest import make_tiny_config
from refusals import assert_refused
from transformers import AutoModel, AutoTokenizer

from hf_elmo import ElmoForPreTraining, load_external
from hf_elmo.cli.command_line import main
from hf_elmo.cli.export import ExportArguments, export
from hf_elmo.cli.score import ScoringArguments, score
from hf_elmo.conversion.bilm_tf import export_bilm_tf
from hf_elmo.hub.cards import render_card
from hf_elmo.text.vocabulary import WordVocabulary


@pytest.fixture
def source(tmp_path):
    write_checkpoint(tmp_path / "theirs", make_options())
    return str(tmp_path / "theirs")


def test_a_checkpoint_is_converted_and_the_printed_lines_load_it(tmp_path, source, capsys):
    main(["convert", source, str(tmp_path / "elmo")])
    printed = capsys.readouterr().out
    model = AutoModel.from_pretrained(tmp_path / "elmo")
    for part in ("bilm-tf: weights.hdf5, options.json", f"{model.num_parameters():,} parameters", "at white space"):
        assert part in printed
    code = "\n".join(line.strip() for line in printed.splitlines() if line.startswith("    "))
    named = {}
    exec(code, named)
    for other in (named["model"], load_external(f"{source}/weights.hdf5")[0]):
        assert are_equal(other, model)
    digest = hashlib.sha256(Path(source, "weights.hdf5").read_bytes()).hexdigest()
    card = (tmp_path / "elmo" / "README.md").read_text()
    size = Path(source, "weights.hdf5").stat().st_size
    assert f"| weight_file | `weights.hdf5` | {size:,} | `{digest}` |" in card and '"dim": 10' in card
    assert all(part in card for part in ("from bilm-tf files", 'from_pretrained("elmo")', "Apache-2.0", "Case is kept"))
    assert "gives vectors and no probabilities" in card and "\n\n\n" not in card
    assert 'from_pretrained("me/elmo")' in render_card(tmp_path / "elmo", "me/elmo")
    assert named["tokenizer"].tokenize("I DON'T;") == ["I", "DON'T;"]
    # Words and flags stand in any order, and the tokenizer is as told.
    (tmp_path / "elmo" / "old").write_text("mine")
    flags = ["--do_lower_case", "--clean", "NFC", "invisible", "--overwrite_output_dir"]
    main(["convert", "--pre_tokenizer", "unicode", source, str(tmp_path / "elmo"), *flags])
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "elmo")
    assert tokenizer.tokenize("I DON'T; cafe\u0301") == ["i", "don't", ";", "café"]
    assert not (tmp_path / "elmo" / "old").exists()


def test_a_word_softmax_comes_along_both_ways_and_scores_text(tmp_path, capsys):
    words = ["<S>", "</S>", "<UNK>", "the", "cat"]
    model = ElmoForPreTraining(make_tiny_config(word_vocab_size=len(words)))
    model.save_pretrained(tmp_path / "ours")
    WordVocabulary(words).save(tmp_path / "ours")
    export_bilm_tf(tmp_path / "ours", tmp_path / "theirs")
    main(["convert", str(tmp_path / "theirs"), str(tmp_path / "elmo")])
    printed = capsys.readouterr().out
    assert f"{model.num_parameters():,} parameters" in printed and "5 words" in printed and "hf-elmo score" in printed
    (tmp_path / "text.txt").write_text("the cat sat\n")
    given = {"model_name_or_path": str(tmp_path / "elmo"), "input_file": str(tmp_path / "text.txt"), "device": "cpu"}
    totals = score(ScoringArguments(**given))
    assert (totals.num_words, totals.num_unknown) == (3, 1)
    main(["export", str(tmp_path / "elmo"), str(tmp_path / "back"), "--format", "bilm-tf"])
    printed = capsys.readouterr().out
    for path in (tmp_path / "theirs").iterdir():
        assert path.name in printed and (tmp_path / "back" / path.name).read_bytes() == path.read_bytes()


def test_flags_of_another_format_are_refused():
    for format, given in (("bilm-tf", {"output_hidden_states": True}), ("onnx", {"runtime_dir": "folder"})):
        arguments = ExportArguments(model="elmo", output="out", format=format, **given)
        assert_refused(ValueError, (f"--{next(iter(given))}", format), export, arguments)
