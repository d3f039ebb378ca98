"""A SentenceTransformer with an ELMo in it, by the real library: encoded, saved, loaded and trained."""

import numpy as np
import pytest
import torch
from conftest import make_tiny_config
from datasets import Dataset
from refusals import assert_refused
from tolerances import REORDERED_FLOAT32

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining, ElmoModel
from hf_elmo.inference.embedder import ElmoEmbedder, pool_words

library = pytest.importorskip("sentence_transformers", reason="it is the library itself that is tried")

from hf_elmo.inference.elmo_transformer import ElmoTransformer  # noqa: E402

TEXTS = ["a call returns", "", "call it !", "one value"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("checkpoint"))
    ElmoForPreTraining(make_tiny_config(word_vocab_size=9)).save_pretrained(directory)
    ElmoCharTokenizer().save_pretrained(directory)
    return directory


def build(checkpoint, pooling="mean", **settings):
    elmo = ElmoTransformer(checkpoint, **settings)
    modules = [elmo, library.sentence_transformer.modules.Pooling(elmo.get_embedding_dimension(), pooling)]
    return library.SentenceTransformer(modules=modules, device="cpu")


@pytest.mark.parametrize("layers", ["mix", "top", "average", 0])
def test_vectors_are_the_pooled_words(checkpoint, layers):
    for pooling in ("mean", "max"):
        found = build(checkpoint, pooling, layers=layers).encode(TEXTS)
        arrays = ElmoEmbedder(checkpoint, device="cpu").embed_sentences(TEXTS, layers)
        wanted = [pool_words(array, pooling) for array in arrays]
        for place in (0, 2, 3):
            np.testing.assert_allclose(found[place], wanted[place], rtol=0, atol=REORDERED_FLOAT32)
        # Of a text without words the special tokens.
        assert np.isfinite(found[1]).all() and np.abs(found[1]).max() > 0


def test_special_tokens_are_pooled_where_asked_for(checkpoint):
    found = build(checkpoint, pool_special_tokens=True).encode(TEXTS)
    wanted = ElmoEmbedder(checkpoint, device="cpu").stream(TEXTS, keep_special_tokens=True)
    np.testing.assert_allclose(found, [pool_words(array, "mean") for array in wanted], rtol=0, atol=REORDERED_FLOAT32)


def test_what_is_saved_is_loaded_and_is_a_checkpoint_too(checkpoint, tmp_path):
    model = build(checkpoint, "max", layers=1, max_seq_length=7)
    model.save(str(tmp_path / "saved"))
    assert model.max_seq_length == 7
    loaded = library.SentenceTransformer(str(tmp_path / "saved"), device="cpu", trust_remote_code=True)
    assert isinstance(loaded[0], ElmoTransformer) and (loaded[0].layers, loaded[0].max_seq_length) == (1, 7)
    np.testing.assert_array_equal(loaded.encode(TEXTS), model.encode(TEXTS))
    weights = ElmoModel.from_pretrained(tmp_path / "saved").state_dict()
    for name, weight in model[0].model.state_dict().items():
        assert torch.equal(weights[name], weight)


@pytest.mark.parametrize("freeze_bilm", [False, True])
def test_its_own_trainer_trains_all_of_it(checkpoint, tmp_path, freeze_bilm):
    model = build(checkpoint, freeze_bilm=freeze_bilm)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    data = Dataset.from_dict(
        {"first": ["a call returns", "one value"] * 4, "second": ["a call", "two words"] * 4, "label": [1.0, 0.0] * 4}
    )
    arguments = library.SentenceTransformerTrainingArguments(
        output_dir=str(tmp_path),
        max_steps=3,
        per_device_train_batch_size=4,
        learning_rate=0.05,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = library.SentenceTransformerTrainer(
        model=model,
        args=arguments,
        train_dataset=data,
        loss=library.sentence_transformer.losses.CosineSimilarityLoss(model),
    )
    assert trainer.train().global_step == 3
    changed = {name for name, weight in model.state_dict().items() if not torch.equal(weight, before[name])}
    parts = {part for part in ("bilm", "token_encoder", "mixes") if any(part in name for name in changed)}
    assert parts == ({"mixes"} if freeze_bilm else {"bilm", "token_encoder", "mixes"})


def test_layers_that_are_not_there_are_refused(checkpoint):
    for layers in ("all", 3, -4, "last"):
        assert_refused(ValueError, f"layers is {layers!r}", ElmoTransformer, checkpoint, layers)
