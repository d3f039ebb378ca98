"""Readers of CoNLL columns, CoNLL-U and datasets with a label per word."""

import bz2
import gzip

import pytest
from conftest import shared_data
from datasets import ClassLabel, Dataset, DatasetDict, Features, Sequence, Value
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo.tasks.data import load_named_dataset
from hf_elmo.tasks.readers.columns import (
    read_tagged_file,
    tagged_from_dataset,
)
from hf_elmo.tasks.token_classification import write_predictions

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


@pytest.fixture
def write(tmp_path):
    def write_file(content, name="train.conll"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return path

    return write_file


class TestColumns:
    def test_word_first_tag_last(self, write):
        path = write("-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\n\n\n. . O O\n")
        sentences = read_tagged_file(path)
        assert sentences.words == [["EU", "rejects"], ["."]]
        assert sentences.labels == [["B-ORG", "O"], ["O"]]
        assert sentences.lines == [[3, 4], [8]]
        assert sentences.place(1, 0) == f"file {str(path)!r}, line 8"

    @pytest.mark.parametrize(
        ("word_column", "label_column", "words", "labels"),
        [(0, 1, ["EU", "."], ["NNP", "."]), (1, 0, ["NNP", "."], ["EU", "."]), ("-1", "-2", ["O", "O"], ["NNP", "."])],
    )
    def test_columns_by_number(self, write, word_column, label_column, words, labels):
        sentences = read_tagged_file(write("EU NNP O\n. . O\n"), word_column, label_column)
        assert (sentences.words, sentences.labels) == ([words], [labels])

    def test_columns_by_name(self, write):
        path = write("id\tToken\tner\n\n1\tNew York\tB-LOC\n", "train.tsv")
        sentences = read_tagged_file(path, word_column="token", label_column="NER")
        assert (sentences.words, sentences.labels, sentences.lines) == ([["New York"]], [["B-LOC"]], [[3]])

    def test_words_with_spaces_between_tabs(self, write):
        sentences = read_tagged_file(write("New York \tB-LOC\n \tO\n\u00a0\tO\n"))
        assert sentences.words == [["New York", " ", "\u00a0"]]

    def test_blank_lines_may_hold_spaces_and_tabs(self, write):
        assert read_tagged_file(write("a\tO\n\t\nb\tO\n  \nc\tO")).words == [["a"], ["b"], ["c"]]

    def test_marks_of_other_systems(self, write):
        path = write(b"\xef\xbb\xbfa\tO\r\nb\tB-X\r\n\r\nc\tO\r\n")
        assert read_tagged_file(path).words == [["a", "b"], ["c"]]
        assert read_tagged_file(path).labels == [["O", "B-X"], ["O"]]

    def test_line_separators_of_unicode_stay_inside_words(self, write):
        assert read_tagged_file(write("a\u2028b\tO\nc\u0085d\tO\n")).words == [["a\u2028b", "c\u0085d"]]

    def test_a_hash_is_a_word(self, write):
        assert read_tagged_file(write("#\tO\n# hash\tO\n")).words == [["#", "# hash"]]

    def test_bad_content_is_named_with_its_place(self, write):
        for content, named in (
            ("a O\nb\n", "line 2"),
            ("a\nb\n", "line 1"),
            ("a\tO\nNew York\n", "line 2"),
            ("a\tO\nb\t\n", ("line 2", "label")),
            ("a\tO\n\tO\n", ("line 2", "word")),
            ("a O\n\nNew York B-LOC\n", "line 3"),
            ("", "no words"),
            ("-DOCSTART- O\n\n", "no words"),
            ("a O\n\n가나 O\n".encode("euc-kr"), ("line 3", "UTF-8", "0xb0")),
            ("résumé O\n".encode() * 9 + b"caf\xe9 O\n", ("line 10", "UTF-8", "0xe9")),
        ):
            path = write(content)
            message = assert_refused(ValueError, named, read_tagged_file, path, name="train_file")
            assert message.startswith(f"train_file {str(path)!r}")

    def test_bad_columns(self, write):
        path = write("a O\n")
        for columns, named in (
            ({"label_column": "ner"}, ("label_column", "'ner'", "['a', 'O']")),
            ({"label_column": "7"}, ("line 1", "7")),
            ({"word_column": "-1"}, ("line 1", "-1")),
        ):
            assert_refused(ValueError, named, read_tagged_file, path, **columns)

    def test_missing_file_and_unknown_suffix(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"test_file .*none\.conll"):
            read_tagged_file(tmp_path / "none.conll", name="test_file")
        (tmp_path / "train.json").write_text('{"tokens": ["a"]}')
        with pytest.raises(ValueError, match=r"train\.json.*--dataset_name"):
            read_tagged_file(tmp_path / "train.json")

    @pytest.mark.parametrize("name, pack", [("x.tsv.gz", gzip.compress), ("x.conllu.BZ2", bz2.compress)])
    def test_packed_files(self, name, pack, tmp_path):
        line = "a\tO\n" if "tsv" in name else "1\ta\t_\tO\t_\t_\t_\t_\t_\t_\n"
        (tmp_path / name).write_bytes(pack(line.encode()))
        assert read_tagged_file(tmp_path / name).labels == [["O"]]
        (tmp_path / name).write_bytes(pack(line.encode())[:-9])
        with pytest.raises(ValueError, match="cannot be unpacked"):
            read_tagged_file(tmp_path / name)

    def test_first_sentences_keep_their_places(self, write):
        sentences = read_tagged_file(write("a O\n\nb O\n\nc O\n")).pick(range(2))
        assert (sentences.words, sentences.lines) == ([["a"], ["b"]], [[1], [3]])

    def test_wnut17(self):
        folder = shared_data("wnut17")
        counts = {}
        for split in ("train", "dev", "test"):
            sentences = read_tagged_file(folder / f"{split}.conll")
            labels = [label for row in sentences.labels for label in row]
            counts[split] = (len(sentences), len(labels), sum(label.startswith("B-") for label in labels))
            assert len(set(labels)) == 13
        # Sentences and entities as the shared task counts them (Derczynski et al. 2017, table 2).
        assert counts == {"train": (3394, 62730, 1975), "dev": (1009, 15733, 836), "test": (1287, 23394, 1079)}


class TestConllu:
    def test_words_only(self, write):
        sentences = read_tagged_file(write(CONLLU, "train.conllu"))
        assert sentences.words == [["vamos", "nos", "al mar"], ["#"]]
        assert sentences.labels == [["VERB", "PRON", "NOUN"], ["SYM"]]
        assert sentences.lines == [[4, 5, 7], [9]]

    @pytest.mark.parametrize("column", ["xpos", "XPOS", "4", 4])
    def test_other_columns(self, write, column):
        sentences = read_tagged_file(write(CONLLU), word_column="lemma", label_column=column)
        assert sentences.words[0] == ["ir", "nosotros", "mar"]
        assert sentences.labels[0] == ["v", "p", "n"]

    def test_bad_content(self, write):
        for content, columns, named in (
            ("1\ta\tb\n", {}, "line 1"),
            (CONLLU.replace("2.1\t", "zwei\t"), {}, ("line 6", "'zwei'")),
            (CONLLU, {"label_column": "feats"}, "'feats'"),
            (CONLLU, {"label_column": "pos"}, ("label_column", "'pos'", "'upos'")),
            ("# only = comments\n\n", {}, "no words"),
        ):
            assert_refused(ValueError, named, read_tagged_file, write(content, "train.conllu"), **columns)

    @pytest.mark.parametrize(
        ("name", "sentences", "words"),
        [("ud_english_ewt/dev", 2001, 25147), ("ud_korean_gsd/dev", 950, 11958)],
    )
    def test_universal_dependencies(self, name, sentences, words):
        path = shared_data(f"{name}.conllu")
        read = read_tagged_file(path)
        assert len(read) == sentences
        assert sum(map(len, read.words)) == words
        assert {label for row in read.labels for label in row} <= set(
            "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split()
        )


class TestDatasets:
    def test_names_of_class_labels(self):
        features = Features(
            {"tokens": Sequence(Value("string")), "ner_tags": Sequence(ClassLabel(names=["O", "B", "I"]))}
        )
        dataset = Dataset.from_dict({"tokens": [["a", "b"], []], "ner_tags": [[0, 1], []]}, features=features)
        sentences = tagged_from_dataset(dataset, "dataset_name 'x', split 'train'")
        assert (sentences.words, sentences.labels) == ([["a", "b"], []], [["O", "B"], []])
        assert sentences.known_labels == ("O", "B", "I")
        assert sentences.place(0, 1) == "dataset_name 'x', split 'train', row 0, word 1"

    def test_strings_and_plain_integers(self):
        dataset = Dataset.from_dict({"words": [["a"]], "pos_tags": [["NOUN"]], "numbers": [[7]]})
        assert tagged_from_dataset(dataset, "x").labels == [["NOUN"]]
        assert tagged_from_dataset(dataset, "x", label_column="numbers").labels == [["7"]]

    def test_bad_columns(self):
        for columns, named in (
            ({"tokens": [["a"]]}, ("'ner_tags'", "['tokens']", "--label_column")),
            ({"text": [["a"]], "tags": [["O"]]}, ("'tokens'", "--word_column")),
            ({"tokens": [["a"]], "pos_tags": [["O"]], "chunk_tags": [["O"]]}, "'ner_tags'"),
            ({"tokens": [["a"], ["a", "b"]], "tags": [["O"], ["O"]]}, "row 1"),
            ({"tokens": ["a b"], "tags": [["O"]]}, ("row 0", "'tokens'")),
            ({"tokens": [[1]], "tags": [["O"]]}, ("row 0", "'tokens'")),
            ({"tokens": [["a"]], "tags": [[0.5]]}, ("row 0", "'tags'")),
            ({"tokens": [[]], "tags": [[]]}, "no words"),
        ):
            assert_refused(ValueError, named, tagged_from_dataset, Dataset.from_dict(columns), "x")

    def test_hidden_labels(self):
        features = Features({"tokens": Sequence(Value("string")), "tags": Sequence(ClassLabel(names=["O", "B"]))})
        dataset = Dataset.from_dict({"tokens": [["a"]], "tags": [[-1]]}, features=features)
        assert_refused(ValueError, ("row 0", "'tags'", "[-1]"), tagged_from_dataset, dataset, "x")

    def test_directories(self, tmp_path):
        dataset = Dataset.from_dict({"tokens": [["a"]], "tags": [["O"]]})
        DatasetDict(train=dataset).save_to_disk(tmp_path / "saved")
        (tmp_path / "parquet").mkdir()
        dataset.to_parquet(tmp_path / "parquet" / "train.parquet")
        for name in ("saved", "parquet"):
            loaded = load_named_dataset(str(tmp_path / name))
            assert tagged_from_dataset(loaded["train"], "x").words == [["a"]]

    def test_unknown_name(self):
        with pytest.raises(ValueError, match="dataset_name 'nobody/nothing'"):
            load_named_dataset("nobody/nothing")


WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\r\n"), min_size=1, max_size=5).map(
    lambda word: word.strip(" ") or word
)


@given(st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=1, max_size=3))
def test_what_is_written_is_read_again(tmp_path_factory, words):
    words = [[word for word in row if not word.startswith(("\ufeff", "-DOCSTART-"))] or ["x"] for row in words]
    path = tmp_path_factory.getbasetemp() / "written.conll"
    dataset = Dataset.from_dict({"tokens": words, "tags": [["O"] * len(row) for row in words]})
    sentences = tagged_from_dataset(dataset, "x")
    write_predictions(path, sentences.words, sentences.labels, [["B-X"] * len(row) for row in words])
    read = read_tagged_file(path)
    assert read.words == words
    assert read.labels == [["B-X"] * len(row) for row in words]
    assert read_tagged_file(path, label_column=1).labels == [["O"] * len(row) for row in words]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_they_do_on_any_system(tmp_path, end):
    (tmp_path / "a.conll").write_bytes(f"a X{end}b Y{end}{end}c X{end}".encode())
    assert read_tagged_file(tmp_path / "a.conll").words == [["a", "b"], ["c"]]
    row = "\t".join(["1", "a", "_", "X", *"______"])
    (tmp_path / "a.conllu").write_bytes(f"# text{end}{row}{end}{end}{row}{end}{end}".encode())
    assert read_tagged_file(tmp_path / "a.conllu").words == [["a"], ["a"]]


@pytest.mark.parametrize("content", [b'{"tokens": ["a"]\n', b"", b"\xff\xfe"])
def test_a_directory_of_bad_records_is_refused_by_its_name(tmp_path, content):
    (tmp_path / "train.jsonl").write_bytes(content)
    message = assert_refused(ValueError, str(tmp_path), load_named_dataset, str(tmp_path))
    assert len(message) < 800 and "\n" not in message
