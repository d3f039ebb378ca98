"""A word as a fixed-width row of character ids, and back."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import MappingProxyType

# Ids after the shift by one that frees 0 for "no word here": a byte b has the id b + 1.
NO_WORD = 0
BEGIN_SENTENCE = 257
END_SENTENCE = 258
BEGIN_WORD = 259
END_WORD = 260
PAD_CHARACTER = 261
NUM_CHARACTERS = 262

# Of a row. No word of any language has so many bytes, and a wider row takes memory for each word of a batch.
MAX_CHARACTERS_PER_WORD = 1000

BOS_TOKEN = "<S>"
EOS_TOKEN = "</S>"
PAD_TOKEN = "<PAD>"

_MARKERS = {BOS_TOKEN: BEGIN_SENTENCE, EOS_TOKEN: END_SENTENCE}
_MARKER_WORDS = {character: word for word, character in _MARKERS.items()}

# The marks of ELMoForManyLangs's dictionaries: around sentences, around words, behind words, and for all else.
DICTIONARY_MARKS = ("<bos>", "<eos>", "<bow>", "<eow>", "<pad>", "<oov>")
_DICTIONARY_MARKERS = {"<bos>": BOS_TOKEN, "<eos>": EOS_TOKEN}


def encode_word(word: str, max_characters: int = 50) -> list[int]:
    """Turn a word into its row of character ids (Peters et al. 2018; the byte scheme of bilm-tf).

    A row is BEGIN_WORD, the word's UTF-8 bytes shifted by one, END_WORD, then PAD_CHARACTER up to the width. At most
    `max_characters - 2` bytes are kept; the cut falls between bytes, as in the released models, even inside a code
    point. Code points that UTF-8 cannot hold (lone surrogates) are left out. The words `<S>` and `</S>` are the
    sentence markers: a single character of their own between BEGIN_WORD and END_WORD.

    Args:
        word: Any string, the empty one included.
        max_characters: Width C of the row.
    Returns: C ids.
    """
    row = word_characters(word, max_characters)
    return row + [PAD_CHARACTER] * (max_characters - len(row))


def word_characters(word: str, max_characters: int) -> list[int]:
    """The row of a word (see `encode_word`) up to its END_WORD, without the padding after it."""
    marker = _MARKERS.get(word)
    if marker is not None:
        return [BEGIN_WORD, marker, END_WORD]
    kept = word.encode("utf-8", "ignore")[: max_characters - 2]
    return [BEGIN_WORD, *[byte + 1 for byte in kept], END_WORD]


def decode_row(row: list[int]) -> str:
    """Turn a row of character ids back into its word; the inverse of `encode_word` for words that fit.

    Bytes that do not form a code point, as where a long word was cut inside one, are left out. A row of zeros ("no
    word here") gives the empty string.

    Args:
        row: C character ids.
    """
    characters = []
    for character in row:
        if character in (END_WORD, PAD_CHARACTER, NO_WORD):
            break
        if character != BEGIN_WORD:
            characters.append(character)
    if len(characters) == 1 and characters[0] in _MARKER_WORDS:
        return _MARKER_WORDS[characters[0]]
    return bytes(character - 1 for character in characters if 1 <= character <= 256).decode("utf-8", "ignore")


def is_marker_row(row: list[int]) -> bool:
    """Whether a row of character ids is that of a sentence marker, `<S>` or `</S>`."""
    return len(row) > 2 and row[0] == BEGIN_WORD and row[1] in _MARKER_WORDS and row[2] == END_WORD


@functools.cache
def character_vocabulary() -> Mapping[str, int]:
    """The names of the 262 character ids: printable ASCII as itself, other bytes as `<0xNN>`, and the special ones."""
    names = {PAD_TOKEN: NO_WORD}
    for byte in range(256):
        printable = 0x20 < byte < 0x7F
        names[chr(byte) if printable else f"<0x{byte:02X}>"] = byte + 1
    names.update(_MARKERS)
    names.update({"<W>": BEGIN_WORD, "</W>": END_WORD, "<CHARACTER_PAD>": PAD_CHARACTER})
    return MappingProxyType(names)


class ByteCharacters:
    """The byte scheme of bilm-tf, whose ids are those above."""

    size = NUM_CHARACTERS
    begin_sentence, end_sentence, padding = BEGIN_SENTENCE, END_SENTENCE, PAD_CHARACTER

    def word_as_read(self, word: str, width: int) -> str:
        """A word as a vocabulary has it, which is as it was given."""
        return word

    def word_characters(self, word: str, width: int) -> list[int]:
        """As the function of this name."""
        return word_characters(word, width)

    def decode_row(self, row: Sequence[int]) -> str:
        """As the function of this name."""
        return decode_row(list(row))

    def is_marker_row(self, row: Sequence[int]) -> bool:
        """As the function of this name."""
        return is_marker_row(list(row))

    def vocabulary(self) -> dict[str, int]:
        """As `character_vocabulary`, to be changed at will."""
        return dict(character_vocabulary())


class DictionaryCharacters:
    """The scheme of ELMoForManyLangs (Che et al. 2018): a word is its code points, with ids from a dictionary.

    A row is `<eow>`, the word's characters, `<bow>`, then `<pad>` up to the width: that program swaps the marks of
    begin and end, and its models have learned it so. A character that the dictionary lacks is `<oov>`. The words
    `<bos>` and `<eos>` are the sentence markers, rows of one character; here `<S>` and `</S>` are other
    names of them.

    Args:
        characters: The entries by id, from 1 on: code points, and the six marks.
    Raises: ValueError naming a mark that is missing or an entry that stands twice; TypeError for no list of strings.
    """

    def __init__(self, characters: Sequence[str]):
        if isinstance(characters, str) or not all(isinstance(character, str) for character in characters):
            raise TypeError(f"characters is {repr(characters)[:80]}; wanted a list of strings.")
        self.characters = tuple(characters)
        self._ids = {character: index for index, character in enumerate(self.characters, start=1)}
        missing = [mark for mark in DICTIONARY_MARKS if mark not in self._ids]
        if missing:
            raise ValueError(f"characters lacks the mark {missing[0]!r}; it must hold {', '.join(DICTIONARY_MARKS)}.")
        if len(self._ids) < len(self.characters):
            twice = next(each for place, each in enumerate(self.characters, start=1) if self._ids[each] != place)
            raise ValueError(f"characters holds {twice!r} twice; each entry has one id.")
        begin, end, self._word_end, self._word_begin, self.padding, self._unknown = (
            self._ids[mark] for mark in DICTIONARY_MARKS
        )
        self.begin_sentence, self.end_sentence = begin, end
        self.size = len(self.characters) + 1
        self._marker_characters = {BOS_TOKEN: begin, EOS_TOKEN: end}
        self._marker_words = {begin: BOS_TOKEN, end: EOS_TOKEN}

    def word_as_read(self, word: str, width: int) -> str:
        """A word as a vocabulary has it: cut to what a row holds of it, and sentence markers by their names here."""
        return _DICTIONARY_MARKERS.get(word, word if word in self._marker_characters else word[: width - 2])

    def word_characters(self, word: str, width: int) -> list[int]:
        """The row of a word up to its padding."""
        word = self.word_as_read(word, width)
        marker = self._marker_characters.get(word)
        get, unknown = self._ids.get, self._unknown
        kept = [get(character, unknown) for character in word] if marker is None else [marker]
        return [self._word_begin, *kept, self._word_end]

    def decode_row(self, row: Sequence[int]) -> str:
        """The word of a row; `<oov>` stands for characters that the dictionary lacks."""
        kept = []
        for character in row[1:]:
            if character in (self._word_end, self.padding, NO_WORD):
                break
            kept.append(character)
        if len(kept) == 1 and kept[0] in self._marker_words:
            return self._marker_words[kept[0]]
        return "".join(self.characters[character - 1] for character in kept if character <= len(self.characters))

    def is_marker_row(self, row: Sequence[int]) -> bool:
        """Whether a row is that of a sentence marker."""
        return len(row) > 2 and row[0] == self._word_begin and row[1] in self._marker_words

    def vocabulary(self) -> dict[str, int]:
        """The names of the ids; those of the sentence markers are `<S>` and `</S>`."""
        names = {_DICTIONARY_MARKERS.get(character, character): index for character, index in self._ids.items()}
        return {PAD_TOKEN: NO_WORD, **names}


CharacterScheme = ByteCharacters | DictionaryCharacters
