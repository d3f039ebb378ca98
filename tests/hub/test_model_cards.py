"""The checkpoints of model_cards/: their cards are rendered from their files, and they load as they would be sent."""

import json
import re
import shutil

import fresh_process
import pytest
import torch
import yaml
from accelerate import Accelerator
from conftest import ROOT, shared_data
from safetensors.torch import load_file

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining
from hf_elmo.hub.cards import render_card
from hf_elmo.hub.sharing import files_to_send
from hf_elmo.pretraining.evaluation import measure_perplexity
from hf_elmo.pretraining.objective import LaneObjective
from hf_elmo.text.corpora import corpus_from_files
from hf_elmo.text.vocabulary import WordVocabulary

MODEL_CARDS = sorted(path.parent for path in (ROOT / "model_cards").glob("*/facts.yaml"))
BASE = ROOT / "model_cards" / "elmo-base"
NOVELS = ROOT / "model_cards" / "elmo-small-novels"
REVIEWS = ROOT / "model_cards" / "elmo-small-nsmc"
KOREAN = ROOT / "model_cards" / "elmo-base-ko"
# Of each checkpoint with weights the bytes it may have.
CHECKPOINTS = [
    pytest.param(folder, most, id=folder.name)
    for folder, most in ((BASE, 90e6), (NOVELS, 45e6), (REVIEWS, 26e6), (KOREAN, 46e6))
]
LOAD = f"""{fresh_process.WITHOUT_OUR_PACKAGE}
import sys, torch
from transformers import AutoModel, AutoTokenizer
tokenizer, model = (kind.from_pretrained(sys.argv[1], trust_remote_code=True) for kind in (AutoTokenizer, AutoModel))
batch = tokenizer(sys.argv[2], return_tensors="pt")
with torch.no_grad():
    vectors = model(**batch).last_hidden_state
print(model.dtype, *vectors.shape, *batch.tokens())
"""


@pytest.mark.parametrize("folder", MODEL_CARDS, ids=lambda folder: folder.name)
def test_a_card_is_rendered_from_its_files(folder):
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert card == render_card(folder), "run scripts/render_cards.py"
    assert "(run.png)" in card and (folder / "run.png").is_file()


@pytest.mark.parametrize("folder", MODEL_CARDS, ids=lambda folder: folder.name)
def test_the_facts_quote_their_figures(folder):
    """Prose holds no number of its own: a figure that a results file has is quoted, a small number is a word."""
    quoted = re.sub(r"\{\{.*?\}\}", "", (folder / "facts.yaml").read_text(encoding="utf-8"))
    facts = yaml.safe_load(quoted)
    texts = [facts["description"], *(text.get("preparation", "") for text in facts["training_data"])]
    for sentence in [*texts, *facts["intended_use"], *facts["out_of_scope"], *facts["limits"]]:
        # Years, and names that begin with a letter, may stand.
        prose = re.sub(r"\b[A-Za-z][\w.-]*|\b(19|20)\d\d\b", "", sentence)
        assert not re.search(r"\d", prose), sentence
    assert facts["name"] == folder.name


@pytest.mark.parametrize(("folder", "max_bytes"), CHECKPOINTS)
def test_a_checkpoint_is_whole_rounded_and_small(folder, max_bytes):
    assert sum(path.stat().st_size for path in files_to_send(folder)) <= max_bytes
    assert not list(folder.glob("*.py")), "the code that travels with a checkpoint stands in hf_elmo/model alone"
    assert {weight.dtype for weight in load_file(folder / "model.safetensors").values()} == {torch.float16}


def test_what_is_sent_of_a_checkpoint_loads_without_the_package(tmp_path):
    (tmp_path / "sent").mkdir()
    for path in files_to_send(REVIEWS):
        shutil.copy(path, tmp_path / "sent")
    environment = {"HF_MODULES_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1", "PYTHONIOENCODING": "utf-8"}
    words = ["-c", LOAD, str(tmp_path / "sent"), "이 영화 정말 재밌어요!"]
    run = fresh_process.run(words, env=environment, cwd=tmp_path, template=fresh_process.LIBRARIES)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == "torch.float32 1 7 384 <S> 이 영화 정말 재밌어요 ! </S>".split()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "text", "changes"),
    [
        (BASE, "base_en/heldout.txt.xz", {}),
        (NOVELS, "novels/heldout.txt.gz", {"pre_tokenizer": "whitespace", "ascii_marks": False}),
        (REVIEWS, "nsmc/heldout.txt.gz", {"pre_tokenizer": "punctuation"}),
        (KOREAN, "base_ko/heldout.txt.xz", {}),
    ],
    ids=[BASE.name, NOVELS.name, REVIEWS.name, KOREAN.name],
)
def test_a_checkpoint_has_the_perplexity_of_the_unrounded_weights(folder, text, changes):
    """To a thousandth of what the run measured before its weights were rounded."""
    results, file = json.loads((folder / "results.json").read_text(encoding="utf-8")), shared_data(text)
    model = ElmoForPreTraining.from_pretrained(folder)
    reset_state = results["settings"]["reset_state"]
    for zero_state, key in ((False, "perplexity"), (True, "perplexity_cold")):
        measured = measure_perplexity(
            LaneObjective(model),
            ElmoCharTokenizer.from_pretrained(folder, **changes),
            WordVocabulary.load(folder),
            corpus_from_files([str(file)], by_document=reset_state == "document"),
            Accelerator(),
            reset_state=reset_state,
            zero_state=zero_state,
        )
        assert measured.mean == pytest.approx(results[key]["mean"], rel=1e-3)
