"""The command as a user runs it: in a process of its own, with good and with bad files."""

import json
from collections import Counter

import fresh_process
import pytest
from conftest import shared_data

from hf_elmo.cli.pretrain import main
from hf_elmo.text.vocabulary import WordVocabulary

TINY = '{"projection_size": 8, "cell_size": 16, "filters": [[1, 4], [2, 4]]}'


def run(*arguments, launcher=()):
    """Run the command, alone or behind a launcher."""
    return fresh_process.run([*launcher, "-m", "hf_elmo", "pretrain", *arguments])


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("".join(f"the cat sat on mat {number} .\na dog ran {number} times .\n" for number in range(30)))
    return path


@pytest.mark.parametrize(
    "launcher",
    [
        pytest.param((), id="python"),
        pytest.param(("-m", "accelerate.commands.launch", "--cpu"), id="accelerate", marks=pytest.mark.slow),
    ],
)
def test_runs(text, tmp_path, launcher):
    done = run(
        *("--train_file", text, "--output_dir", tmp_path / "out", "--config_overrides", TINY),
        *("--max_steps", 4, "--per_device_train_batch_size", 2, "--validation_split_percentage", 10),
        launcher=launcher,
    )
    assert done.returncode == 0, done.stderr
    assert "step 4 of 4: held-out perplexity" in done.stdout
    assert "words/s" in done.stderr
    assert (tmp_path / "out" / "model.safetensors").exists()


@pytest.mark.slow
def test_two_processes_train_one_model(tmp_path):
    """The equality of one and two processes is for later; here both must read their own shard and agree at the end."""
    for index in range(2):
        (tmp_path / f"{index}.txt").write_text("the cat sat on the mat .\na dog ran to the park .\n" * 30)
    done = run(
        *("--train_file", tmp_path / "*.txt", "--output_dir", tmp_path / "out", "--config_overrides", TINY),
        *("--max_steps", 4, "--per_device_train_batch_size", 2, "--validation_file", tmp_path / "0.txt"),
        launcher=("-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", "29611"),
    )
    assert done.returncode == 0, done.stderr
    assert sum(line.startswith("step 4 of 4") for line in done.stdout.splitlines()) == 1
    assert (tmp_path / "out" / "model.safetensors").exists()


def test_a_users_mistake_is_one_line_and_exit_code_2(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--train_file", str(tmp_path / "none*.txt"), "--output_dir", str(tmp_path / "out")])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("error: --train_file") and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_perplexity_on_real_text_falls_below_the_unigram(tmp_path):
    folder = shared_data("movie_reviews")
    counts = Counter((folder / "heldout.txt").read_text(encoding="utf-8").split())
    words = WordVocabulary.from_counts(counts, min_count=5).save(tmp_path)
    done = run(
        *("--train_file", folder / "train-0*.txt", "--validation_file", folder / "heldout.txt"),
        *("--output_dir", tmp_path / "out", "--max_steps", 150, "--learning_rate", 5e-3, "--vocab_file", words),
        *("--config_overrides", '{"projection_size": 32, "cell_size": 64, "filters": [[1, 16], [2, 32], [3, 32]]}'),
    )
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["perplexity"]["mean"] < results["baselines"]["unigram"]
