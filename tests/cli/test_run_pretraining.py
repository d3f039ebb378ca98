"""The command as a user runs it: in a process of its own, or in two."""

import fresh_process
import pytest

TINY = '{"projection_size": 8, "cell_size": 16, "filters": [[1, 4], [2, 4]]}'
TWO_PROCESSES = ("-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", "29611")


@pytest.mark.parametrize(
    "launcher",
    [
        pytest.param((), id="python"),
        pytest.param(("-m", "accelerate.commands.launch", "--cpu"), id="accelerate", marks=pytest.mark.slow),
        pytest.param(TWO_PROCESSES, id="torchrun", marks=pytest.mark.slow),
    ],
)
def test_runs(tmp_path, launcher):
    for index in range(2):
        lines = (f"the cat sat on mat {number} .\na dog ran {number} times .\n" for number in range(30))
        (tmp_path / f"{index}.txt").write_text("".join(lines))
    flags = ["--train_file", tmp_path / "*.txt", "--output_dir", tmp_path / "out", "--config_overrides", TINY]
    flags += ["--max_steps", 4, "--per_device_train_batch_size", 2, "--validation_split_percentage", 10]
    done = fresh_process.run([*launcher, "-m", "hf_elmo", "pretrain", *flags])
    assert done.returncode == 0, done.stderr
    assert sum(line.startswith("step 4 of 4: held-out perplexity") for line in done.stdout.splitlines()) == 1
    assert "words/s" in done.stderr
    assert (tmp_path / "out" / "model.safetensors").exists()
