"""Cards hold what their files hold and no other figure, whichever kind of checkpoint they are of."""

import dataclasses
import json

import pytest
import yaml
from conftest import ROOT
from huggingface_hub import ModelCard
from refusals import assert_refused

from hf_elmo import ElmoCharTokenizer
from hf_elmo.hub.cards import TaskCard, describe_cutting, render_card
from hf_elmo.model.tokenization_elmo import PRE_TOKENIZERS

# A run whose own card is a golden value of test_model_cards.
RUN = ROOT / "model_cards" / "elmo-small-nsmc"
RESULTS, CONFIG = (json.loads((RUN / f"{name}.json").read_text(encoding="utf-8")) for name in ("results", "config"))
ORIGIN = {name: RESULTS[name] for name in ("command", "date", "commit", "versions", "machine")}
FACTS = {
    "name": "elmo-x",
    "description": 'Perplexity {{ results.perplexity.mean | number(".2f") }}, {{ results.words_trained | number }}.',
    "language": ["en", "de"],
    "license": "cc-by-4.0",
    "training_data": [
        {"name": "Letters", "source": "An archive, vol. 12", "license": "CC BY 4.0", "hub_id": "me/letters"}
    ],
    "intended_use": ["Word vectors."],
    "out_of_scope": ["Law."],
    "limits": ["Spelling in UTF-8 only."],
}


def write_folder(folder, results=RESULTS, facts=None):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "results.json").write_text(json.dumps(results))
    if facts is not None:
        (folder / "facts.yaml").write_text(yaml.safe_dump(facts))
    return folder


def render(tmp_path, results=RESULTS, facts=None, **changes):
    """The card of a folder whose facts are changed; None takes a key away."""
    if facts is not None:
        facts = {key: value for key, value in {**facts, **changes}.items() if value is not None}
    return render_card(write_folder(tmp_path / "elmo-x", results, facts))


@pytest.mark.parametrize(
    ("changes", "there", "gone"),
    [
        ({"perplexity_cold": None}, "| state carried |", "each sentence alone, state"),
        ({"baselines": None}, " in each direction", "bigram"),
        ({"perplexity": {**RESULTS["perplexity"], "bits_per_character": None}}, "| 93.1 |\n", "one behind each"),
        ({"objective": "full", "history": []}, "By the full softmax over", "sampled loss"),
        ({"objective": "adaptive"}, "the adaptive softmax that was trained", "full softmax over"),
        ({"kept_step": 0}, "step 0, the best on the held-out text; after the last, 4,189, perplexity", "last |"),
        ({"caveats": ["Of little text."]}, "> **Beware:** Of little text.\n", "None"),
        ({"settings": {"reset_state": "document"}}, "zeros, and back to them at each document.", "None"),
        ({"resumed_from_steps": [1750, 3500]}, "| stopped, and resumed at step | 1,750, 3,500 |", "None"),
    ],
)
def test_what_was_not_measured_is_not_said(tmp_path, changes, there, gone):
    card = render(tmp_path, {**RESULTS, **changes})
    assert there in card and gone not in card and "\n\n\n" not in card


def test_the_hub_reads_the_head_of_the_card(tmp_path):
    data = ModelCard(render(tmp_path, facts=FACTS)).data
    assert (data.library_name, data.pipeline_tag, data.license) == ("transformers", "feature-extraction", "cc-by-4.0")
    assert (data.language, data.datasets, data.model_name) == (["en", "de"], ["me/letters"], "elmo-x")
    assert "elmo" in data.tags
    measured = {result.metric_name: (result.metric_type, result.metric_value) for result in data.eval_results}
    for key, state in (("perplexity", "carried"), ("perplexity_cold", "cold")):
        assert measured[f"perplexity, mean, {state} state"] == ("perplexity", round(RESULTS[key]["mean"], 1))
        bits = ("bits_per_character", round(RESULTS[key]["bits_per_character"], 3))
        assert measured[f"bits per character, {state} state"] == bits
    assert len(measured) == 8 and data.eval_results[0].dataset_name == "held-out part of Letters"
    (tmp_path / "elmo-x" / "facts.yaml").unlink()
    card = render(tmp_path)
    data = ModelCard(card).data
    assert (data.license, data.language, data.datasets) == (None, None, None) and len(data.eval_results) == 8
    assert "nobody has added yet" in card and "## Intended use" in card and "## Out of scope" not in card


def test_facts_are_in_the_card(tmp_path):
    data = [
        {**FACTS["training_data"][0], "preparation": "{{ task_a.scores[1].words }} words", "citation": "Doe, 12:3."}
    ]
    write_folder(tmp_path / "elmo-x")
    (tmp_path / "elmo-x" / "task-a.json").write_text('{"scores": [{}, {"words": 16}]}')
    more = {"benchmarks": "| pairs | {{ task_a.scores[1].words }} |", "contact": "the author"}
    card = render(tmp_path, facts=FACTS, training_data=data, citation="Roe, Letters, p. 7", **more)
    assert "## On other texts and benchmarks\n\n| pairs | 16 |\n\n#" in card
    assert f"Perplexity {RESULTS['perplexity']['mean']:.2f}, {RESULTS['words_trained']:,}." in card
    assert "- **Letters**. An archive, vol. 12. 16 words. License: CC BY 4.0. Doe, 12:3." in card
    assert card.endswith("## Citation and contact\n\nRoe, Letters, p. 7\n\nContact: the author\n")
    for text in ("- Word vectors.", "- Law.", "- Spelling in UTF-8 only.", "License of the weights: cc-by-4.0."):
        assert text in card
    assert "nobody has added" not in card and "\n\n\n" not in card


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"limits": ["{{ results.perplexity_warm.mean }}"]}, "perplexity_warm"),
        ({"limits": ["{{ benchmark.speed }}"]}, "benchmark"),
        ({"limits": ['{{ results.command | number(".1f") }}']}, "format"),
        ({"limits": ['{{ results.perplexity.mean | number("999999999999.1f") }}']}, "99999"),
        # What a stranger's sentence could reach from Python.
        ({"limits": ["{{ results.__class__.__mro__[1].__subclasses__() }}"]}, "__class__"),
        ({"license": None}, "license"),
        ({"training_data": [{"name": "Letters"}]}, "source"),
    ],
)
def test_facts_that_cannot_be_rendered_are_refused(tmp_path, changes, named):
    message = assert_refused(ValueError, ("elmo-x", named), render, tmp_path, facts=FACTS, **changes)
    assert len(message) < 1000 and "\n" not in message


def test_a_file_that_holds_no_facts_is_refused(tmp_path):
    folder = write_folder(tmp_path / "elmo-x")
    # Each of five lists holds the one before ten times.
    laughs = ", ".join(["&a0 [x]", *(f"&a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 6))])
    others = yaml.safe_dump({**FACTS, "limits": None})
    for text in (
        *(b"name: [", b"", b"caf\xe9: 1", b"x: " + b"y" * 2**20, b"name: &n [*n]"),
        *(f"{others}\nlimits: [{laughs}]".encode(), b"!!python/object/apply:os.getcwd []"),
    ):
        (folder / "facts.yaml").write_bytes(text)
        message = assert_refused(ValueError, "facts.yaml", render_card, folder)
        assert len(message) < 500 and "\n" not in message
    (folder / "facts.yaml").unlink()
    (folder / "results.json").write_text(json.dumps({**RESULTS, "training_text": None}))
    assert_refused(ValueError, "elmo-x", render_card, folder)
    (folder / "results.json").unlink()
    assert_refused(FileNotFoundError, ("elmo-x", "results.json"), render_card, folder)


@pytest.mark.parametrize("pre_tokenizer", PRE_TOKENIZERS)
def test_a_card_says_how_text_must_be_cut(tmp_path, pre_tokenizer):
    said = set()
    flags = ("do_lower_case", "drop_invisible", "ascii_marks")
    for settings in ({}, {"normalization": "NFC"}, *({name: True} for name in flags)):
        ElmoCharTokenizer(pre_tokenizer=pre_tokenizer, **settings).save_pretrained(tmp_path)
        said.add(describe_cutting(json.loads((tmp_path / "tokenizer_config.json").read_text())))
    assert len(said) == 5 and not any("\n" in sentences or "  " in sentences for sentences in said)
    assert all(("Raw text can be given" in each) == (pre_tokenizer != "whitespace") for each in said)
    assert not any("rule" in each for each in said), "a pre-tokenizer that the cards do not know"
    assert "lists of words" in describe_cutting(None)


CARD = TaskCard(
    what="A finder of names",
    tags=["names", "entities"],
    pipeline_tag=None,
    usage='```python\nfind("{name}")\n```',
    intended_use=["To find names."],
    limits=["It knows few."],
    scores=["f1", "macro_f1"],
    tables={"types": "By type", "confusion": "Confused"},
    labels=["PER", "LOC"],
    counts=["words"],
    notes={"all": ["Counted so."], "test": ["Of the test."]},
)
TASK_RESULTS = {
    **ORIGIN,
    "card": dataclasses.asdict(CARD),
    "model": "12 parameters.",
    "task": "names-of-people",
    "settings": {"learning_rate": 0.1},
    "data": {split: {"source": f"{split}.conll", "words": 1200} for split in ("train", "validation", "test")},
    "predict_f1": 0.54321,
    "predict_macro_f1": 0.25,
    "predict_types": {"PER": {"precision": 0.5, "f1": 1 / 3, "number": 1234}},
    "predict_confusion": [[5, 1, 0], [2, 3000, 0], [0, 0, 4]],
    "unseen_labels": ["ORG"],
}


def test_a_task_says_what_its_card_shows(tmp_path):
    card = render(tmp_path, TASK_RESULTS)
    for text in (
        *("A finder of names on ELMo, made with hf_elmo: 12 parameters.", 'find("elmo-x")', "- To find names."),
        *("- It knows few.", "nobody has added yet", "`PER`, `LOC`\n", "Counted so.", "Of the test."),
        "| in percent | F1 | macro F1 |\n| --- | ---: | ---: |\n| test | 54.32 | 25.00 |\n",
        "By type:\n\n| in percent | precision | F1 | number |\n",
        "| `PER` | 50.00 | 33.33 | 1,234 |",
        "| in percent | as `PER` | as `LOC` | as `ORG` |",
        "| `LOC` | 2 | 3,000 | 0 |",
        "| test data | test.conll: 1,200 words |\n| settings | learning_rate 0.1 |",
    ):
        assert text in card, text
    assert "validation data:" not in card and "## Layers" not in card and "± " not in card and "\n\n\n" not in card
    data = ModelCard(card).data
    assert data.pipeline_tag is None and data.tags == ["elmo", "names", "entities"]
    assert [(each.task_type, each.task_name, each.metric_type, each.metric_value) for each in data.eval_results] == [
        ("names", "Names of people", "f1", 0.5432),
        ("names", "Names of people", "macro_f1", 0.25),
    ]


def test_seeds_and_layers_are_in_a_tasks_card(tmp_path):
    shares = [[0.25, 0.75]]
    scores = {"predict_f1": 0.5, "predict_macro_f1": 0.4}
    seeds = {
        "mean": scores,
        "deviation": dict.fromkeys(scores, 0.0123),
        "seeds": [{"seed": seed, "layer_shares": shares} for seed in (1, 2)],
        "kept_seed": 2,
        "layer_shares": shares,
        "kept_step": 1500,
    }
    card = render(tmp_path, TASK_RESULTS | seeds)
    for text in (
        *("| test, mean of seeds | 50.00 ± 1.23 | 40.00 ± 1.23 |", "2 trainings that differ by their seed", "seed 2"),
        *("|  | token encoder | layer 1 |", "| mix 1 | 25.0% ± 0.0% | 75.0% ± 0.0% |", "step that was kept | 1,500"),
    ):
        assert text in card, text
    assert "mix 1 | 25.0% | 75.0% |" in render(tmp_path, TASK_RESULTS | {"layer_shares": shares})
