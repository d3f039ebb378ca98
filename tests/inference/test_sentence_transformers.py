"""A checkpoint in sentence-transformers' own modules: encoded, saved, loaded and trained."""

import numpy as np
import pytest
import torch
from datasets import Dataset
from tolerances import REORDERED_FLOAT32

from hf_elmo import ElmoModel

library = pytest.importorskip("sentence_transformers", reason="it is the library itself that is tried")

TEXTS = ["a call returns", "", "call it !", "one value"]


def build(checkpoint, **settings):
    modules = library.sentence_transformer.modules
    elmo = modules.Transformer(checkpoint, **settings)
    return library.SentenceTransformer(modules=[elmo, modules.Pooling(elmo.get_embedding_dimension())], device="cpu")


def test_vectors_are_the_means_of_words_and_what_is_saved_is_a_checkpoint_too(embedder, tmp_path):
    model = build(embedder.name)
    wanted = [array.mean(axis=0) for array in embedder.stream(TEXTS, keep_special_tokens=True)]
    np.testing.assert_allclose(model.encode(TEXTS), wanted, rtol=0, atol=REORDERED_FLOAT32)
    model.save(str(tmp_path / "saved"))
    loaded = library.SentenceTransformer(str(tmp_path / "saved"), device="cpu", trust_remote_code=True)
    np.testing.assert_array_equal(loaded.encode(TEXTS), model.encode(TEXTS))
    weights = ElmoModel.from_pretrained(tmp_path / "saved").state_dict()
    assert all(torch.equal(weights[name], weight) for name, weight in embedder.model.state_dict().items())


@pytest.mark.parametrize("freeze_bilm", [False, True])
def test_its_own_trainer_trains_the_mix_or_all_of_it(embedder, tmp_path, freeze_bilm):
    model = build(embedder.name, config_kwargs={"freeze_bilm": freeze_bilm})
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    texts = {"first": ["a call returns", "one value"] * 4, "second": ["a call", "two words"] * 4}
    silent = {"report_to": "none", "save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True}
    arguments = library.SentenceTransformerTrainingArguments(
        str(tmp_path), max_steps=3, per_device_train_batch_size=4, learning_rate=0.05, use_cpu=True, **silent
    )
    data, loss = Dataset.from_dict({**texts, "label": [1.0, 0.0] * 4}), library.sentence_transformer.losses
    trainer = library.SentenceTransformerTrainer(
        model=model, args=arguments, train_dataset=data, loss=loss.CosineSimilarityLoss(model)
    )
    assert trainer.train().global_step == 3
    changed = {name for name, weight in model.state_dict().items() if not torch.equal(weight, before[name])}
    parts = {part for part in ("bilm", "token_encoder", "mixes") if any(part in name for name in changed)}
    assert parts == ({"mixes"} if freeze_bilm else {"bilm", "token_encoder", "mixes"})
