"""The semantic role task: its rows, and a run from files of brackets to scores, predictions and a card."""

import json

import numpy as np
import pytest
from conftest import make_tiny_config
from html_reading import read_page
from toy_tasks import prepare

from hf_elmo import ElmoCharTokenizer, ElmoForSemanticRoleLabeling
from hf_elmo.cli.command_line import main
from hf_elmo.tasks.readers.propositions import read_propositions
from hf_elmo.tasks.semantic_roles import SemanticRoles, predicted_lines

SENTENCES = """\
Alice	-	(ARG0*)	*
told	tell	(V*)	*
Bob	-	(ARG2*)	(ARG0*)
to	-	(ARG1*	*
leave	leave	*)	(V*)

Ann	-	(ARG0*)
slept	sleep	(V*)

Well	-

"""
SMALL = ["hidden_size=8", "num_layers=2", "predicate_size=4"]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "roles.tsv"
    path.write_text(SENTENCES)
    return path


@pytest.fixture
def run(tmp_path, capsys):
    make_tiny_config().save_pretrained(tmp_path / "architecture")

    def run_command(command, *flags):
        code = 0
        try:
            main([*command.split(), *map(str, flags)])
        except SystemExit as ended:
            code = ended.code
        return code, *capsys.readouterr()

    return run_command


@pytest.mark.parametrize("finds", [False, True])
def test_rows_are_predicates_with_their_sentence(file, finds, tmp_path):
    make_tiny_config().save_pretrained(tmp_path)
    model = {"model_name_or_path": str(tmp_path), "from_scratch": True, "hidden_size": 8, "find_predicates": finds}
    task = prepare(SemanticRoles, model, {"train_file": str(file)}, {"output_dir": str(tmp_path / "out")})
    rows = task.encode("train")
    assert len(rows) == 3 + finds and np.shares_memory(rows[0]["input_ids"], rows[1]["input_ids"])
    names = dict(enumerate(task.labels))
    found = [names.get(index, index) for index in rows[0]["labels"]]
    assert found == [-100, "B-ARG0", "B-V", "B-ARG2", "B-ARG1", "I-ARG1", -100]
    assert rows[1]["predicate_mask"] == [0, 0, 0, 0, 0, 1, 0]
    if finds:
        assert rows[1]["all_predicates"] == [0, 0, 1, 0, 0, 1, 0]
        assert rows[3]["labels"] == [-100] * 3 and rows[3]["all_predicates"] == rows[3]["predicate_mask"] == [0] * 3


def test_a_run_writes_scores_predictions_and_a_labeler_that_reads_raw_text(file, run, tmp_path):
    out = tmp_path / "out"
    training = ["--learning_rate", 0.03, "--num_train_epochs", 40, "--use_cpu", "--head", *SMALL, "recurrent_dropout=0"]
    head = ["dropout=0", "find_predicates=true", "character_filters=[[3, 16]]"]
    code, shown, errors = run(
        "train semantic-roles", "--model_name_or_path", tmp_path / "architecture", "--from_scratch", *training, *head,
        "--train_file", file, "--test_file", file, "--output_dir", out,
    )  # fmt: skip
    assert code == 0, errors
    assert "3 sentences" in shown, "the biLM reads each sentence once"
    results = json.loads((out / "results.json").read_text())
    found = {"precision": 1.0, "recall": 1.0, "f1": 1.0, "number": 3}
    assert results["predict_f1"] == 1.0 and results["predict_predicates"]["predicates"] == found
    assert results["predict_roles"]["ARG0"]["number"] == 3 and "V" not in results["predict_roles"]
    assert (out / "test_predictions.conll").read_text() == SENTENCES
    card = (out / "README.md").read_text()
    assert "| `ARG0` | 100.00 | 100.00 | 100.00 | 3 |" in card and "semantic-role-labeling" in card

    code, shown, errors = run(
        "predict", "Alice told Bob to leave", "Well", "--model_name_or_path", out, "--device", "cpu"
    )
    assert code == 0, errors
    assert shown.splitlines() == [
        "Alice told Bob to leave",
        "  [ARG0 Alice] [V told] [ARG2 Bob] [ARG1 to leave]",
        "  Alice told [ARG0 Bob] to [V leave]",
        "Well",
    ]
    (tmp_path / "text.txt").write_text("Ann slept\n\nAlice told Bob to leave\n")
    predicted = tmp_path / "predicted.conll"
    code, shown, errors = run(
        "predict", "--input_file", tmp_path / "text.txt", "--output_file", predicted, "--model_name_or_path", out,
        "--device", "cpu", "--html", tmp_path / "predicted.html",
    )  # fmt: skip
    assert code == 0 and "3 sentences." in shown, errors
    root, _ = read_page((tmp_path / "predicted.html").read_text(encoding="utf-8"))
    rows = [[mark.text for mark in text.of_class("mark")] for text in root.of_class("text")]
    assert rows == [["ARG0Ann", "Vslept"], ["ARG0Alice", "Vtold", "ARG2Bob", "ARG1to leave"], ["ARG0Bob", "Vleave"]]
    again = read_propositions(predicted)
    assert [predicate.tags for sentence in again.sentences for predicate in sentence.predicates] == [
        ["B-ARG0", "B-V"],
        ["B-ARG0", "B-V", "B-ARG2", "B-ARG1", "I-ARG1"],
        ["O", "O", "B-ARG0", "O", "B-V"],
    ]

    # Scored anew from the checkpoint.
    code, shown, errors = run(
        "train semantic-roles", "--model_name_or_path", out, "--test_file", file, "--use_cpu",
        "--output_dir", tmp_path / "again",
    )  # fmt: skip
    assert code == 0, errors
    assert json.loads((tmp_path / "again" / "results.json").read_text())["predict_f1"] == 1.0


@pytest.mark.parametrize("row", [["O"] * 5, ["B-ARG0", "I-ARG0", "I-ARG0", "O", "O"], ["O", "B-V", "I-V", "O", "O"]])
def test_what_is_predicted_can_be_read_again_with_its_predicates(row, file, tmp_path):
    propositions = read_propositions(file)
    lines = predicted_lines(propositions, [row, ["O"] * 5, ["O"] * 2])
    (tmp_path / "written.conll").write_text("\n".join(lines))
    again = read_propositions(tmp_path / "written.conll")
    found = [predicate for sentence in again.sentences for predicate in sentence.predicates]
    assert [(predicate.place, predicate.tags[predicate.place]) for predicate in found] == [
        (1, "B-V"),
        (4, "B-V"),
        (1, "B-V"),
    ]
    assert [tag for place, tag in enumerate(found[0].tags) if place > 2] == row[3:]
    assert found[0].tags[0] == row[0]


def test_predicates_have_to_be_given_where_the_model_finds_none(tmp_path, run):
    config = make_tiny_config(id2label={0: "O", 1: "B-V"})
    ElmoForSemanticRoleLabeling(config).save_pretrained(tmp_path / "model")
    ElmoCharTokenizer().save_pretrained(tmp_path / "model")
    code, shown, errors = run("predict", "a b", "--model_name_or_path", tmp_path / "model", "--device", "cpu")
    assert code == 2 and "find_predicates" in errors and not shown


def test_wrong_data_is_one_line(file, run, tmp_path):
    model = ["--model_name_or_path", tmp_path / "architecture", "--from_scratch", "--output_dir", tmp_path / "out"]
    wrong = tmp_path / "wrong.tsv"
    for content, named in (
        (SENTENCES.replace("leave	*)", "leave	*"), "line 5"),
        ("Well	-\n", "no predicates"),
    ):
        wrong.write_text(content)
        code, shown, errors = run("train semantic-roles", "--train_file", wrong, *model)
        assert code == 2 and not shown and errors.count("\n") == 1 and named in errors, errors
    ElmoForSemanticRoleLabeling(make_tiny_config(id2label={0: "O", 1: "B-V"})).save_pretrained(tmp_path / "model")
    code, _, errors = run(
        "train semantic-roles", "--model_name_or_path", tmp_path / "model", "--test_file", file, "--use_cpu",
        "--output_dir", tmp_path / "out",
    )  # fmt: skip
    assert code == 0 and errors.count("\n") == 1 and "'B-ARG0'" in errors and "as missed" in errors
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["predict_roles"]["ARG0"]["number"] == 3 and results["predict_f1"] == 0
    assert results["unseen_labels"] == ["B-ARG0", "B-ARG1", "B-ARG2", "I-ARG1"]
