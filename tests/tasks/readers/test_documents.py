"""Documents with clusters: what columns say, what is joined, what is refused, and that writing is reading backwards."""

import itertools

import pytest
from conftest import shared_data
from hypothesis import assume, given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo.tasks.readers.documents import Document, Mention, document_lines, read_documents

TEXT = """#begin document (bc/x); part 000
bc/x 0 0 Alice PRP - - - - Bob * (1|(0)
bc/x 0 1 's POS - - - - Bob * -
bc/x 0 2 cat NN - - - - Bob * 1)|(2

bc/x 0 0 It PRP - - - - - * (1)
bc/x 0 1 /. . - - - - - * 2)
#end document

#begin document (bc/x); part 001
bc/x 1 0 She PRP - - - - - * (1)
#end document
"""


def test_parts_sentences_speakers_and_clusters_are_read(write):
    documents = read_documents(write(TEXT))
    first, second = documents.documents
    assert (first.name, first.part, second.part) == ("bc/x", 0, 1)
    assert first.sentences == [["Alice", "'s", "cat"], ["It", "."]] and first.words == documents.text(0).split()
    assert first.clusters == [[(0, 1)], [(0, 3), (3, 4)], [(2, 5)]]
    assert first.speakers == ["Bob", "Bob", "Bob", "", ""] and second.speakers is None
    assert [len(part) for part in (documents, documents.pick([1]))] == [2, 1]


def test_clusters_that_share_a_mention_are_one(write):
    rows = ["(1|(2)|(4)", "1)|(3)", "(3)|(2)", "(5)"]
    lines = [f"x\t0\t{number}\tw\t{marks}" for number, marks in enumerate(rows)]
    text = "\n".join(["#begin document (x)", *lines, "#end document"])
    assert read_documents(write(text))[0].clusters == [[(0, 1), (1, 2), (2, 3)], [(0, 2)], [(3, 4)]]


def cross(first, second):
    return first[0] < second[0] < first[1] < second[1] or second[0] < first[0] < second[1] < first[1]


@st.composite
def documents(draw):
    """Mentions nested and crossing; of one cluster none that cross, which the columns cannot say."""
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    total = sum(lengths)
    mentions = st.tuples(st.integers(0, total - 1), st.integers(1, total)).filter(lambda pair: pair[0] < pair[1])
    chosen = draw(st.lists(mentions, max_size=8, unique=True))
    numbers = draw(st.lists(st.integers(0, 3), min_size=len(chosen), max_size=len(chosen)))
    clusters = [
        sorted(Mention(*mention) for mention, number in zip(chosen, numbers, strict=True) if number == cluster)
        for cluster in {*numbers}
    ]
    assume(not any(cross(*pair) for cluster in clusters for pair in itertools.combinations(cluster, 2)))
    return Document("x (y)", draw(st.integers(0, 12)), [["w"] * length for length in lengths], sorted(clusters))


@given(document=documents())
def test_what_is_written_is_read_again(tmp_path_factory, document):
    path = tmp_path_factory.mktemp("documents") / "x.conll"
    path.write_text("\n".join(document_lines(document)) + "\n", encoding="utf-8")
    (again,) = read_documents(path).documents
    assert [sorted(cluster) for cluster in again.clusters] == document.clusters
    assert (again.name, again.part, again.sentences) == (document.name, document.part, document.sentences)
    assert "\t(1)|(0)\n" in "\n".join(document_lines(Document("x", 0, [["w"]]), [[Mention(0, 1)], [Mention(0, 1)]]))


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (("1)|(2", "9)|(2"), ("line 4", "cluster 9")),
        (("1)|(2", "1)|(2|x"), ("line 4", "'1)|(2|x'")),
        (("2)", "-"), ("line 4", "cluster 2", "never ends")),
        (("#end document\n\n#begin", "\n#begin"), ("line 9", "#end document")),
        (("#begin document (bc/x); part 000\n", ""), ("line 1", "#begin document")),
        (("#begin document (bc/x); part 000", "#begin bc/x"), ("line 1", "'#begin bc/x'")),
        (("bc/x 1 0 She PRP - - - - - * (1)", "bc/x 1 0"), ("line 11", "3 columns")),
        (("bc/x 1 0 She PRP - - - - - * (1)\n#end document\n", ""), ("#end document", "whole")),
        (("bc/x 1 0 She PRP - - - - - * (1)\n", ""), ("line 11", "#end document")),
        (("part 000", f"part {'0' * 5000}"), ("line 1", "#begin document")),
        (("She PRP - - - - - * (1)", f"She PRP - - - - - * ({'1' * 5000})"), ("line 11", "1111...")),
        ((TEXT, "\n"), ("no documents",)),
    ],
)
def test_what_cannot_be_read_is_named_by_its_line(write, change, parts):
    assert TEXT.replace(*change) != TEXT
    path = write(TEXT.replace(*change))
    message = assert_refused(ValueError, ("train_file", "data.tsv", *parts), read_documents, path, name="train_file")
    assert len(message) < 500


def test_litbank_is_read_and_written_as_it_stands(tmp_path):
    documents = read_documents(shared_data("litbank/coref/dev.conll.gz"))
    assert len(documents) == 10 and all(1500 < len(document.words) < 3500 for document in documents)
    assert any(len(cluster) == 1 for document in documents for cluster in document.clusters)
    path = tmp_path / "again.conll"
    path.write_text("\n".join(line for document in documents for line in document_lines(document)), encoding="utf-8")
    for document, again in zip(documents, read_documents(path), strict=True):
        assert (again.clusters, again.sentences) == (document.clusters, document.sentences)
