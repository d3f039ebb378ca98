"""`hf-elmo convert` and `hf-elmo export`: what they write and print, and one line for each mistake."""

import pytest
import torch
from bilm_tf_files import make_options, write_checkpoint
from conftest import make_tiny_config
from transformers import AutoModel, AutoTokenizer

from hf_elmo import ElmoForPreTraining, ElmoModel
from hf_elmo.cli.command_line import main
from hf_elmo.cli.score import ScoringArguments, score
from hf_elmo.conversion.bilm_tf_export import export_bilm_tf
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
    wanted = model.state_dict()
    assert all(torch.equal(tensor, wanted[name]) for name, tensor in named["model"].state_dict().items())
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


def test_a_mistake_is_one_line_and_exit_code_2(tmp_path, source, capsys):
    new, full = str(tmp_path / "new"), tmp_path / "full"
    full.mkdir()
    (full / "precious").write_text("mine")
    ElmoModel(make_tiny_config()).save_pretrained(tmp_path / "model")
    (tmp_path / "cut.hdf5").write_bytes((tmp_path / "theirs" / "weights.hdf5").read_bytes()[:5000])
    options = ["--options_file", str(tmp_path / "theirs" / "options.json")]
    capsys.readouterr()
    for command, arguments, named in (
        ("convert", [source], ("OUTPUT",)),
        ("convert", [source, str(full)], ("full", "--overwrite_output_dir")),
        ("convert", [str(tmp_path / "cut.hdf5"), new, *options], ("cut.hdf5", "truncated")),
        ("export", [str(tmp_path / "model"), str(full), "--format", "bilm-tf"], ("full", "--overwrite_output_dir")),
        ("export", [str(tmp_path / "model"), new, "--format", "bilm-tf", "--output_hidden_states"], ("hidden_states",)),
    ):
        with pytest.raises(SystemExit) as caught:
            main([command, *arguments])
        printed = capsys.readouterr()
        assert caught.value.code == 2 and printed.out == "", arguments
        assert printed.err.startswith("error: ") and printed.err.count("\n") == 1, printed.err
        assert all(part in printed.err for part in named), printed.err
    assert not (tmp_path / "new").exists() and [path.name for path in full.iterdir()] == ["precious"]
