"""Columns and datasets with a label per word: of any form, and of well-known corpora as they are published."""

import bz2
import gzip
import itertools

import pytest
from conftest import shared_data
from datasets import ClassLabel, Dataset, Features, Sequence, Value
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo.tasks.readers.columns import read_tagged_file, tagged_from_dataset
from hf_elmo.tasks.token_classification import tagged_lines
from hf_elmo.text.corpora import corpus_from_files

CONLLU = """\
# sent_id = 1
# text = vámonos al mar
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\tv\t_\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\tp\t_\t1\tobj\t_\t_
2.1\tnada\tnada\tX\tx\t_\t_\t_\t_\t_
3\tal mar\tmar\tNOUN\tn\t_\t1\tobl\t_\t_

1\t#\t#\tSYM\ts\t_\t0\troot\t_\t_
"""


def test_word_first_tag_last(write):
    path = write("-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\n\n\n. . O O\n")
    read = read_tagged_file(path)
    assert (read.words, read.labels) == ([["EU", "rejects"], ["."]], [["B-ORG", "O"], ["O"]])
    assert read.lines == [[3, 4], [8]] and read.place(1, 0) == f"file {str(path)!r}, line 8"
    last = read.pick([1])
    assert (last.words, last.lines, last.known_labels) == ([["."]], [[8]], ("B-ORG", "O"))


@pytest.mark.parametrize(
    ("content", "columns", "words", "labels"),
    [
        ("EU NNP O\n. . O\n", (0, 1), [["EU", "."]], [["NNP", "."]]),
        ("EU NNP O\n. . O\n", ("-1", "-2"), [["O", "O"]], [["NNP", "."]]),
        ("id\tToken\tner\n\n1\tNew York\tB-LOC\n", ("token", "NER"), [["New York"]], [["B-LOC"]]),
        # Between tabs words may have spaces, or be one.
        ("New York \tB-LOC\n \tO\n\u00a0\tO\n", (), [["New York", " ", "\u00a0"]], [["B-LOC", "O", "O"]]),
        ("a\tO\n\t\nb\tO\n  \nc\tO", (), [["a"], ["b"], ["c"]], [["O"]] * 3),
        ("\ufeffa\tO\r\nb\tB-X\r\n\r\nc\tO\r\n", (), [["a", "b"], ["c"]], [["O", "B-X"], ["O"]]),
        ("a\u2028b\tO\nc\u0085d\tO\n", (), [["a\u2028b", "c\u0085d"]], [["O", "O"]]),
        ("#\tO\n# hash\tO\n", (), [["#", "# hash"]], [["O", "O"]]),
        (CONLLU, (), [["vamos", "nos", "al mar"], ["#"]], [["VERB", "PRON", "NOUN"], ["SYM"]]),
        (CONLLU, ("lemma", "XPOS"), [["ir", "nosotros", "mar"], ["#"]], [["v", "p", "n"], ["s"]]),
        (CONLLU, (2, "4"), [["ir", "nosotros", "mar"], ["#"]], [["v", "p", "n"], ["s"]]),
    ],
)
def test_columns(write, content, columns, words, labels):
    read = read_tagged_file(write(content, "train.tsv"), *columns)
    assert (read.words, read.labels) == (words, labels)


@pytest.mark.parametrize(
    ("content", "columns", "named"),
    [
        ("a O\nb\n", {}, "line 2"),
        ("a\nb\n", {}, "line 1"),
        ("a\tO\nb\t\n", {}, "line 2"),
        ("a\tO\n\tO\n", {}, "line 2"),
        ("a O\n\nNew York B-LOC\n", {}, "line 3"),
        ("-DOCSTART- O\n\n", {}, "no words"),
        ("a O\n\n가나 O\n".encode("euc-kr"), {}, ("line 3", "UTF-8", "0xB0")),
        ("résumé O\n".encode() * 9 + b"caf\xe9 O\n", {}, ("line 10", "UTF-8", "0xE9")),
        ("a O\n", {"label_column": "ner"}, ("label_column", "'ner'", "['a', 'O']")),
        ("a O\n", {"label_column": "7"}, ("line 1", "7")),
        ("a O\n", {"word_column": "-1"}, ("line 1", "-1")),
        (CONLLU + "1\ta\tb\n", {}, "line 10"),
        # Cut off in its label.
        (CONLLU + "1\ta\ta\tVER", {}, ("line 10", "'VER'")),
        (CONLLU, {"label_column": "pos"}, ("label_column", "'pos'", "'upos'")),
        ('{"tokens": ["a"]}', {}, "--dataset_name"),
        (gzip.compress(b"a\tO\n" * 99, mtime=0)[:-9], {}, "cannot be unpacked"),
    ],
)
def test_what_cannot_be_read_is_named_by_its_line(write, content, columns, named):
    packed = isinstance(content, bytes) and content.startswith(b"\x1f")
    path = write(content, "a.conll.gz" if packed else "a.unknown")
    message = assert_refused(ValueError, named, read_tagged_file, path, name="train_file", **columns)
    assert f"train_file {str(path)!r}" in message


def test_packed_files_and_none(write):
    path = write(bz2.compress(CONLLU.encode()), "x.conllu.BZ2")
    assert read_tagged_file(path).lines == [[4, 5, 7], [9]]
    path.unlink()
    assert_refused(FileNotFoundError, ("test_file", "x.conllu"), read_tagged_file, path, name="test_file")


def test_real_files():
    counts = {}
    for split in ("train", "dev", "test"):
        labels = read_tagged_file(shared_data("wnut17") / f"{split}.conll").labels
        flat = [label for row in labels for label in row]
        counts[split] = (len(labels), len(flat), sum(label.startswith("B-") for label in flat), len(set(flat)))
    # Sentences and entities as the shared task counts them (Derczynski et al. 2017, table 2).
    assert counts == {"train": (3394, 62730, 1975, 13), "dev": (1009, 15733, 836, 13), "test": (1287, 23394, 1079, 13)}
    read = read_tagged_file(shared_data("ud_english_ewt/dev.conllu"))
    assert (len(read), sum(map(len, read.words))) == (2001, 25147)


TAGS = {"tokens": Sequence(Value("string")), "ner_tags": Sequence(ClassLabel(names=["O", "B", "I"]))}


def test_datasets():
    dataset = Dataset.from_dict({"tokens": [["a", "b"], []], "ner_tags": [[0, 1], []]}, features=Features(TAGS))
    read = tagged_from_dataset(dataset, "dataset_name 'x', split 'train'")
    assert (read.words, read.labels, read.known_labels) == ([["a", "b"], []], [["O", "B"], []], ("O", "B", "I"))
    assert read.place(0, 1) == "dataset_name 'x', split 'train', row 0, word 1"
    dataset = Dataset.from_dict({"words": [["a"]], "pos_tags": [["NOUN"]], "numbers": [[7]]})
    assert tagged_from_dataset(dataset, "x").labels == [["NOUN"]]
    assert tagged_from_dataset(dataset, "x", label_column="numbers").labels == [["7"]]


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ({"tokens": [["a"]]}, ("'ner_tags'", "['tokens']", "--label_column")),
        ({"text": [["a"]], "tags": [["O"]]}, ("'tokens'", "--word_column")),
        ({"tokens": [["a"]], "pos_tags": [["O"]], "chunk_tags": [["O"]]}, "'ner_tags'"),
        ({"tokens": [["a"], ["a", "b"]], "tags": [["O"], ["O"]]}, "row 1"),
        ({"tokens": ["a b"], "tags": [["O"]]}, ("row 0", "'tokens'")),
        ({"tokens": [[1]], "tags": [["O"]]}, ("row 0", "'tokens'")),
        ({"tokens": [["a"]], "tags": [[0.5]]}, ("row 0", "'tags'")),
        ({"tokens": [[]], "tags": [[]]}, "no words"),
        ({"tokens": [["a"]], "ner_tags": [[-1]]}, ("row 0", "'ner_tags'", "[-1]")),
    ],
)
def test_bad_datasets(columns, named):
    dataset = Dataset.from_dict(columns, features=Features(TAGS) if "ner_tags" in columns else None)
    assert_refused(ValueError, named, tagged_from_dataset, dataset, "x")


WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\r\n"), min_size=1, max_size=5).map(
    lambda word: word.strip(" ") or word
)


@given(st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=1, max_size=3))
def test_what_is_written_is_read_again(tmp_path_factory, words):
    words = [[word for word in row if not word.startswith(("\ufeff", "-DOCSTART-"))] or ["x"] for row in words]
    path = tmp_path_factory.getbasetemp() / "written.conll"
    dataset = Dataset.from_dict({"tokens": words, "tags": [["O"] * len(row) for row in words]})
    sentences = tagged_from_dataset(dataset, "x")
    columns = sentences.words, sentences.labels, [["B-X"] * len(row) for row in words]
    lines = itertools.chain.from_iterable(map(tagged_lines, *columns))
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    read = read_tagged_file(path)
    assert read.words == words
    assert read.labels == [["B-X"] * len(row) for row in words]
    assert read_tagged_file(path, label_column=1).labels == [["O"] * len(row) for row in words]


# Published corpora. The sentences are invented; what stands around their words is as the corpora have it.
CONLL2003 = "-DOCSTART- -X- -X- O\n\nAnn NNP I-NP I-PER\nleft VBD I-VP O\nOslo NNP I-NP I-LOC\n\n. . O O\n"
CONLL2003_IN_TWO_COLUMNS = CONLL2003.replace("-X- -X- O", "-X- O O")
CONLL2002_SPANISH = "Muñoz B-PER\nllegó O\na O\nLeón B-LOC\n. O\n\n"
CONLL2002_DUTCH = "-DOCSTART- -DOCSTART- O\nBelgië N B-LOC\nwint V O\n. Punc O\n\n"
CONLL2000 = "He PRP B-NP\npaid VBD B-VP\n# # B-NP\n3 CD I-NP\n. . O\n\nShe PRP B-NP\nran VBD B-VP\n\n"
WNUT = "#oslo\tB-location\nis\tO\nit\tO\n\t\n# \tO\nhi\tO\n"
GERMEVAL = (
    "#\thttp://de.example.org/wiki/Ulm [2009-10-17]\n1\tIm\tO\tO\n2\tUlmer\tB-LOCderiv\tO\n3\tZoo\tO\tB-ORG\n\n"
    "#\thttp://de.example.org/wiki/Rom [2010-01-02]\n1\tRom\tB-LOC\tO\n2\tja\tO\tO\n\n"
)
KLUE = (
    "## klue-ner-v1_train_00000-web\t<울름:LC>에 갔다\n울\tB-LC\n름\tI-LC\n에\tO\n \tO\n#\tO\n\n"
    "## klue-ner-v1_train_00001-web\t비\n비\tO\n\n"
)
MULTICONER = "# id 7f-1\tdomain=en\nrome _ _ B-LOC\n# _ _ O\n\n# id 7f-2\tdomain=en\nshe _ _ O\nran _ _ O\n\n"
UNIVERSAL_NER = "# sent_id = a-1\n# text = du lac\n1-2\tdu\tO\t-\t-\n1\tde\tO\t-\tx\n2\tle\tB-LOC\t-\tx\n\n"
WIKIANN = "en:Rome B-LOC\nen:: O\nen:en:x O\n\nen:yes O\n"
ONTONOTES = """\
#begin document (bc/news/00/news_0001); part 000
bc/news/00/news_0001   0   0     Ann    NNP  (TOP(S(NP*)    -    -   -   Host  (PERSON)  (ARG0*)        *   (3)
bc/news/00/news_0001   0   1    told    VBD       (VP*   tell   01   1   Host         *     (V*)        *     -
bc/news/00/news_0001   0   2     New    NNP       (NP*      -    -   -   Host    (GPE*  (ARG2*    (ARG0*    (4
bc/news/00/news_0001   0   3    York    NNP         *)      -    -   -   Host        *)      *)        *)    4)
bc/news/00/news_0001   0   4      /.      .        *))      -    -   -   Host         *       *         *     -

bc/news/00/news_0001   0   0    Yes     UH    (TOP*)      -    -   -   Host         *     -

#end document
"""
UD = (
    "# text = du\n1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "1\tde\tde\tADP\t_\t_\t0\troot\t_\t_\n2\tle\tle\tDET\t_\t_\t1\tdet\t_\t_\n\n"
)
# Words with their labels, _ for a space, and what else is said of how they are read.
PUBLISHED = [
    ("eng.train", CONLL2003, "Ann/I-PER left/O Oslo/I-LOC | ./O", None),
    ("eng.testa", CONLL2003_IN_TWO_COLUMNS, "Ann/I-PER left/O Oslo/I-LOC | ./O", None),
    ("esp.testa", CONLL2002_SPANISH, "Muñoz/B-PER llegó/O a/O León/B-LOC ./O", "ISO-8859-1"),
    ("ned.train", CONLL2002_DUTCH, "België/B-LOC wint/O ./O", "ISO-8859-1"),
    ("test.txt", CONLL2000, "He/B-NP paid/B-VP #/B-NP 3/I-NP ./O | She/B-NP ran/B-VP", None),
    ("emerging.test.annotated", WNUT, "#oslo/B-location is/O it/O | #/O hi/O", None),
    ("NER-de-train.tsv", GERMEVAL, "Im/O Ulmer/B-LOCderiv Zoo/O | Rom/B-LOC ja/O", "column 1"),
    ("klue-ner-v1.1_train.tsv", KLUE, "울/B-LC 름/I-LC 에/O _/O #/O | 비/O", None),
    ("en_train.conll", MULTICONER, "rome/B-LOC #/O | she/O ran/O", None),
    ("en_ewt-ud-train.iob2", UNIVERSAL_NER, "de/O le/B-LOC", "column 1"),
    ("train", WIKIANN, "Rome/B-LOC :/O en:x/O | yes/O", "'en:'"),
    ("news_0001.v4_gold_conll", ONTONOTES, "Ann/B-PERSON told/O New/B-GPE York/I-GPE ./O | Yes/O", None),
    ("fr_x-ud-train.conllu", UD, "de/ADP le/DET", None),
]


@pytest.mark.parametrize(("name", "content", "words", "note"), PUBLISHED)
def test_a_corpus_is_read_as_it_is_published_whatever_its_name(write, tmp_path, name, content, words, note):
    pairs = [[pair.replace("_/", " /").rsplit("/", 1) for pair in row.split()] for row in words.split("|")]
    words, labels = ([[pair[place] for pair in row] for row in pairs] for place in (0, 1))
    content = content.encode("iso-8859-1" if note == "ISO-8859-1" else "utf-8")
    for path in (write(content, name), unknown := write(content, "a.unknown")):
        read = read_tagged_file(path, name="train_file")
        assert (read.words, read.labels, read.note is None) == (words, labels, note is None)
        assert note is None or (note in read.note and read.note.startswith(f"train_file {str(path)!r}: "))
    # So are those of files to embed whose names say that they are columns.
    corpus = corpus_from_files([str(unknown.rename(tmp_path / "a.conll"))], takes_words=True)
    assert list(corpus.lines()) == words


def test_columns_of_ontonotes_have_names(write):
    path = write(ONTONOTES, "news_0001.gold_conll")
    assert read_tagged_file(path, label_column="POS").labels == [["NNP", "VBD", "NNP", "NNP", "."], ["UH"]]
    assert read_tagged_file(path, label_column=4).labels == [["NNP", "VBD", "NNP", "NNP", "."], ["UH"]]
    assert_refused(ValueError, ("label_column", "'ner'", "'pos'"), read_tagged_file, path, label_column="ner")
    path.write_text(ONTONOTES.replace("(GPE* ", "*) "))
    assert_refused(ValueError, ("line 4", "'*)'"), read_tagged_file, path)


def test_a_hash_with_a_label_of_its_own_is_a_word(write):
    # At the beginning of the only sentence that has it, as Penn's part of speech for it.
    content = "#\t#\n3\tCD\n\n# 3\t#\nx\tCD\n\na\tDT\n#\t#\n"
    assert read_tagged_file(write(content)).words == [["#", "3"], ["# 3", "x"], ["a", "#"]]
    spaces = "# # B-NP\n3 CD I-NP\n\n# # I-NP\n"
    assert read_tagged_file(write(spaces), label_column=1).words == [["#", "3"], ["#"]]


def test_numbers_that_do_not_count_words_are_words(write):
    content = "1 CD B-X\n2 CD I-X\n\n7 CD B-X\n"
    assert read_tagged_file(write(content)).words == [["1", "2"], ["7"]]
    assert read_tagged_file(write(GERMEVAL), 0, 3).labels[0] == ["O", "O", "B-ORG"]
