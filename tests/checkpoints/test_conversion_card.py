"""The card of a converted checkpoint says which files it was made from, so that others can tell theirs from them."""

import hashlib
import json

import pytest
from conftest import make_tiny_config
from huggingface_hub import ModelCard

from hf_elmo import ElmoCharTokenizer, ElmoModel
from hf_elmo.checkpoints import sharing
from hf_elmo.checkpoints.cards import write_card, write_conversion_card
from hf_elmo.checkpoints.sharing import check_checkpoint
from hf_elmo.commands.command_line import main


@pytest.fixture
def folder(tmp_path):
    ElmoModel(make_tiny_config()).save_pretrained(tmp_path / "elmo-x")
    ElmoCharTokenizer(do_lower_case=True).save_pretrained(tmp_path / "elmo-x")
    (tmp_path / "weights.hdf5").write_bytes(b"weights" * 300_000)
    return tmp_path / "elmo-x"


def test_files_and_options_are_in_the_card_and_in_a_file(folder):
    weights = folder.parent / "weights.hdf5"
    write_conversion_card(folder, "bilm-tf", {"weight_file": weights}, {"lstm": {"dim": 4096}})
    card = (folder / "README.md").read_text()
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    assert f"| weight_file | `weights.hdf5` | 2,100,000 | `{digest}` |" in card
    assert '"dim": 4096' in card and "bilm-tf" in card and 'from_pretrained("elmo-x")' in card
    assert str(folder.parent) not in card.partition("## How it was made")[0]
    assert "cut at white space" in card and "lower-cased by the tokenizer" in card
    assert not ModelCard(card).data.eval_results
    conversion = json.loads((folder / "conversion.json").read_text())
    assert conversion["files"]["weight_file"] == {"name": "weights.hdf5", "bytes": 2_100_000, "sha256": digest}
    # The same card comes from the files alone, under another name too.
    write_card(folder)
    assert (folder / "README.md").read_text() == card
    write_card(folder, "me/elmo-x")
    assert (folder / "README.md").read_text() == card.replace("elmo-x", "me/elmo-x")


def test_a_converted_model_can_be_shared(folder):
    write_conversion_card(folder, "bilm-tf", {"weight_file": folder.parent / "weights.hdf5"})
    names = {path.name for path in check_checkpoint(folder)}
    assert {"README.md", "conversion.json", "config.json", "model.safetensors", "tokenizer_config.json"} <= names
    card = (folder / "README.md").read_text()
    sent = sharing._content(folder / "README.md", "me/elmo-x")
    assert sent == card.replace("elmo-x", "me/elmo-x").encode("utf-8")
    (folder / "conversion.json").unlink()
    with pytest.raises(ValueError, match=r"results\.json"):
        check_checkpoint(folder)


def test_its_card_can_be_kept_without_the_weights(folder):
    write_conversion_card(folder, "bilm-tf", {"weight_file": folder.parent / "weights.hdf5"})
    main(["card", "--model_name_or_path", str(folder), "--name", "kept", "--model_cards", str(folder.parent / "cards")])
    kept = folder.parent / "cards" / "kept"
    assert {path.name for path in kept.iterdir()} == {
        *("README.md", "config.json", "conversion.json", "tokenizer_config.json")
    }
    assert (kept / "README.md").read_text() == (folder / "README.md").read_text().replace("elmo-x", "kept")
