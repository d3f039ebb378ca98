"""The words of the softmax, which travel with the pre-training model."""

from types import SimpleNamespace

import pytest
import torch
import transformers.utils.hub
from conftest import make_tiny_config
from huggingface_hub import HfApi, ModelCard
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo import ElmoForPreTraining, ElmoForTokenClassification, ElmoModel
from hf_elmo.model.word_list_elmo import WORD_LIST_FILE, read_words, write_words

WORDS = ("<S>", "</S>", "<UNK>", "the", "naïve", "語", "a b", "", "\u2028", "\x85", "\x0c")


def make_model(words=WORDS) -> ElmoForPreTraining:
    model = ElmoForPreTraining(make_tiny_config(word_vocab_size=len(WORDS)))
    model.words = words
    return model


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r")), min_size=1))
def test_a_list_of_words_is_read_as_it_was_written(tmp_path_factory, words):
    assert read_words(write_words(tmp_path_factory.mktemp("words"), words)) == words


def test_words_go_from_copy_to_copy(tmp_path):
    make_model().save_pretrained(tmp_path / "first")
    first = ElmoForPreTraining.from_pretrained(tmp_path / "first")
    first.save_pretrained(tmp_path / "second")
    second, _ = ElmoForPreTraining.from_pretrained(tmp_path / "second", output_loading_info=True)
    assert first.words == second.words == WORDS
    # Classes without a softmax have no use for them.
    for cls in (ElmoModel, ElmoForTokenClassification):
        cls.from_pretrained(tmp_path / "first").save_pretrained(tmp_path / cls.__name__)
        assert not (tmp_path / cls.__name__ / WORD_LIST_FILE).exists()


def test_a_checkpoint_without_words_has_none(tmp_path):
    make_model(words=None).save_pretrained(tmp_path)
    assert not (tmp_path / WORD_LIST_FILE).exists()
    assert ElmoForPreTraining.from_pretrained(tmp_path).words is None


def test_only_the_main_process_writes_them(tmp_path):
    make_model().save_pretrained(tmp_path, is_main_process=False)
    assert not (tmp_path / WORD_LIST_FILE).exists()


def test_words_of_another_softmax_are_refused(tmp_path):
    model = make_model()
    with pytest.raises(ValueError, match=r"words has 4 entries.* softmax over 11"):
        model.words = WORDS[:4]
    model.save_pretrained(tmp_path)
    write_words(tmp_path, WORDS[:4])
    with pytest.raises(ValueError, match=f"softmax over 11 words, but its {WORD_LIST_FILE} has 4"):
        ElmoForPreTraining.from_pretrained(tmp_path)
    assert ElmoForPreTraining.from_pretrained(tmp_path, ignore_mismatched_sizes=True).words is None
    (tmp_path / WORD_LIST_FILE).write_bytes(b"a\ncaf\xe9\n")
    with pytest.raises(ValueError, match=f"{WORD_LIST_FILE}.*line 2"):
        ElmoForPreTraining.from_pretrained(tmp_path)


@pytest.fixture
def uploaded(monkeypatch) -> dict[str, bytes]:
    """The files that reach the Hub."""
    files = {}

    def create_commit(self, repo_id, operations, **_):
        for operation in operations:
            with operation.as_file() as file:
                files[operation.path_in_repo] = file.read()

    monkeypatch.setattr(HfApi, "create_repo", lambda self, repo_id, **_: SimpleNamespace(repo_id=repo_id))
    monkeypatch.setattr(HfApi, "create_commit", create_commit)
    card = ModelCard("---\ntags: []\n---\n")
    monkeypatch.setattr(transformers.utils.hub, "create_and_tag_model_card", lambda *_, **__: card)
    return files


@pytest.mark.parametrize("way", ["push_to_hub", "save_pretrained", "save_pretrained over an older copy"])
def test_words_and_code_go_to_the_hub(way, uploaded, tmp_path):
    model = make_model()
    if way == "push_to_hub":
        model.push_to_hub("someone/elmo")
    else:
        if "older" in way:
            model.save_pretrained(tmp_path / "elmo")
        model.save_pretrained(tmp_path / "elmo", push_to_hub=True, repo_id="someone/elmo")
    assert uploaded[WORD_LIST_FILE].decode().split("\n")[: len(WORDS)] == list(WORDS)
    assert {"config.json", "model.safetensors", "modeling_elmo.py", "base_elmo.py"} <= set(uploaded)


def test_words_come_from_where_the_weights_come_from(tmp_path):
    make_model().save_pretrained(tmp_path / "parts" / "one")
    model = ElmoForPreTraining.from_pretrained(tmp_path / "parts", subfolder="one", dtype=torch.bfloat16)
    assert model.words == WORDS
