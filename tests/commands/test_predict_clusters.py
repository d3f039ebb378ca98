"""`hf-elmo predict` with a coreference model: clusters on the screen and in files, their places, what it refuses."""

import json
from itertools import chain

import pytest
import torch
from conftest import make_tiny_config
from html_reading import read_page

from hf_elmo import CoreferenceHead, ElmoCharTokenizer, ElmoForCoreferenceResolution
from hf_elmo.commands.command_line import main
from hf_elmo.inference.coreference import ElmoCoreference
from hf_elmo.tasks.readers.documents import read_documents

TEXT = "Alice slept. Bob's cat saw her!\n\n“Who?” asked Mr. Hill.\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("resolvers")
    torch.manual_seed(0)
    head = CoreferenceHead(lstm_size=3, hidden_size=4, feature_size=2, mention_loss=1.0, keep_singletons=True)
    model = ElmoForCoreferenceResolution(make_tiny_config(head=head))
    # All spans are mentions, and each is linked to the nearest.
    torch.nn.init.ones_(model.spans.scorer.output.bias)
    model.save_pretrained(folder / "model")
    ElmoCharTokenizer(pre_tokenizer="penn").save_pretrained(folder / "model")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    return folder


@pytest.fixture
def predict(folder, capsys):
    def run(*flags):
        code = 0
        try:
            main(["predict", *map(str, flags), "--model_name_or_path", str(folder / "model"), "--device", "cpu"])
        except SystemExit as ended:
            code = ended.code
        return code, *capsys.readouterr()

    return run


def test_words_sentences_and_places_are_those_of_the_text(folder):
    resolver = ElmoCoreference(str(folder / "model"), "cpu")
    resolved = resolver.resolve(TEXT)
    assert resolved.sentences == [
        ["Alice", "slept", "."],
        ["Bob", "'s", "cat", "saw", "her", "!"],
        ["“", "Who", "?", "”", "asked", "Mr.", "Hill", "."],
    ]
    assert [TEXT[start:stop] for start, stop in resolved.offsets] == list(chain(*resolved.sentences))
    assert resolved.clusters and resolved.word_clusters == resolver.resolve_words(resolved.sentences)
    words = list(chain(*resolved.sentences))
    for cluster, spans in zip(resolved.clusters, resolved.word_clusters, strict=True):
        for mention, (first, behind) in zip(cluster, spans, strict=True):
            assert TEXT[mention.start : mention.stop] == mention.text
            assert mention.text.replace(" ", "") == "".join(words[first:behind])
    spaced = resolver.resolve("a b.c\n\nd e", is_tokenized=True)
    assert spaced.sentences == [["a", "b.c"], ["d", "e"]] and spaced.offsets[2] == (7, 8)
    assert resolver.resolve(" \n").clusters == []


def test_clusters_on_the_screen(predict):
    code, shown, errors = predict("Alice slept. Bob saw her.")
    assert code == 0, errors
    assert shown and "no clusters" not in shown
    for line in shown.splitlines():
        for mention in line.split(" | "):
            text, _, places = mention.rpartition(" [")
            start, stop = map(int, places.rstrip("]").split(":"))
            assert "Alice slept. Bob saw her."[start:stop] == text


def test_clusters_in_files(predict, folder, tmp_path):
    shown = {}
    for name in ("found.json", "found.conll"):
        code, shown[name], errors = predict("--input_file", folder / "text.txt", "--output_file", tmp_path / name)
        assert code == 0, errors
    record = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert record["text"] == TEXT.rstrip("\n")
    for cluster in record["clusters"]:
        for mention in cluster:
            assert record["text"][mention["start"] : mention["end"]] == mention["text"]
    document = read_documents(tmp_path / "found.conll")[0]
    assert document.name == "found" and len(document.sentences) == 3
    assert list(map(len, document.clusters)) == list(map(len, record["clusters"]))
    count = sum(map(len, document.clusters))
    assert f"{count} mentions in {len(document.clusters)} clusters" in shown["found.conll"]


def test_a_page_has_all_mentions(predict, folder, tmp_path):
    files = ["--output_file", tmp_path / "found.json", "--html", tmp_path / "found.html"]
    code, _, errors = predict("--input_file", folder / "text.txt", *files)
    assert code == 0, errors
    record = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    root, _ = read_page((tmp_path / "found.html").read_text(encoding="utf-8"))
    (shown,) = root.of_class("text")
    assert shown.own_text == record["text"]
    wanted = [len(cluster) for cluster in record["clusters"] if len(cluster) > 1]
    tags = [tag.text for tag in shown.of_class("tag")]
    assert [tags.count(str(number)) for number in range(1, len(wanted) + 1)] == wanted and len(tags) == sum(wanted)


def test_what_does_not_fit_is_one_line(predict, tmp_path):
    (tmp_path / "empty.txt").write_text("\n \n")
    for flags, named in (
        (["a", "--text_pair", "b"], "text_pair"),
        (["a", "--convert_scheme", "IOB2"], "convert_scheme"),
        (["a", "--max_words_per_batch", 512], "max_words_per_batch is 512"),
        (["--input_file", tmp_path / "empty.txt"], "holds no text"),
        ([" "], "no text"),
    ):
        code, shown, errors = predict(*flags)
        assert code == 2 and not shown and errors.count("\n") == 1 and named in errors, errors
