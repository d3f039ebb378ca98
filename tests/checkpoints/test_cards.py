"""Cards hold what facts and results hold and no other figure, and the committed ones are rendered from their files."""

import json
import re

import pytest
import yaml
from conftest import ROOT, make_tiny_config
from huggingface_hub import ModelCard
from refusals import assert_refused

from hf_elmo import ElmoCharTokenizer
from hf_elmo.checkpoints.cards import (
    find_recipes,
    render_recipe,
    write_card,
    write_recipe,
)
from hf_elmo.checkpoints.facts import read_facts
from hf_elmo.checkpoints.plots import fingerprint
from hf_elmo.checkpoints.pretraining_card import render_model_card
from hf_elmo.model.tokenization_elmo import PRE_TOKENIZERS

RECIPES = [path.name for path in find_recipes(ROOT / "model_cards")]

FIELDS = {"num_hidden_layers": 2, "cell_size": 16, "projection_size": 8, "filters": [[1, 4], [2, 8]]}
# As runs were written before they knew of recipes, cold states and bits per character.
OLD_RESULTS = {
    "perplexity": {"forward": 51.25, "backward": 49.75, "mean": 50.5, "num_targets": 1456},
    "baselines": {
        "unigram": 700.0,
        "bigram_forward": 201.0,
        "bigram_backward": 203.0,
        "bigram": 202.0,
        "unknown_rate": 0.034,
    },
    "evaluations": [{"forward": 999.0, "backward": 1001.0, "mean": 1000.0}],
    "training_text": {"words": 12345, "sentences": 678},
    "vocabulary_size": 4321,
    "parameters": 98765,
    "words_trained": 24690,
    "seconds": 12.3,
    "words_per_second": 2007.3,
    "command": "python scripts/run_pretraining.py --train_file text.txt",
    "date": "2026-01-02",
    "commit": "abc123",
    "versions": {"torch": "2.13.0", "transformers": "5.23.0"},
    "machine": {"accelerator": None, "processor": "a processor", "threads": 2},
}
RESULTS = {
    **OLD_RESULTS,
    "perplexity": {**OLD_RESULTS["perplexity"], "bits_per_character": 1.23456},
    "perplexity_cold": {
        "forward": 61.25,
        "backward": 59.75,
        "mean": 60.5,
        "bits_per_character": 1.34567,
        "num_targets": 1456,
    },
    "recipe": "paper",
    "objective": "sampled",
    "settings": {"optim": "adagrad", "learning_rate": 0.2, "loss_scale": 20.0, "group_learning_rates": None},
    "resumed_from_steps": [1750, 3500],
    "num_processes": 4,
    "history": [{"step": 5250, "words": 24690, "loss": 2.5, "sampled_loss": 2.47, "full_loss": 3.94}],
}
FACTS = {
    "name": "elmo-x",
    "description": "Perplexity {results.perplexity.mean:.2f} on {results.training_text.words:,} words of 2004.",
    "language": ["en", "de"],
    "license": "cc-by-4.0",
    "training_data": [
        {"name": "Letters", "source": "An archive, vol. 12", "license": "CC BY 4.0", "hub_id": "me/letters"}
    ],
    "intended_use": ["Word vectors."],
    "out_of_scope": ["Law."],
    "limits": ["Spelling in UTF-8 only."],
}


def write_folder(folder, results=RESULTS, facts=FACTS):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("config.json", FIELDS), ("results.json", results)):
        if content is not None:
            (folder / name).write_text(json.dumps(content))
    if facts is not None:
        (folder / "facts.yaml").write_text(yaml.safe_dump(facts))
    return folder


def render_facts(folder, **changes):
    """The card of a folder whose facts are changed; None takes a key away."""
    facts = {key: value for key, value in {**FACTS, **changes}.items() if value is not None}
    return render_recipe(write_folder(folder, facts=facts))


def test_every_figure_is_in_the_card():
    card = render_model_card("elmo-x", FIELDS, RESULTS)
    for figure in ("51.2", "49.8", "50.5", "1.235", "61.2", "59.8", "60.5", "1.346", "700.0", "202.0", "1,000.0"):
        assert f"| {figure} " in card, figure
    for figure in ("12,345", "98,765", "24,690", "3.4%", "1,456", "abc123", "adagrad", "1,750, 3,500", "2.47", "3.94"):
        assert figure in card, figure
    assert "recipe | paper" in card and "4 processes" in card and "None" not in card
    assert "the full softmax (trained by the sampled one)" in card
    assert RESULTS["command"] in card


def test_the_fraction_of_the_bigrams_perplexity_comes_first():
    card = render_model_card("elmo-x", FIELDS, RESULTS)
    section = card.partition("## Held-out perplexity\n\n")[2]
    # 50.5 of 202.
    assert section.startswith("**0.25 of the bigram's perplexity**: 50.5 with") and "202.0" in section.splitlines()[0]
    alone = render_model_card("elmo-x", FIELDS, {**RESULTS, "baselines": None})
    assert "of the bigram's perplexity" not in alone and "| state carried | 51.2 |" in alone


def figures_in(text):
    return re.findall(r"[\d.,]*\d", text)


def change_figures(value):
    """The same structure with every number another one of as many digits."""
    if isinstance(value, dict):
        return {key: change_figures(item) for key, item in value.items()}
    if isinstance(value, list):
        return [change_figures(item) for item in value]
    if isinstance(value, str):
        return value.translate(str.maketrans("0123456789", "5678901234"))
    if isinstance(value, (int, float)):
        return type(value)(f"{value:.6g}".translate(str.maketrans("123456789", "678912345")))
    return value


def test_no_figure_of_a_card_is_its_own():
    """Where all figures of the results change, all of the card do, but for the year of the paper."""
    one, other = (
        render_model_card("elmo", fields, results)
        for fields, results in ((FIELDS, RESULTS), (change_figures(FIELDS), change_figures(RESULTS)))
    )
    pairs = list(zip(figures_in(one), figures_in(other), strict=True))
    assert len(pairs) > 50
    assert [figure for figure, changed in pairs if figure == changed] == ["2018"]


def test_results_of_earlier_runs_still_render():
    card = render_model_card("elmo-x", FIELDS, OLD_RESULTS)
    assert "| state carried | 51.2 | 49.8 | 50.5 |" in card
    for text in ("bits per character |", "sentence alone", "resumed", "objective", "cold", "sampled"):
        assert text not in card


def test_without_baselines_there_are_no_rows_for_them():
    card = render_model_card("elmo-x", FIELDS, {**RESULTS, "baselines": None})
    assert "baseline" not in card and "bigram" not in card


def test_a_run_that_was_not_evaluated_before_has_no_row_for_it():
    later = [{**OLD_RESULTS["evaluations"][0], "step": 500}]
    assert "before training" not in render_model_card("elmo-x", FIELDS, {**RESULTS, "evaluations": later})


def test_the_step_that_was_kept_is_named():
    evaluations = [{**OLD_RESULTS["evaluations"][0], "step": step} for step in (0, 4000, 5250)]
    kept = {**RESULTS, "evaluations": evaluations, "best_step": 4000}
    card = render_model_card("elmo-x", FIELDS, {**kept, "kept_step": 4000})
    assert "step 4,000, the best" in card and "5,250, perplexity was 1,000.0" in card
    assert "step 5,250, the last" in render_model_card("elmo-x", FIELDS, {**kept, "kept_step": 5250})


def test_the_adaptive_softmax_and_resets_by_document_are_named():
    results = {**OLD_RESULTS, "objective": "adaptive", "settings": {"reset_state": "document"}}
    card = render_model_card("elmo-x", FIELDS, results)
    assert "By the adaptive softmax" in card and "back to them at each document" in card


def test_a_figure_without_results_cannot_be_rendered():
    for key in OLD_RESULTS:
        results = {name: value for name, value in OLD_RESULTS.items() if name != key}
        assert_refused(ValueError, ("elmo-x", f"'{key}'"), render_model_card, "elmo-x", FIELDS, results)


def test_a_recipe_without_results_has_no_card(tmp_path):
    for file in ("results.json", "config.json"):
        folder = write_folder(tmp_path / "elmo-x")
        (folder / file).unlink()
        assert_refused(FileNotFoundError, ("elmo-x", file), render_recipe, folder)


def test_the_hub_reads_the_front_matter(tmp_path):
    data = ModelCard(render_facts(tmp_path / "elmo-x")).data
    assert (data.library_name, data.pipeline_tag, data.license) == ("transformers", "feature-extraction", "cc-by-4.0")
    assert (data.language, data.datasets, data.model_name) == (["en", "de"], ["me/letters"], "elmo-x")
    assert "elmo" in data.tags
    measured = {result.metric_name: (result.metric_type, result.metric_value) for result in data.eval_results}
    assert measured["perplexity, forward, carried state"] == ("perplexity", 51.2)
    assert measured["perplexity, mean, cold state"] == ("perplexity", 60.5)
    assert measured["bits per character, cold state"] == ("bits_per_character", 1.346)
    assert len(measured) == 8 and data.eval_results[0].dataset_name == "held-out part of Letters"


def test_a_card_without_facts_claims_neither_licence_nor_language():
    card = render_model_card("elmo-x", FIELDS, RESULTS)
    data = ModelCard(card).data
    assert (data.license, data.language, data.datasets) == (None, None, None)
    assert len(data.eval_results) == 8 and "nobody has added yet" in card
    assert "## Limits" in card and "## Intended use" in card and "## Out of scope" not in card


def test_facts_are_in_the_card(tmp_path):
    data = [{**FACTS["training_data"][0], "preparation": "Cut at {config.cell_size} words", "citation": "Doe, 12:3."}]
    card = render_facts(tmp_path / "elmo-x", training_data=data, contact="the author", citation="Roe, Letters, p. 7")
    assert "Perplexity 50.50 on 12,345 words of 2004." in card
    assert "- **Letters**. An archive, vol. 12. Cut at 16 words. Licence: CC BY 4.0. Doe, 12:3." in card
    for text in ("- Word vectors.", "- Law.", "- Spelling in UTF-8 only.", "Roe, Letters, p. 7", "Contact: the author"):
        assert text in card
    assert "nobody has added" not in card


def test_facts_quote_any_results_file_of_the_folder(tmp_path):
    write_folder(tmp_path / "elmo-x")
    (tmp_path / "elmo-x" / "task-a.json").write_text('{"scores": [{"f1": 0.25}, {"f1": 0.5}], "text": "WNUT"}')
    card = render_facts(tmp_path / "elmo-x", limits=["F1 {task-a.scores.1.f1:.1%} on {task-a.text}, {{so}} far."])
    assert "- F1 50.0% on WNUT, {so} far." in card


# A sentence, and what of it is told: the place that holds no figure, or the figure that no file backs.
UNBACKED = [
    ("{results.perplexity_warm.mean:.1f}", "results.perplexity_warm.mean"),
    ("{results.perplexity.median}", "'median'"),
    ("{results.perplexity.mean.x}", "'x'"),
    ("{results.history.9.loss}", "results.history.9.loss"),
    ("{results.perplexity}", "results.perplexity"),
    ("{results.settings.group_learning_rates}", "results.settings.group_learning_rates"),
    ("{benchmark.speed}", "benchmark.json"),
    ("{}", ".json"),
    ("{results.perplexity.mean!r}", "!r"),
    ("{results.command:.1f}", "format code"),
    ("{results.perplexity.mean", "'}'"),
    ("Perplexity 50.5 at last.", "'50.5'"),
    ("About 12,345 words.", "'12,345'"),
    ("perplexity=51", "'51'"),
    ("(~3 %)", "'3'"),
    ("5k words", "'5k'"),
    ("-7 degrees", "'7'"),
    ("words of 12004", "'12004'"),
    # As wide as no memory is.
    ("{results.perplexity.mean:999999999999.1f}", "results.perplexity.mean"),
    ("x" * 100_000 + " 5", "'5'"),
    ("5" * 100_000, "'555"),
    ("{" + "x" * 100_000 + "}", "'{xxx"),
]


def test_a_fact_without_figures_behind_it_cannot_be_rendered(tmp_path):
    folder = tmp_path / "elmo-x"
    for sentence, named in UNBACKED:
        for key, value in (("description", sentence), ("limits", ["Fine.", sentence])):
            message = assert_refused(ValueError, named, render_facts, folder, **{key: value})
            assert message.startswith(f"{folder / 'facts.yaml'}, {key}: ")
            assert len(message) < 1000


def test_years_and_names_may_stand_in_facts(tmp_path):
    sentence = "In 2004, from 1990-1999 (the 1990s), UTF-8, word2vec, v2.0 and CPython."
    assert sentence in render_facts(tmp_path / "elmo-x", limits=[sentence])


WRONG_FACTS = [
    ({"perplexity": 50.5}, ("'perplexity'", "results.json")),
    ({"licence": "mit"}, ("'licence'", "'license'")),
    ({"license": None, "limits": []}, ("license", "limits")),
    ({"language": "en"}, "'language'"),
    ({"language": [False]}, "'language'"),
    ({"limits": "One."}, "'limits'"),
    ({"limits": [{"one": 1}]}, "'limits'"),
    ({"name": 3}, "'name'"),
    ({"training_data": {"name": "Letters"}}, "'training_data'"),
    ({"training_data": ["Letters"]}, ("training_data", "'Letters'")),
    ({"training_data": [{"name": "Letters"}]}, ("training_data", "source, license")),
    ({"training_data": [{**FACTS["training_data"][0], "url": "x"}]}, ("training_data", "'url'")),
]


def test_facts_are_checked(tmp_path):
    for changes, named in WRONG_FACTS:
        message = assert_refused(ValueError, named, render_facts, tmp_path / "elmo-x", **changes)
        assert message.startswith(str(tmp_path / "elmo-x" / "facts.yaml"))


def test_a_file_that_holds_no_facts_is_refused(tmp_path):
    # Each of ten lists holds the one before ten times.
    laughs = ", ".join(["&a0 [x]", *(f"&a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 11))])
    for text in (
        *(
            b"name: [",
            b"",
            b"caf\xe9: 1",
            b"name: 2001-99-99",
            b"name: " + b"9" * 5000,
            b"[" * 1500,
            b"x: " + b"y" * 2**20,
        ),
        *(b"name: &n [*n]", b"&n [*n]", b"training_data: &n [*n]", b"description: &n {x: *n}", b"x" * 5000 + b": 1"),
        *(f"name: [{laughs}]".encode(), f"description: [{laughs}]".encode(), f"[{laughs}]".encode()),
        b"!!python/object/apply:os.getcwd []",
    ):
        (tmp_path / "facts.yaml").write_bytes(text)
        message = assert_refused(ValueError, "facts.yaml", read_facts, tmp_path / "facts.yaml", {})
        assert len(message) < 500 and "\n" not in message


def test_figures_of_another_form_are_refused_by_the_name_of_the_card(tmp_path):
    for results in (
        {**RESULTS, "perplexity": 3},
        {**RESULTS, "perplexity": {**RESULTS["perplexity"], "forward": "low"}},
        {**RESULTS, "evaluations": {}, "kept_step": 3},
        {**RESULTS, "training_text": None},
        {**RESULTS, "task": ["sentiment"], "machine": []},
        {**RESULTS, "objective": "x" * 5000},
        [RESULTS],
    ):
        message = assert_refused(ValueError, "elmo-x", render_recipe, write_folder(tmp_path / "elmo-x", results))
        assert len(message) < 1000 and "\n" not in message


def test_a_checkpoint_gets_its_card_with_the_facts_and_the_plot_beside_it(tmp_path):
    make_tiny_config().save_pretrained(tmp_path)
    (tmp_path / "results.json").write_text(json.dumps(RESULTS))
    write_card(tmp_path)
    unnamed = (tmp_path / "README.md").read_text()
    assert unnamed.count(f'from_pretrained("{tmp_path.name}")') == 2 and "run.png" not in unnamed
    write_folder(tmp_path, results=None)
    (tmp_path / "run.png").touch()
    write_card(tmp_path, "me/elmo-x")
    card = (tmp_path / "README.md").read_text()
    assert card.count('from_pretrained("me/elmo-x")') == 2 and "\n# elmo-x\n" in card
    assert "(run.png)" in card and "Perplexity 50.50" in card


def test_recipe_folder(tmp_path):
    checkpoint = write_folder(tmp_path / "checkpoint", facts=None)
    recipe = tmp_path / "cards" / "elmo-x"
    write_recipe(checkpoint, recipe, "elmo-x")
    assert sorted(path.name for path in recipe.iterdir()) == ["README.md", "config.json", "results.json"]
    assert (recipe / "README.md").read_text() == render_model_card("elmo-x", FIELDS, RESULTS)


def test_a_recipe_keeps_its_facts_and_no_plot_of_another_run(tmp_path):
    checkpoint = write_folder(tmp_path / "checkpoint", facts={**FACTS, "limits": ["Of the checkpoint."]})
    recipe = tmp_path / "elmo-x"
    write_recipe(checkpoint, recipe, "elmo-x")
    assert "Of the checkpoint." in (recipe / "README.md").read_text()
    write_folder(recipe, results=None)
    (recipe / "run.png").write_bytes(b"of an earlier run")
    write_recipe(checkpoint, recipe, "elmo-x")
    card = (recipe / "README.md").read_text()
    assert "Of the checkpoint." not in card and "- Spelling" in card and "run.png" not in card
    assert not (recipe / "run.png").exists()
    (checkpoint / "run.png").write_bytes(b"of this run")
    write_recipe(checkpoint, recipe, "elmo-x")
    assert (recipe / "run.png").read_bytes() == b"of this run" and "run.png" in (recipe / "README.md").read_text()


def test_a_recipe_is_left_alone_where_the_checkpoint_has_no_results(tmp_path):
    recipe = write_folder(tmp_path / "elmo-x")
    write_card(recipe)
    (recipe / "run.png").touch()
    before = {path: path.read_bytes() for path in recipe.iterdir()}
    with pytest.raises(FileNotFoundError, match=r"checkpoint.*results\.json"):
        write_recipe(write_folder(tmp_path / "checkpoint", results=None), recipe, "elmo-x")
    assert {path: path.read_bytes() for path in recipe.iterdir()} == before


def test_facts_that_cannot_be_rendered_leave_the_recipe_as_it_was(tmp_path):
    recipe = write_folder(tmp_path / "recipe")
    write_card(recipe)
    (recipe / "run.png").touch()
    (recipe / "facts.yaml").write_text("nonsense: 3\n")
    before = {path.name: path.read_bytes() for path in recipe.iterdir()}
    with pytest.raises(ValueError, match="nonsense"):
        write_recipe(write_folder(tmp_path / "checkpoint"), recipe, "elmo-x")
    assert {path.name: path.read_bytes() for path in recipe.iterdir()} == before
    with pytest.raises(ValueError, match=re.escape(str(recipe))):
        write_recipe(recipe, recipe, "elmo-x")
    assert {path.name: path.read_bytes() for path in recipe.iterdir()} == before


def test_recipes_are_found_by_their_files(tmp_path):
    for name in ("b", "a"):
        write_folder(tmp_path / name, facts=None)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "facts.yaml").touch()
    (tmp_path / "benchmark").mkdir()
    assert [path.name for path in find_recipes(tmp_path)] == ["a", "b", "c"]
    with pytest.raises(FileNotFoundError, match=r"results\.json"):
        find_recipes(tmp_path / "a")


@pytest.mark.parametrize("name", RECIPES)
def test_committed_cards_are_rendered_from_their_files(name):
    folder = ROOT / "model_cards" / name
    assert (folder / "README.md").read_text(encoding="utf-8") == render_recipe(folder, name)


@pytest.mark.parametrize("name", RECIPES)
def test_committed_recipes_are_whole_and_their_plots_are_of_their_results(name):
    folder = ROOT / "model_cards" / name
    facts = yaml.safe_load((folder / "facts.yaml").read_text(encoding="utf-8"))
    assert facts["name"] == name
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    assert fingerprint(results).encode("ascii") in (folder / "run.png").read_bytes(), (
        "the plot is of other results: run hf-elmo card"
    )


@pytest.mark.parametrize("name", RECIPES)
def test_committed_results_hold_no_machine_paths(name):
    results = json.loads((ROOT / "model_cards" / name / "results.json").read_text(encoding="utf-8"))
    assert not any(word.startswith(("/", "'/")) for word in results["command"].split())


@pytest.mark.parametrize("pre_tokenizer", PRE_TOKENIZERS)
def test_a_card_says_how_text_must_be_cut(tmp_path, pre_tokenizer):
    write_folder(tmp_path)
    cards = []
    for settings in (
        {},
        {"do_lower_case": True},
        {"normalization": "NFC"},
        {"drop_invisible": True},
        {"ascii_marks": True},
    ):
        ElmoCharTokenizer(pre_tokenizer=pre_tokenizer, **settings).save_pretrained(tmp_path)
        cards.append(render_recipe(tmp_path, "elmo-x"))
    assert len(set(cards)) == 5
    assert all(("Raw text can be given" in card) == (pre_tokenizer != "whitespace") for card in cards)
    assert not any("rule" in card for card in cards), "a pre-tokenizer that the cards do not know"
