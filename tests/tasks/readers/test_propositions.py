"""Predicates with their arguments: the columns of three releases, what is refused, and that writing is reading."""

import itertools
from dataclasses import replace

import pytest
from conftest import shared_data
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo.model.modeling_elmo_tasks import Span, read_spans, write_spans
from hf_elmo.tasks.readers.propositions import proposition_lines, read_propositions, write_brackets

PROPBANK = """Bush	NNP	-	-	(ARG0*	*
named	VBD	name	name.01	(V*)	*
two	CD	-	-	(ARG1*	(ARG0*
to	TO	-	-	*	*)
go	VB	go	go.01	*)	(V*)

Yes	UH	-	-
.	.	-	-
""".replace("(ARG0*	*\nnamed", "(ARG0*)	*\nnamed")
CONLL_2005 = """The        DT    (S*        -          (A0*       *
man        NN    *          -            *)      (R-A0*)
seems      VBZ   *          seem        (V*)        *
gone       VBN   *)         go          (C-A0*)    (V*)
"""
CONLL_2012 = """#begin document (bc/x); part 000
bc/x 0 0 He PRP (S* - - - A (X) (ARG0*) * (3)
bc/x 0 1 has VBZ * have 01 1 A * (V*) * -
bc/x 0 2 come VBN * come 03 2 A * * (V*) -
bc/x 0 3 /. . *) - - - A * * * -

bc/x 0 0 Noun NN * noun 01 1 A * 3)
#end document
"""


def test_a_release_of_propbank_is_read(write):
    propositions = read_propositions(write(PROPBANK))
    first, second = propositions.sentences
    assert first.words == ["Bush", "named", "two", "to", "go"] and propositions.text(1) == "Yes ."
    assert [predicate.place for predicate in first.predicates] == [1, 4]
    assert [predicate.tags for predicate in first.predicates] == [
        ["B-ARG0", "B-V", "B-ARG1", "I-ARG1", "I-ARG1"],
        ["O", "O", "B-ARG0", "I-ARG0", "B-V"],
    ]
    assert (second.predicates, second.line, propositions.num_predicates) == ([], 7, 2)
    assert propositions.roles == ["ARG0", "ARG1", "V"] == propositions.pick([1]).roles
    assert len(propositions.pick([1])) == 1


def test_the_columns_of_conll_are_read_of_2012_with_their_predicates_by_the_verb(write):
    (sentence,) = read_propositions(write(CONLL_2005)).sentences
    assert [predicate.place for predicate in sentence.predicates] == [2, 3]
    assert sentence.predicates[0].tags == ["B-A0", "I-A0", "B-V", "B-C-A0"]
    assert sentence.predicates[1].tags == ["O", "B-R-A0", "O", "B-V"]
    first, second = read_propositions(write(CONLL_2012)).sentences
    assert first.words == ["He", "has", "come", "/."] and second.words == ["Noun"] and second.predicates == []
    assert [predicate.place for predicate in first.predicates] == [1, 2]
    assert first.predicates[0].tags == ["B-ARG0", "B-V", "O", "O"]
    assert first.behind == [["(3)"], ["-"], ["-"], ["-"]]


@pytest.mark.parametrize("text", [PROPBANK, CONLL_2005, CONLL_2012])
def test_what_is_written_is_read_again(write, text):
    read = read_propositions(write(text)).sentences
    lines = ["#begin document (bc/x); part 000"] if text is CONLL_2012 else []
    for sentence in read:
        lines += proposition_lines(sentence, [predicate.tags for predicate in sentence.predicates])
    again = read_propositions(write("\n".join(lines))).sentences
    assert [replace(one, line=0) for one in read] == [replace(other, line=0) for other in again]


def test_other_arguments_are_written_in_place_of_a_sentences_own(write):
    sentence = read_propositions(write(PROPBANK))[0]
    lines = list(proposition_lines(sentence, [["O"] * 5, ["B-ARG1", "I-ARG1", "O", "O", "B-V"]]))
    assert [line.split("\t")[5:] for line in lines[:-1]] == [["(ARG1*"], ["*)"], ["*"], ["*"], ["(V*)"]]
    assert lines[0].split("\t")[:5] == ["Bush", "NNP", "-", "-", "*"] and lines[-1] == ""


@given(st.lists(st.tuples(st.sampled_from(["A0", "C-A1", None]), st.integers(1, 3)), min_size=1, max_size=5))
def test_brackets_are_the_spans_of_tags(tmp_path_factory, parts):
    ends = list(itertools.accumulate(length for _, length in parts))
    spans = [Span(role, end - length, end) for (role, length), end in zip(parts, ends, strict=True) if role is not None]
    tags = write_spans(spans, ends[-1], "IOB2")
    path = tmp_path_factory.mktemp("brackets") / "x.tsv"
    rows = [["w", "p" if place == 0 else "-", cell] for place, cell in enumerate(write_brackets(tags))]
    path.write_text("\n".join(map("\t".join, rows)), encoding="utf-8")
    (predicate,) = read_propositions(path)[0].predicates
    assert predicate.tags == tags and read_spans(predicate.tags, "IOB2") == spans


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (("(ARG1*	(ARG0*", "(ARG1*"), ("line 3", "5 columns", "line 1")),
        (("name.01	(V*)", "-	(V*)"), ("line 1", "1 predicates", "2 columns")),
        (("to	TO	-	-	*	*)", "to	TO	-	-	(ARG2*	*)"), ("line 4", "'(ARG2*'", "ARG1")),
        (("go.01	*)", "go.01	*"), ("line 5", "ARG1")),
        (("(ARG0*)	*", "*)	*"), ("line 1", "'*)'")),
        (("go.01	*)	(V*)", "go.01	*)	V"), ("line 1", "columns of brackets")),
        (("(ARG0*)	*", f"(ARG0*	*\nx	NN	-	-	({'x' * 5000}*	*"), ("line 2", "xxx...", "ARG0")),
        ((PROPBANK, "\n\n"), ("no words",)),
        ((PROPBANK, "seem (V*)\n- *\n"), ("line 1", "columns of brackets")),
        ((PROPBANK, CONLL_2012.replace("* (V*) * -", "* (ARG2*) * -")), ("line 2", "(V*)")),
        ((PROPBANK, CONLL_2012.replace(" 1 A * 3)", "")), ("line 7", "8 columns")),
    ],
)
def test_what_cannot_be_read_is_named_by_its_line(write, change, parts):
    assert PROPBANK.replace(*change) != PROPBANK
    path = write(PROPBANK.replace(*change))
    message = assert_refused(ValueError, ("train_file", "data.tsv", *parts), read_propositions, path, name="train_file")
    assert len(message) < 500


def test_the_real_release_is_read_whole():
    propositions = read_propositions(shared_data("propbank_ewt/dev.tsv.gz"))
    assert (len(propositions), propositions.num_predicates) == (1957, 4953)
    tags = [predicate.tags[predicate.place] for sentence in propositions.sentences for predicate in sentence.predicates]
    assert sum(tag == "B-V" for tag in tags) > 0.99 * len(tags)
