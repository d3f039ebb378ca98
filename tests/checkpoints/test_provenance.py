"""What is kept of a run can be run again."""

import json
import shlex

from hf_elmo.checkpoints.provenance import describe_run, write_json


def test_the_command_can_be_pasted():
    words = ["scripts/x.py", "--train_file", "a b*.txt", "--config_overrides", '{"cell_size": 3}']
    assert shlex.split(describe_run(words)["command"]) == ["python", *words]


def test_versions_and_machine_are_named():
    run = describe_run()
    assert run["versions"]["torch"] and run["versions"]["transformers"]
    assert run["machine"]["processor"] and run["machine"]["cores"] >= 1


def test_json_is_readable_and_ends_with_a_newline(tmp_path):
    write_json(tmp_path / "x.json", {"a": "é"})
    text = (tmp_path / "x.json").read_text(encoding="utf-8")
    assert text.endswith("}\n") and "é" in text and json.loads(text) == {"a": "é"}
