"""`hf-elmo convert` and `hf-elmo export`: what they write and print, and one line for each mistake."""

import datasets
import pytest
import torch
from bilm_tf_files import make_options, write_checkpoint
from conftest import make_tiny_config
from transformers import AutoModel, AutoTokenizer
from transformers.utils import logging

from hf_elmo import ElmoForPreTraining, ElmoModel
from hf_elmo.cli.command_line import main
from hf_elmo.cli.score import ScoringArguments, score
from hf_elmo.conversion.bilm_tf_export import save_bilm_tf
from hf_elmo.text.vocabulary import WordVocabulary


@pytest.fixture(autouse=True)
def _logging():
    """The libraries' logging is set back, which a command quiets."""
    verbosities = logging.get_verbosity(), datasets.utils.logging.get_verbosity()
    yield
    logging.set_verbosity(verbosities[0])
    logging.enable_progress_bar()
    datasets.utils.logging.set_verbosity(verbosities[1])
    datasets.enable_progress_bars()


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
    assert named["tokenizer"].pre_tokenizer == "whitespace"


def test_words_and_flags_stand_in_any_order_and_the_tokenizer_is_as_told(tmp_path, source):
    output = str(tmp_path / "elmo")
    flags = ["--do_lower_case", "--clean", "NFC", "invisible"]
    main(["convert", "--pre_tokenizer", "unicode", source, output, *flags])
    tokenizer = AutoTokenizer.from_pretrained(output)
    assert tokenizer.tokenize("I DON'T; cafe\u0301") == ["i", "don't", ";", "café"]
    (tmp_path / "elmo" / "old").write_text("mine")
    main(["convert", source, output, "--overwrite_output_dir"])
    assert AutoTokenizer.from_pretrained(output).tokenize("I DON'T;") == ["I", "DON'T;"]
    assert not (tmp_path / "elmo" / "old").exists()


def test_a_word_softmax_comes_along_both_ways_and_scores_text(tmp_path, capsys):
    words = ["<S>", "</S>", "<UNK>", "the", "cat"]
    model = ElmoForPreTraining(make_tiny_config(word_vocab_size=len(words)))
    save_bilm_tf(model, tmp_path / "theirs", WordVocabulary(words))
    main(["convert", str(tmp_path / "theirs"), str(tmp_path / "elmo")])
    printed = capsys.readouterr().out
    assert f"{model.num_parameters():,} parameters" in printed and "5 words" in printed and "hf-elmo score" in printed
    (tmp_path / "text.txt").write_text("the cat sat\n")
    totals = score(
        ScoringArguments(model_name_or_path=str(tmp_path / "elmo"), input_file=str(tmp_path / "text.txt"), device="cpu")
    )
    assert (totals.num_words, totals.num_unknown) == (3, 1)
    capsys.readouterr()
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
