"""A seventh task is two new files and a line of the registry: it is then trained, written and applied as all others."""

import json

import pytest
from conftest import make_tiny_config

from hf_elmo import ElmoCharTokenizer
from hf_elmo.cli.command_line import main
from hf_elmo.tasks import TASKS, TaskEntry


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setitem(TASKS, "capitals", TaskEntry("capitals", "Capitals", "ElmoForCapitals", "a finder of capitals"))


def test_it_is_trained_and_applied_by_the_same_commands(registered, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("hf_elmo.text.progress.SECONDS_BETWEEN_LINES", 0)
    make_tiny_config(num_labels=2).save_pretrained(tmp_path / "architecture")
    ElmoCharTokenizer().save_pretrained(tmp_path / "architecture")
    (tmp_path / "train.txt").write_text("Anna sees Oslo\nwe like Bert\nno names\n" * 20)
    flags = ["--model_name_or_path", tmp_path / "architecture", "--from_scratch", "--no_freeze_bilm"]
    flags += [f"--{split}_file={tmp_path / 'train.txt'}" for split in ("train", "validation")]
    flags += ["--num_train_epochs", 12, "--learning_rate", 0.02, "--load_best_model_at_end"]
    flags += ["--disable_tqdm", "false"]
    flags += ["--head", "dropout=0", "--use_cpu", "--output_dir", tmp_path / "out"]
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    assert "capitals" in capsys.readouterr().out
    main(["train", "capitals", *map(str, flags)])
    shown, said = capsys.readouterr()
    assert "| validation | 100.00 |" in shown and "| mix 1 |" in shown
    # A file gets lines and no bars.
    assert "training: 100% 24/24 [" in said and "\r" not in said and "\x1b" not in said
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["settings"]["learning_rate"] == 0.02 and results["kept_step"] in range(2, 25, 2)
    assert (tmp_path / "out" / "validation_predictions.txt").read_text() == "60\n"
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.startswith(("checkpoint", "un", "."))]
    assert (results["task"], results["eval_looked_at"]) == ("capitals", "validation")
    assert results["data"]["train"] == {"source": "train.txt", "examples": 60, "words": 160}
    assert results["eval_share_right"] == 1
    card = (tmp_path / "out" / "README.md").read_text()
    assert "\n# out\n" in card and "A finder of capitals" in card and "100.00" in card
    main(["predict", "Bert likes Oslo", "--model_name_or_path", str(tmp_path / "out"), "--device", "cpu"])
    assert capsys.readouterr().out == "[A Bert] likes [A Oslo]\n"
    written = [f"--{name}={tmp_path / file}" for name, file in (("output_file", "out.txt"), ("html", "out.html"))]
    main(["predict", "we see Oslo", "--model_name_or_path", str(tmp_path / "out"), "--device", "cpu", *written])
    assert (tmp_path / "out.txt").read_text() == "we see [A Oslo]\n" and "Oslo" in (tmp_path / "out.html").read_text()
    with pytest.raises(SystemExit):
        main(["predict", "a", "--text_pair", "b", "--model_name_or_path", str(tmp_path / "out")])
    assert "the checkpoint finds capitals" in capsys.readouterr().err
