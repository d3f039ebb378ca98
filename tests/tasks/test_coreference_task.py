"""Coreference: from documents in columns to a model that finds the clusters of other documents."""

import random

import numpy as np
import pytest
import torch
from conftest import make_tiny_config
from refusals import assert_refused
from toy_tasks import prepare

from hf_elmo import CoreferenceHead, ElmoCharTokenizer, ElmoForCoreferenceResolution
from hf_elmo.tasks.coreference import (
    Coreference,
    DocumentRows,
    clusters_of,
    count_mentions,
    drop_singletons,
)
from hf_elmo.tasks.metrics import score_clusters
from hf_elmo.tasks.readers.documents import Document, Documents, Mention, read_documents

TOY_CONFIG = {"projection_size": 8, "cell_size": 12, "filters": [[1, 8], [2, 8]], "character_embedding_size": 8}
SMALL = {"lstm_size": 8, "hidden_size": 24, "feature_size": 4, "max_span_width": 2, "character_filters": [[2, 12]]}
SETTINGS = {"num_train_epochs": 1, "seed": 1}


def write_documents(path, count, seed, num_sentences=4):
    """Sentences such as `Al met Bo .`, in which the same name is the same person."""
    draw = random.Random(seed)
    lines = []
    for number in range(count):
        lines.append(f"#begin document (toy/{number}); part 000")
        for _ in range(num_sentences):
            one, two = draw.sample(["Al", "Bo", "Cy", "Di", "Ed"], 2)
            for place, word in enumerate([one, draw.choice(["met", "saw"]), two, "."]):
                mention = f"({'ABCDE'.index(word[0])})" if word in (one, two) else "-"
                lines.append(f"toy/{number}\t0\t{place}\t{word}\t{mention}")
            lines.append("")
        lines.append("#end document")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("coreference")
    make_tiny_config(**TOY_CONFIG).save_pretrained(folder / "architecture")
    for seed, (split, count) in enumerate({"train": 12, "dev": 3, "test": 4}.items()):
        write_documents(folder / f"{split}.conll", count, seed)
    return folder


def prepare_toy(folder, output, model=None, data=None, **training):
    model = {"model_name_or_path": str(folder / "architecture"), "from_scratch": True, **SMALL, **(model or {})}
    if data is None:
        names = {"train_file": "train", "validation_file": "dev", "test_file": "test"}
        data = {argument: str(folder / f"{name}.conll") for argument, name in names.items()}
    return prepare(Coreference, model, data, {"output_dir": str(output), **SETTINGS, **training})


@pytest.fixture(scope="module")
def trained(folder):
    model = {"max_train_sentences": 3, "dropout": 0.0, "hidden_dropout": 0.0, "spans_per_word": 0.6}
    training = {"num_train_epochs": 16, "learning_rate": 0.01, "load_best_model_at_end": True}
    return prepare_toy(folder, folder / "out", model, **training).run()


def test_names_are_linked_after_training(folder, trained):
    assert trained["predict_mean_f1"] > 0.8 and trained["predict_mention_f1"] > 0.9
    assert trained["task"] == "coreference"
    assert trained["data"]["test"] == {
        **{"source": "test.conll", "documents": 4, "words": 64, "mentions": 32, "out_of_reach": 0},
        "clusters": trained["data"]["test"]["clusters"],
    }
    # The predictions are read back with the same scores, which the card shows.
    predicted, gold = (read_documents(folder / file) for file in ("out/test_predictions.conll", "test.conll"))
    assert [document.sentences for document in predicted.documents] == [each.sentences for each in gold.documents]
    scores = score_clusters(*([document.clusters for document in each.documents] for each in (predicted, gold)))
    assert scores == {name: pytest.approx(trained[f"predict_{name}"]) for name in scores}
    card = (folder / "out" / "README.md").read_text(encoding="utf-8")
    assert f"{100 * trained['predict_mean_f1']:.2f}" in card and "coreference-resolution" in card
    assert "keep_singletons True" in card and "mention_loss 1.0" in card and "pipeline_tag" not in card


def test_kept_layers_and_whole_documents_of_another_seed(folder, tmp_path):
    model = {"layer_cache_dir": str(tmp_path / "layers"), "max_train_sentences": 0, "keep_singletons": False}
    results = prepare_toy(folder, tmp_path / "out", model, num_train_epochs=2, num_seeds=2).run()
    # Random biLMs, one of each seed.
    assert len(list((tmp_path / "layers").glob("*.npy"))) == 2
    assert len(results["seeds"]) == 2
    assert results["data"]["test"]["mentions"] < 32


def test_without_elmo_no_layers_are_kept(folder, tmp_path):
    model = {"use_elmo": False, "layer_cache_dir": str(tmp_path / "layers"), "learn_words": True}
    results = prepare_toy(folder, tmp_path / "out", model).run()
    assert results["layer_shares"] == [] and not (tmp_path / "layers").exists()


# Rows


def make_document(**changes):
    sentences = [["a", "b", "c"], ["d"], ["e", "f"]]
    clusters = [[Mention(0, 1), Mention(4, 6)], [Mention(3, 4)], [Mention(2, 4)]]
    return Document("x", 0, sentences, **{"clusters": clusters, **changes})


def test_a_document_is_a_batch_of_its_sentences():
    document, known = (make_document(speakers=names) for names in (["B", "B", "", "A", "A", "B"], [*"BBBAAA"]))
    documents = Documents("x", [make_document(), document, known])
    encoded = DocumentRows(documents, ElmoCharTokenizer(), use_speakers=True)
    batch = Coreference.collate(None, [encoded[1]])
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]
    assert batch["speaker_ids"].tolist() == [[0, 2, 2, 0, 0], [0, 1, 0, 0, 0], [0, 1, 2, 0, 0]]
    assert batch["labels"].tolist() == [[[0, 1, 0], [4, 6, 0], [3, 4, 1], [2, 4, 2]]]
    assert not Coreference.collate(None, [encoded[0]])["speaker_ids"].any()
    assert Coreference.collate(None, [encoded[2]])["speaker_ids"][0].tolist() == [0, 2, 2, 2, 0]
    head = CoreferenceHead(lstm_size=2, hidden_size=2, feature_size=2, use_speakers=True)
    assert ElmoForCoreferenceResolution(make_tiny_config(head=head))(**batch).loss.isfinite()


def test_windows_hold_the_mentions_of_their_sentences():
    documents = Documents("x", [make_document(), make_document()])
    torch.manual_seed(0)
    seen = {}
    for _ in range(20):
        item = DocumentRows(documents, ElmoCharTokenizer(), False, max_sentences=2)[1]
        seen[tuple(len(sentence["input_ids"]) - 2 for sentence in item["sentences"])] = item["labels"].tolist()
    assert seen == {(3, 1): [[0, 1, 0], [3, 4, 1], [2, 4, 2]], (1, 2): [[1, 3, 0], [0, 1, 1]]}
    assert len(DocumentRows(documents, ElmoCharTokenizer(), False, max_sentences=3)[0]["sentences"]) == 3


def test_singletons_are_dropped_and_mentions_out_of_reach_counted():
    documents = Documents("x", [make_document()])
    assert drop_singletons(documents)[0].clusters == [[(0, 1), (4, 6)]]
    # One in two sentences; one of two words.
    assert count_mentions(documents, 2) == (4, 1) and count_mentions(documents, 1) == (4, 2)


def test_scores_leave_padding_out():
    rows = np.array([[[0, 1, 0], [1, 2, 0], [-100, -100, -100]], [[0, 1, 0], [1, 2, 1], [2, 3, 0]]])
    clusters = clusters_of(rows)
    assert clusters == [[[(0, 1), (1, 2)]], [[(0, 1), (2, 3)], [(1, 2)]]]
    assert set(score_clusters(clusters, clusters).values()) == {1.0}
    scores = score_clusters([[], []], clusters)
    assert scores["mean_f1"] == scores["mention_f1"] == 0


# What is refused


@pytest.mark.parametrize(
    "model",
    [{"mix_at_output": True}, {"max_train_sentences": -1}, {"mention_loss": 0.0, "keep_singletons": True}],
    ids=str,
)
def test_wrong_settings_are_refused(folder, tmp_path, model):
    assert_refused(ValueError, next(iter(model)), prepare_toy, folder, tmp_path / "out", model)
    assert not (tmp_path / "out").exists()


def test_wrong_data_are_refused(folder, tmp_path):
    (tmp_path / "bad.conll").write_text("#begin document (x); part 000\nx 0 0 a (1\n#end document\n")
    data = {"train_file": str(tmp_path / "bad.conll")}
    assert_refused(ValueError, ("train_file", "line 2"), prepare_toy, folder, tmp_path / "out", data=data)
