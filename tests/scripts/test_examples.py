"""The scripts that people copy run from their first line to their last, and what they write loads."""

import json
import subprocess
import sys

import demo
import pretrain
import pytest
import train
from conftest import ROOT
from transformers import AutoModelForPreTraining, AutoTokenizer, pipeline

TINY = '{"projection_size": 16, "cell_size": 32, "num_highway_layers": 1, "filters": [[1, 8], [2, 8]], "dropout": 0.0}'


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A model pre-trained by scripts/pretrain.py on two sentences, and what the script printed last."""
    folder = tmp_path_factory.mktemp("pretrain")
    (folder / "text.txt").write_text("the cat sat on the mat .\n\na dog ran to the park and back .\n" * 40)
    flags = {"--train_file": folder / "text.txt", "--validation_file": folder / "text.txt", "--batch_size": 8}
    flags |= {"--output_dir": folder / "elmo", "--config_overrides": TINY, "--max_vocab_size": 12}
    flags |= {"--learning_rate": 0.02, "--num_train_epochs": 4}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["pretrain.py", *(str(word) for flag in flags.items() for word in flag)])
        lines = []
        patch.setattr("accelerate.Accelerator.print", lambda self, line: lines.append(line))
        pretrain.main()
    return folder / "elmo", [float(line.rpartition(" ")[2]) for line in lines]


def test_the_loop_learns_a_text_by_heart_and_writes_a_checkpoint(checkpoint):
    path, perplexities = checkpoint
    assert len(perplexities) == 4 and perplexities[0] > perplexities[-1] < 2.5
    model, tokenizer = AutoModelForPreTraining.from_pretrained(path), AutoTokenizer.from_pretrained(path)
    assert model.words[:4] == ("<S>", "</S>", "<UNK>", "the") and len(model.words) == 12
    batch = tokenizer(["the cat sat on the mat ."], return_tensors="pt")
    following = model(**batch).forward_logits[0].argmax(-1)
    # "the" is before "cat" and "mat" and "park": the words behind it are certain again.
    assert [model.words[number] for number in following[2:4]] == ["sat", "on"]


def test_the_trainer_trains_a_tagger(checkpoint, tmp_path, monkeypatch, capsys):
    rows = [{"tokens": ["a", name, "Smith", "sat"], "tags": ["O", "B-PER", "I-PER", "O"]} for name in ("Bob", "Al")]
    (tmp_path / "train.json").write_text("".join(json.dumps(row) + "\n" for row in rows * 20))
    flags = {"--model_name_or_path": checkpoint[0], "--train_file": tmp_path / "train.json"}
    flags |= {"--validation_file": tmp_path / "train.json", "--output_dir": tmp_path / "out", "--learning_rate": 0.05}
    flags |= {"--num_train_epochs": 4, "--report_to": "none", "--use_cpu": True, "--freeze_bilm": False}
    flags |= {"--disable_tqdm": True, "--save_strategy": "no"}
    monkeypatch.setattr(sys, "argv", ["train.py", *(str(word) for flag in flags.items() for word in flag)])
    train.main()
    assert "eval_f1                 =        1.0" in capsys.readouterr().out
    tagger = pipeline("token-classification", model=str(tmp_path / "out"), aggregation_strategy="simple")
    assert [(found["entity_group"], found["word"]) for found in tagger("a Bob Smith sat")] == [("PER", "Bob Smith")]


def test_the_demos_text_is_prose_and_no_paragraph_is_in_both_files(tmp_path):
    paragraphs = demo.paragraphs()
    assert len({" ".join(sentences) for sentences in paragraphs}) == len(paragraphs) > 500
    assert not any("::=" in sentence or ">>>" in sentence for sentences in paragraphs for sentence in sentences)
    train_lines, held_out_lines = (path.read_text().splitlines() for path in demo.write_split(tmp_path / "text"))
    assert len(train_lines) + len(held_out_lines) == sum(map(len, paragraphs))
    assert 0.05 < len(held_out_lines) / len(train_lines) < 0.2
    assert held_out_lines[: len(paragraphs[9])] == paragraphs[9]


@pytest.mark.slow
def test_the_demo_ends_below_its_bigram_baseline(tmp_path):
    command = [sys.executable, str(ROOT / "scripts" / "demo.py"), "--output_dir", str(tmp_path / "elmo")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=540)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "elmo" / "results.json").read_text())
    assert results["perplexity"]["mean"] < results["baselines"]["bigram"]
    assert "nearest words by the static vector" in done.stdout
    assert f'ElmoEmbedder("{tmp_path / "elmo"}")' in done.stdout
