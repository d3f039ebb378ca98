"""A word as a fixed-width row of character ids, and back."""

from __future__ import annotations

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


def character_vocabulary() -> dict[str, int]:
    """The names of the 262 character ids: printable ASCII as itself, other bytes as `<0xNN>`, and the special ones."""
    names = {PAD_TOKEN: NO_WORD}
    for byte in range(256):
        printable = 0x20 < byte < 0x7F
        names[chr(byte) if printable else f"<0x{byte:02X}>"] = byte + 1
    names.update(_MARKERS)
    names.update({"<W>": BEGIN_WORD, "</W>": END_WORD, "<CHARACTER_PAD>": PAD_CHARACTER})
    return names
