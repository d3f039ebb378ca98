"""The page's tokenizer gives Python's rows on text of all kinds: the words and the character ids of each."""

import json
import random
import shutil
import subprocess
import unicodedata

import pytest
import regex

from hf_elmo import ElmoCharTokenizer
from hf_elmo.model.configuration_elmo import DICTIONARY_MARKS
from hf_elmo.web.export import STATIC
from hf_elmo.web.rules import tokenizer_rules

SETTINGS = [
    {"pre_tokenizer": "whitespace"},
    {"pre_tokenizer": "punctuation", "characters": [*DICTIONARY_MARKS, *"abcdefghijklmnopqrstuvwxyz한국어,."]},
    {"pre_tokenizer": "unicode", "max_characters_per_word": 16},
    {"pre_tokenizer": "unicode", "normalization": "NFC", "drop_invisible": True, "do_lower_case": True},
    {"pre_tokenizer": "penn", "ascii_marks": True},
]
PIECES = [
    *"can't cannot gonna wan't http://a.b/c www.x.org/(a)b, a@b.co U.S. Mr. Dr. St. I. A. 's n't N'T '' -- ...".split(),
    *"3,000.5 12:30 Alice's rock-n-roll é < > ( ) \u2019s \u201c 눈 사과 カナ 漢字 ไทย हिन्दी <S> </S> <bos>".split(),
    *("\u200b", "\ufeff", "\u00ad", "\U0001f468\u200d\U0001f469", " ", " ", " ", "  ", "\t", "\x1c"),
]
# Of what Unicode's boundaries know.
PROPERTIES = [f"GCB={each}" for each in "CR LF Control Extend ZWJ RI Prepend SpacingMark L V T LV LVT".split()] + [
    *(f"InCB={each}" for each in ("Linker", "Consonant", "Extend")),
    *(f"WB={each}" for each in "ALetter Hebrew_Letter Katakana MidNum MidLetter ExtendNumLet".split()),
    *("ExtPict", "Lu", "Nd", "P", "S", "Z", "Cf"),
]
RUN = """
import fs from "node:fs";
const { Tokenizer } = await import(process.argv[1]);
const { rules, lines } = JSON.parse(fs.readFileSync(0, "utf-8"));
console.log(JSON.stringify(rules.map((each) => {
  const tokenizer = new Tokenizer(each);
  return lines.map((line) => tokenizer.tokenize(line).map((word) => [word, tokenizer.row(word)]));
})));
"""


def lines_of_all_kinds(count, seed=0):
    """Lines of words, marks, and characters of each kind; those that Python's own Unicode has, as browsers do."""
    draw = random.Random(seed)
    # Not those of the newest versions, which browsers may not compose or lower-case as this Python does.
    known = "".join(each for each in map(chr, range(0x110000)) if unicodedata.category(each) not in ("Cn", "Cs", "Co"))
    kinds = [found for name in PROPERTIES if (found := regex.findall(rf"\p{{{name}}}", known))]
    for _ in range(count):
        yield "".join(
            draw.choice(PIECES) if draw.random() < 0.5 else draw.choice(draw.choice(kinds))
            for _ in range(draw.randint(1, 14))
        )


def rows_differ(lines, settings):
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node")
    tokenizers = [ElmoCharTokenizer(**each) for each in settings]
    given = json.dumps({"rules": [tokenizer_rules(each) for each in tokenizers], "lines": lines})
    command = [node, "--input-type=module", "-e", RUN, (STATIC / "tokenizer.js").as_uri()]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
    for tokenizer, found in zip(tokenizers, json.loads(done.stdout), strict=True):
        for line, words in zip(lines, found, strict=True):
            own = tokenizer.tokenize(line)
            wanted = [list(each) for each in zip(own, tokenizer.encode_words(own).tolist(), strict=True)]
            if words != wanted:
                yield ascii(line), [word for word, _ in words], own


def test_rows_are_those_of_python():
    assert list(rows_differ(list(lines_of_all_kinds(300)), SETTINGS)) == []


@pytest.mark.slow
def test_rows_are_those_of_python_on_10_000_lines():
    assert list(rows_differ(list(lines_of_all_kinds(10_000, seed=1)), SETTINGS)) == []
