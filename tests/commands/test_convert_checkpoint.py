"""`hf-elmo convert` from the command line."""

import json
import os
import sys

import datasets
import fresh_process
import pytest
import torch
from conftest import ROOT, make_tiny_config
from transformers import AutoModel, AutoTokenizer
from transformers.utils import logging

from hf_elmo import ElmoForPreTraining, ElmoForTokenClassification, ElmoModel
from hf_elmo.commands import convert
from hf_elmo.commands.score import ScoringArguments, run_scoring
from hf_elmo.conversion.bilm_tf import load_bilm_tf
from hf_elmo.conversion.bilm_tf_export import save_bilm_tf
from hf_elmo.text.vocabulary import WordVocabulary

pytest.importorskip("h5py", reason="bilm-tf weights are hdf5 files")


@pytest.fixture
def checkpoint(tmp_path):
    """The arguments that name a tiny bilm-tf checkpoint."""
    options_file, weight_file = tmp_path / "options.json", tmp_path / "weights.hdf5"
    save_bilm_tf(ElmoModel(make_tiny_config()), options_file, weight_file)
    return ["--options_file", str(options_file), "--weight_file", str(weight_file)]


@pytest.fixture
def main():
    """The command; the libraries' logging is set back afterwards."""
    verbosities = logging.get_verbosity(), datasets.utils.logging.get_verbosity()
    yield convert.main
    logging.set_verbosity(verbosities[0])
    logging.enable_progress_bar()
    datasets.utils.logging.set_verbosity(verbosities[1])
    datasets.enable_progress_bars()


def run_script(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return fresh_process.run(["-m", "hf_elmo", "convert", *arguments], env=environment)


def test_a_checkpoint_is_converted_and_told_how_to_load(tmp_path, checkpoint):
    output_dir = tmp_path / "elmo"
    result = run_script("--format", "bilm-tf", *checkpoint, "--output_dir", str(output_dir))
    assert (result.returncode, result.stderr) == (0, "")
    model = AutoModel.from_pretrained(output_dir)
    assert isinstance(model, ElmoModel)
    assert f"{model.num_parameters():,} parameters" in result.stdout
    commands = [line.strip() for line in result.stdout.splitlines() if ".from_pretrained(" in line]
    told = {}
    exec("\n".join(commands), {"AutoModel": AutoModel, "AutoTokenizer": AutoTokenizer}, told)
    assert torch.equal(
        told["model"].bilm.layers[1].backward_lstm.weight_ih, model.bilm.layers[1].backward_lstm.weight_ih
    )
    assert told["tokenizer"].pre_tokenizer == "whitespace"
    assert "Text is cut at white space" in result.stdout


def test_the_tokenizer_of_a_converted_checkpoint_cuts_as_it_was_told(tmp_path, checkpoint, main):
    flags = ["--pre_tokenizer", "unicode", "--do_lower_case", "--normalization", "NFC", "--drop_invisible"]
    main([*checkpoint, "--output_dir", str(tmp_path / "elmo"), *flags])
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "elmo")
    assert tokenizer.tokenize("I DON'T; cafe\u0301") == ["i", "don't", ";", "café"]
    assert tokenizer.max_characters_per_word == ElmoModel(make_tiny_config()).config.max_characters_per_word
    for wrong in (["--pre_tokenizer", "words"], ["--reverse", "--model_name_or_path", str(tmp_path / "elmo"), *flags]):
        with pytest.raises(SystemExit) as stop:
            main([*checkpoint, *([] if "--reverse" in wrong else ["--output_dir", str(tmp_path / "x")]), *wrong])
        assert stop.value.code == 2


def test_a_source_and_an_output_need_no_flags_and_stand_before_or_behind_them(tmp_path, checkpoint, main, capsys):
    source, output = tmp_path / "weights.hdf5", tmp_path / "elmo"
    main([str(source), "--format", "bilm-tf", str(output), "--do_lower_case"])
    assert str(output) in capsys.readouterr().out
    assert AutoTokenizer.from_pretrained(output).do_lower_case
    main(["--overwrite_output_dir", "true", str(tmp_path), "--output_dir", str(tmp_path / "other")])
    theirs, ours = (AutoModel.from_pretrained(tmp_path / name).state_dict() for name in ("elmo", "other"))
    assert all(torch.equal(theirs[name], ours[name]) for name in ours)
    capsys.readouterr()
    for arguments, named in (
        ([str(source)], "--output_dir"),
        ([str(source), str(output), "--output_dir", str(output)], "--output_dir"),
        ([str(source), str(output), "--reverse"], "--model_name_or_path"),
        ([str(source), "--reverse", "--model_name_or_path", "x"], "SOURCE"),
        ([str(source), str(output), "third"], "third"),
        ([str(tmp_path / "none"), str(tmp_path / "new")], "none"),
    ):
        assert_one_line_error(main, arguments, capsys, named)


def test_help_names_every_argument():
    result = run_script("--help")
    assert result.returncode == 0
    files = ("options_file", "weight_file", "softmax_file", "vocab_file")
    for name in (*files, "format", "output_dir", "overwrite_output_dir", "reverse", "model_name_or_path"):
        assert f"--{name}" in result.stdout


def test_reverse_writes_the_two_files_back_and_says_nothing_of_the_task(tmp_path):
    model = ElmoForTokenClassification(make_tiny_config(num_labels=4))
    model.save_pretrained(tmp_path / "model")
    options_file, weight_file = tmp_path / "back" / "o.json", tmp_path / "back" / "w.hdf5"
    files = ["--options_file", str(options_file), "--weight_file", str(weight_file)]
    result = run_script("--reverse", "--model_dir", str(tmp_path / "model"), *files)
    assert (result.returncode, result.stderr) == (0, "")
    assert str(options_file) in result.stdout and str(weight_file) in result.stdout
    back = load_bilm_tf(options_file, weight_file)
    assert torch.equal(back.bilm.layers[0].forward_lstm.bias, model.elmo.bilm.layers[0].forward_lstm.bias)
    assert torch.equal(back.token_encoder.projection.weight, model.elmo.token_encoder.projection.weight)


def test_a_word_softmax_comes_along_both_ways_and_scores_text(tmp_path, main, capsys):
    words = ["<S>", "</S>", "<UNK>", "the", "cat"]
    model = ElmoForPreTraining(make_tiny_config(word_vocab_size=len(words)))
    names = ("options_file", "weight_file", "softmax_file", "vocab_file")
    files = {name: tmp_path / name for name in names}
    save_bilm_tf(model, **files, vocabulary=WordVocabulary(words))
    arguments = [part for name, file in files.items() for part in (f"--{name}", str(file))]
    main([*arguments, "--output_dir", str(tmp_path / "elmo")])
    printed = capsys.readouterr().out
    assert f"{model.num_parameters():,} parameters" in printed and "over 5 words" in printed
    (tmp_path / "text.txt").write_text("the cat sat\n")
    totals = run_scoring(ScoringArguments(str(tmp_path / "elmo"), str(tmp_path / "text.txt"), device="cpu"))
    assert (totals.num_words, totals.num_unknown) == (3, 1)
    capsys.readouterr()
    back = {name: tmp_path / "back" / name for name in names}
    arguments = [part for name, file in back.items() for part in (f"--{name}", str(file))]
    main(["--reverse", "--model_dir", str(tmp_path / "elmo"), *arguments])
    printed = capsys.readouterr().out
    assert all(str(file) in printed for file in back.values())
    assert all(back[name].read_bytes() == files[name].read_bytes() for name in names)


def assert_one_line_error(main, arguments, capsys, *parts):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    printed = capsys.readouterr()
    assert caught.value.code == 2
    assert printed.out == ""
    assert printed.err.startswith("error: ") and printed.err.count("\n") == 1
    for part in parts:
        assert part in printed.err


def test_what_the_user_can_put_right_is_one_line_and_exit_code_2(tmp_path, checkpoint, main, capsys):
    arguments = [*checkpoint, "--output_dir", str(tmp_path / "elmo")]
    content = (tmp_path / "weights.hdf5").read_bytes()
    (tmp_path / "weights.hdf5").write_bytes(content[:5000])
    assert_one_line_error(main, arguments, capsys, "weights.hdf5", "truncated")
    (tmp_path / "weights.hdf5").unlink()
    assert_one_line_error(main, arguments, capsys, "weights.hdf5", "name an existing file")
    (tmp_path / "weights.hdf5").write_bytes(content)
    softmax = ["--softmax_file", str(tmp_path / "softmax.hdf5"), "--vocab_file", str(tmp_path / "vocab.txt")]
    assert_one_line_error(main, [*arguments, *softmax], capsys, "vocab.txt", "name an existing file")
    options = json.loads((tmp_path / "options.json").read_text())
    (tmp_path / "options.json").write_text(json.dumps({**options, "lstm": {**options["lstm"], "dim": 11}}))
    assert_one_line_error(main, arguments, capsys, "LSTMCell", "(12, 40)", "(12, 44)", "lstm.dim")
    assert not (tmp_path / "elmo").exists()


def test_a_full_directory_is_replaced_with_the_flag_only(tmp_path, checkpoint, main, capsys):
    output_dir = tmp_path / "elmo"
    output_dir.mkdir()
    (output_dir / "old").write_text("mine")
    arguments = [*checkpoint, "--output_dir", str(output_dir)]
    assert_one_line_error(main, arguments, capsys, "not empty", "--overwrite_output_dir")
    assert [path.name for path in output_dir.iterdir()] == ["old"]
    main([*arguments, "--overwrite_output_dir"])
    assert (output_dir / "config.json").exists() and not (output_dir / "old").exists()


def test_a_missing_h5py_is_one_line_and_exit_code_2(tmp_path, checkpoint, main, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    arguments = [*checkpoint, "--output_dir", str(tmp_path / "elmo")]
    assert_one_line_error(main, arguments, capsys, "pip install 'hf_elmo[conversion]'")


def test_arguments_that_do_not_go_together_are_refused(main, capsys):
    for arguments, named in (
        ([], "--output_dir"),
        (["--reverse"], "--model_name_or_path"),
        (["--output_dir", "a", "--model_dir", "b"], "--model_name_or_path"),
        (["--reverse", "--output_dir", "a", "--model_dir", "b"], "--output_dir"),
        (["--format", "glove", "--output_dir", "a"], "'glove'"),
        (["--output_dir", "a", "--softmax_file", "s"], "--vocab_file"),
        (["--output_dir", "a", "--vocab_file", "v"], "--softmax_file"),
    ):
        with pytest.raises(SystemExit) as caught:
            main(["--options_file", "o", "--weight_file", "w", *arguments])
        assert caught.value.code == 2, arguments
        assert named in capsys.readouterr().err, arguments
