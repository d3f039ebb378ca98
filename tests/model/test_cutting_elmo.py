"""Raw text cut into words: Unicode's boundaries, normalising, and offsets into the text as it was given."""

# ruff: noqa: RUF001 (Persian and typographic quotes are what is tested)

import copy
import pickle
import unicodedata
from dataclasses import replace

import datasets
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo import ElmoCharTokenizer
from hf_elmo.model.tokenization_elmo import NORMALIZATIONS, PENN_RULES, PRE_TOKENIZERS, UNICODE_RULES, TextCutter

FAMILY, ENGLAND = "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f3f4\U000e0067\U000e0062\U000e007f"
KOREA, AMERICA = "\U0001f1f0\U0001f1f7", "\U0001f1fa\U0001f1f8"
# What is joined, composed, dropped or cut in every way; combining marks of several classes in any order.
hard = (
    "aB1é'’\".,:;-_@/ \t\u3000"
    "e\u0301\u0323\u0338=\u200b\u200c\u200d\u00ad\ufeff\u202e한\u1112\u1161\u11ab日のカกำ\u0958"
    "\u05d0\u0939\u093f\u2adc\U0001f468\U0001f44d\U0001f3fd\ufe0f\u20e3\U0001f1f0\U0001f1f7\ud800"
)
english = st.lists(
    st.sampled_from(
        "don't can’t n't cannot Gonna Mr. mr. I. J. U.S. e.g. etc. Alice's 's boys' cat's-eye they'd've o'clock 3.14 "
        "1,234 08/16/2000 -- ... !! “ ” \" ' - , . ; well-known a/b na not A.B x@y.org".split()
    )
).flatmap(
    lambda words: st.lists(st.sampled_from(["", " ", "  "]), min_size=len(words), max_size=len(words)).map(
        lambda spaces: "".join(word + space for word, space in zip(words, spaces, strict=True))
    )
)
texts = english | st.text() | st.text(hard, max_size=24) | st.text("ab.@1' ", max_size=16)
cutters = st.builds(
    TextCutter, st.sampled_from(PRE_TOKENIZERS), st.sampled_from(NORMALIZATIONS), *(st.booleans() for _ in "ab")
)
unicode_words, penn_words = TextCutter("unicode").words, TextCutter("penn").words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I don't; they’ve gone.", ["I", "don't", ";", "they’ve", "gone", "."]),
        ("'tis the dogs' 'home'", ["'", "tis", "the", "dogs", "'", "'", "home", "'"]),
        ("In the U.S. (i.e. here), J. Doe.", "In|the|U.S.|(|i.e.|here|)|,|J|.|Doe|.".split("|")),
        ("3.14 1,234.5 50% $5 12:30 a:b", "3.14|1,234.5|50|%|$|5|12|:|30|a|:|b".split("|")),
        ("state-of-the-art well... no--yes", "state|-|of|-|the|-|art|well|.|.|.|no|-|-|yes".split("|")),
        ("a_b __init__ C++ #tag @me", "a_b|__init__|C|+|+|#|tag|@|me".split("|")),
        (
            "(see https://x.org/a_(b)?c=d#e, or www.y.net).",
            "(|see|https://x.org/a_(b)?c=d#e|,|or|www.y.net|)|.".split("|"),
        ),
        ("mail a.b+c@d.co.uk, <x@y.org>.", "mail|a.b+c@d.co.uk|,|<|x@y.org|>|.".split("|")),
        (f"{FAMILY}{KOREA}{AMERICA}1\ufe0f\u20e3{ENGLAND}", [FAMILY, KOREA, AMERICA, "1\ufe0f\u20e3", ENGLAND]),
        ("\U0001f44d\U0001f3fd\U0001f44d ❤️!", ["\U0001f44d\U0001f3fd", "\U0001f44d", "❤️", "!"]),
        ("나는 학교에 3점 갔다ㅋㅋ..", ["나는", "학교에", "3점", "갔다ㅋㅋ", ".", "."]),
        ("日本のカタカナとABC。", ["日", "本", "の", "カタカナ", "と", "ABC", "。"]),
        ("ไทย น้ำ", ["ไ", "ท", "ย", "น้ำ"]),
        ('می\u200cخواهم हिन्दी צה"ל e\u0301te\u0301', ["می\u200cخواهم", "हिन्दी", 'צה"ל', "e\u0301te\u0301"]),
        ("", []),
        (" \x1c\u3000", []),
    ],
)
def test_unicode_words_are_what_a_reader_would_call_words(text, words):
    assert unicode_words(text) == words
    assert ElmoCharTokenizer("unicode").tokenize(text) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't go: I can’t, it's Alice's.", "Do|n't|go|:|I|ca|n’t|,|it|'s|Alice|'s|.".split("|")),
        ("They'd've, cannot; WANNA but nota", "They|'d|'ve|,|can|not|;|WAN|NA|but|nota".split("|")),
        ("the dogs' o'clock, 'tis a cat's-eye", "the|dogs|'|o'clock|,|'|tis|a|cat's-eye".split("|")),
        ("Mr. J. R. Roe (U.S.) and I. Am I? etc.", "Mr.|J.|R.|Roe|(|U.S.|)|and|I|.|Am|I|?|etc.".split("|")),
        ("well-known, 3.14 1,234 12:30 5/6/99 $5 a/b", "well-known|,|3.14|1,234|12:30|5/6/99|$|5|a|/|b".split("|")),
        ("no -- never--ever... what?! Oh!!", "no|--|never|--|ever|...|what|?|!|Oh|!!".split("|")),
        ("do n't 's can not ca n't Mr. -- U.S. ,", "do|n't|'s|can|not|ca|n't|Mr.|--|U.S.|,".split("|")),
    ],
)
def test_penn_words_are_those_of_the_treebank(text, words):
    assert penn_words(text) == words
    assert penn_words(" ".join(words)) == words
    assert ElmoCharTokenizer("penn").tokenize(text) == words


def test_typographic_marks_are_read_as_those_of_a_keyboard():
    tokenizer = ElmoCharTokenizer("penn", ascii_marks=True)
    typographic, plain = "“Don’t…” – he—said", '"Don\'t..." - he--said'
    first, second = (tokenizer(text, return_offsets_mapping=True) for text in (typographic, plain))
    assert first["input_ids"] == second["input_ids"]
    assert tokenizer.tokenize(typographic) == ['"', "Do", "n't", "...", '"', "-", "he", "--", "said"]
    spans = first["offset_mapping"][1:-1]
    assert [typographic[start:end] for start, end in spans] == ["“", "Do", "n’t", "…", "”", "–", "he", "—", "said"]
    assert tokenizer.words_as_read(["’s", "—"]) == ["'s", "--"]


@given(text=texts)
def test_the_short_cuts_find_what_the_rules_find(text):
    assert unicode_words(text) == regex.findall("|".join(UNICODE_RULES), text, regex.V1)
    assert penn_words(text) == regex.findall("|".join(PENN_RULES), text, regex.V1)


@pytest.mark.parametrize("pre_tokenizer", PRE_TOKENIZERS)
@given(text=texts)
def test_words_leave_out_white_space_alone(pre_tokenizer, text):
    assert "".join(TextCutter(pre_tokenizer).words(text)) == "".join(text.split())


@given(text=texts, cutter=cutters)
def test_spans_are_where_the_words_stand_in_the_text_as_given(text, cutter):
    words, spans = cutter.words(text), cutter.spans(text)
    assert len(words) == len(spans)
    for word, (start, end) in zip(words, spans, strict=True):
        assert 0 <= start < end <= len(text)
        # A letter and its marks may be one character in one form and two words in the other.
        assert word in "".join(replace(cutter, pre_tokenizer="whitespace").words(text[start:end]))
        if not cutter.changes_words:
            assert word == text[start:end]
    for edges in zip(*spans, strict=True):
        assert list(edges) == sorted(edges)


@pytest.mark.parametrize("pre_tokenizer", PRE_TOKENIZERS)
@given(text=texts)
def test_texts_that_look_alike_give_the_same_words(pre_tokenizer, text):
    cutter = TextCutter(pre_tokenizer, "NFC")
    forms = [cutter.words(unicodedata.normalize(form, text)) for form in ("NFC", "NFD")]
    assert cutter.words(text) == forms[0] == forms[1]
    for words in forms:
        assert [cutter.word_as_read(word) for word in words] == words


def test_what_nobody_sees_is_dropped_and_what_joins_is_kept():
    text = f"\ufeffso\u00adft \u202bword\u202c {FAMILY} می\u200cخواهم zero\u200bwidth \u2060"
    kept = ["soft", "word", FAMILY, "می\u200cخواهم", "zero", "width"]
    for pre_tokenizer in ("whitespace", "unicode"):
        tokenizer = ElmoCharTokenizer(pre_tokenizer, drop_invisible=True)
        encoded = tokenizer(text, return_offsets_mapping=True)
        assert encoded.tokens()[1:-1] == tokenizer.tokenize(text) == kept
        spans = encoded["offset_mapping"][1:-1]
        assert [text[start:end] for start, end in spans] == ["so\u00adft", *kept[1:]]
        assert encoded.char_to_token(text.index("ft")) == 1
    assert len(ElmoCharTokenizer("unicode").tokenize(text)) > len(kept)


def test_composed_words_have_one_row_and_offsets_of_their_own_text():
    tokenizer = ElmoCharTokenizer("unicode", normalization="NFC", do_lower_case=True)
    composed, apart = "É, né", "E\u0301, ne\u0301"
    first, second = (tokenizer(text, return_offsets_mapping=True) for text in (composed, apart))
    assert first["input_ids"] == second["input_ids"]
    assert first["offset_mapping"][1:-1] == [(0, 1), (1, 2), (3, 5)]
    assert second["offset_mapping"][1:-1] == [(0, 2), (2, 3), (4, 7)]
    assert tokenizer.decode(second["input_ids"], skip_special_tokens=True) == "é , né"
    # A list of words is read the same way, a word a row, and its offsets stay those of the words as given.
    listed = tokenizer(["E\u0301", ",", "ne\u0301"], is_split_into_words=True, return_offsets_mapping=True)
    assert listed["input_ids"] == first["input_ids"]
    assert listed["offset_mapping"][1:-1] == [(0, 2), (0, 1), (0, 3)]
    assert tokenizer.words_as_read(["E\u0301", None]) == ["é", None]


def test_old_tokenizers_read_text_as_it_is():
    text = "e\u0301 so\u00adft"
    assert ElmoCharTokenizer().tokenize(text) == text.split()


def test_the_settings_are_saved_copied_and_part_of_the_fingerprint_of_datasets(tmp_path):
    tokenizer = ElmoCharTokenizer("unicode", normalization="NFC", drop_invisible=True)
    tokenizer.save_pretrained(tmp_path)
    text = "don't go\u200bne\u0301!"
    wanted = tokenizer(text, return_offsets_mapping=True)
    for other in (
        ElmoCharTokenizer.from_pretrained(tmp_path),
        copy.deepcopy(tokenizer),
        pickle.loads(pickle.dumps(tokenizer)),
    ):
        assert (other.pre_tokenizer, other.normalization, other.drop_invisible) == ("unicode", "NFC", True)
        assert other(text, return_offsets_mapping=True).data == wanted.data
    rows = datasets.Dataset.from_dict({"text": [text, ""]})
    mapped = rows.map(lambda batch: tokenizer(batch["text"]), batched=True)
    assert mapped[0]["input_ids"] == wanted["input_ids"]
    assert pickle.dumps(tokenizer) == pickle.dumps(
        ElmoCharTokenizer("unicode", normalization="NFC", drop_invisible=True)
    )


def test_a_setting_that_is_changed_is_obeyed_and_saved(tmp_path):
    tokenizer = ElmoCharTokenizer()
    tokenizer.pre_tokenizer, tokenizer.normalization = "unicode", "NFC"
    tokenizer.save_pretrained(tmp_path)
    for each in (tokenizer, ElmoCharTokenizer.from_pretrained(tmp_path)):
        assert each.tokenize("cafe\u0301!") == ["café", "!"]


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"normalization": "NFKC"}, "normalization"),
        ({"drop_invisible": 1}, "drop_invisible"),
        ({"ascii_marks": "no"}, "ascii_marks"),
    ],
)
def test_bad_settings_of_reading_are_refused_by_name(settings, name):
    with pytest.raises((ValueError, TypeError), match=name):
        ElmoCharTokenizer(**settings)


def test_text_without_any_space_takes_time_in_proportion():
    for unit in ("a.", "a@", "www.", "http://(", "a'", "-", "日", "é\u0301", "can't", "a's.", "1/", "gon"):
        for words in (unicode_words, penn_words):
            assert "".join(words(unit * 20_000)) == unit * 20_000
