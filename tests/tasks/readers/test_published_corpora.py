"""Well-known corpora are read as they are published: under their names, in their forms and encodings."""

import json

import pyarrow as pa
import pytest
from pyarrow import parquet
from refusals import assert_refused

from hf_elmo.inference.word_uses import holds_senses
from hf_elmo.tasks.readers.columns import read_tagged_file
from hf_elmo.tasks.readers.texts import read_texts
from hf_elmo.text.corpora import corpus_from_files

# The sentences are invented; what stands around their words is as the corpora have it.
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
PUBLISHED = [
    ("eng.train", CONLL2003, [["Ann", "left", "Oslo"], ["."]], [["I-PER", "O", "I-LOC"], ["O"]]),
    ("eng.testa", CONLL2003_IN_TWO_COLUMNS, [["Ann", "left", "Oslo"], ["."]], [["I-PER", "O", "I-LOC"], ["O"]]),
    ("esp.testa", CONLL2002_SPANISH, [["Muñoz", "llegó", "a", "León", "."]], [["B-PER", "O", "O", "B-LOC", "O"]]),
    ("ned.train", CONLL2002_DUTCH, [["België", "wint", "."]], [["B-LOC", "O", "O"]]),
    (
        "test.txt",
        CONLL2000,
        [["He", "paid", "#", "3", "."], ["She", "ran"]],
        [["B-NP", "B-VP", "B-NP", "I-NP", "O"], ["B-NP", "B-VP"]],
    ),
    (
        "emerging.test.annotated",
        WNUT,
        [["#oslo", "is", "it"], ["#", "hi"]],
        [["B-location", "O", "O"], ["O", "O"]],
    ),
    ("NER-de-train.tsv", GERMEVAL, [["Im", "Ulmer", "Zoo"], ["Rom", "ja"]], [["O", "B-LOCderiv", "O"], ["B-LOC", "O"]]),
    ("klue-ner-v1.1_train.tsv", KLUE, [["울", "름", "에", " ", "#"], ["비"]], [["B-LC", "I-LC", "O", "O", "O"], ["O"]]),
    ("en_train.conll", MULTICONER, [["rome", "#"], ["she", "ran"]], [["B-LOC", "O"], ["O", "O"]]),
    ("en_ewt-ud-train.iob2", UNIVERSAL_NER, [["de", "le"]], [["O", "B-LOC"]]),
    ("train", WIKIANN, [["Rome", ":", "en:x"], ["yes"]], [["B-LOC", "O", "O"], ["O"]]),
    (
        "news_0001.v4_gold_conll",
        ONTONOTES,
        [["Ann", "told", "New", "York", "."], ["Yes"]],
        [["B-PERSON", "O", "B-GPE", "I-GPE", "O"], ["O"]],
    ),
    ("fr_x-ud-train.conllu", UD, [["de", "le"]], [["ADP", "DET"]]),
]
# What else is said of how they are read.
NOTES = {
    "esp.testa": "ISO-8859-1",
    "ned.train": "ISO-8859-1",
    "NER-de-train.tsv": "column 1",
    "en_ewt-ud-train.iob2": "column 1",
    "train": "'en:'",
}


def write(folder, name, content):
    encoding = "iso-8859-1" if NOTES.get(name) == "ISO-8859-1" else "utf-8"
    (folder / name).write_bytes(content.encode(encoding))
    return folder / name


@pytest.mark.parametrize(("name", "content", "words", "labels"), PUBLISHED)
def test_a_corpus_is_read_as_it_is_published_whatever_its_name(tmp_path, name, content, words, labels):
    published, unknown = write(tmp_path, name, content), tmp_path / "a.unknown"
    unknown.write_bytes(published.read_bytes())
    for path in (published, unknown):
        read = read_tagged_file(path, name="train_file")
        assert (read.words, read.labels, read.note is None) == (words, labels, name not in NOTES)
        assert read.note is None or (NOTES[name] in read.note and read.note.startswith(f"train_file {str(path)!r}: "))
    # So are those of files to embed whose names say that they are columns.
    corpus = corpus_from_files([str(unknown.rename(tmp_path / "a.conll"))], takes_words=True)
    assert list(corpus.lines()) == words


def test_columns_of_ontonotes_have_names(tmp_path):
    path = write(tmp_path, "news_0001.gold_conll", ONTONOTES)
    assert read_tagged_file(path, label_column="POS").labels == [["NNP", "VBD", "NNP", "NNP", "."], ["UH"]]
    assert read_tagged_file(path, label_column=4).labels == [["NNP", "VBD", "NNP", "NNP", "."], ["UH"]]
    assert_refused(ValueError, ("label_column", "'ner'", "'pos'"), read_tagged_file, path, label_column="ner")
    path.write_text(ONTONOTES.replace("(GPE* ", "*) "))
    assert_refused(ValueError, ("line 4", "'*)'"), read_tagged_file, path)


def test_a_hash_with_a_label_of_its_own_is_a_word(tmp_path):
    # At the beginning of the only sentence that has it, as Penn's part of speech for it.
    content = "#\t#\n3\tCD\n\n# 3\t#\nx\tCD\n\na\tDT\n#\t#\n"
    assert read_tagged_file(write(tmp_path, "a.tsv", content)).words == [["#", "3"], ["# 3", "x"], ["a", "#"]]
    spaces = "# # B-NP\n3 CD I-NP\n\n# # I-NP\n"
    assert read_tagged_file(write(tmp_path, "a.txt", spaces), label_column=1).words == [["#", "3"], ["#"]]


def test_numbers_that_do_not_count_words_are_words(tmp_path):
    content = "1 CD B-X\n2 CD I-X\n\n7 CD B-X\n"
    assert read_tagged_file(write(tmp_path, "a.conll", content)).words == [["1", "2"], ["7"]]
    assert read_tagged_file(write(tmp_path, "b.conll", GERMEVAL), 0, 3).labels[0] == ["O", "O", "B-ORG"]


def test_other_files_of_unknown_suffixes_are_read_as_what_they_look_like(tmp_path):
    rows = [{"text": "good film", "label": "1"}, {"text": "bad, film", "label": "0"}]
    path = tmp_path / "reviews.part-1"
    contents = (
        "".join(json.dumps(row) + "\n" for row in rows),
        json.dumps(rows, indent=1),
        "text\tlabel\ngood film\t1\nbad, film\t0\n",
        'label,text\n1,good film\n0,"bad, film"\n',
    )
    wanted = [(row["text"], row["label"]) for row in rows]
    for content in contents:
        path.write_text(content)
        read = read_texts(path)
        assert list(zip(read.texts, read.labels, strict=True)) == wanted
    parquet.write_table(pa.Table.from_pylist(rows), path)
    read = read_texts(path)
    assert list(zip(read.texts, read.labels, strict=True)) == wanted
    for takes_words in (False, True):
        assert list(corpus_from_files([str(path)], takes_words=takes_words).lines()) == ["good film", "bad, film"]
    path.write_text("(1 (2 good) (2 film))\n")
    assert read_texts(path).texts == ["good film"]
    path.write_text(json.dumps({"tokens": ["a", "hard", "task"], "index": 1, "sense": "difficult"}))
    assert holds_senses(str(path))
    path.write_text("good film\n\n[1] bad film\n")
    for takes_words in (False, True):
        lines = corpus_from_files([str(path)], takes_words=takes_words).lines()
        assert list(lines) == ["good film", "", "[1] bad film"]
    assert_refused(ValueError, ("part-1", "text_column"), read_texts, path)
