"""ElmoCharTokenizer: text or words in, one row of character ids per word out."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal, cast

import numpy as np
from transformers import AddedToken, BatchEncoding, PreTrainedTokenizer
from transformers.tokenization_utils_base import TruncationStrategy
from transformers.utils import PaddingStrategy, is_torch_tensor, to_py_obj

from .characters_elmo import (
    BOS_TOKEN,
    EOS_TOKEN,
    MAX_CHARACTERS_PER_WORD,
    NO_WORD,
    PAD_TOKEN,
    ByteCharacters,
    CharacterScheme,
    DictionaryCharacters,
)
from .cutting_elmo import NORMALIZATIONS, PRE_TOKENIZERS, TextCutter
from .encodings_elmo import Sentence, WordEncoding
from .row_table_elmo import RowTable
from .texts_elmo import Text, as_samples
from .truncation_elmo import Truncation

_FIXED_TOKENS = {"bos_token": BOS_TOKEN, "eos_token": EOS_TOKEN, "pad_token": PAD_TOKEN}


class ElmoCharTokenizer(PreTrainedTokenizer):
    """Turns sentences into rows of character ids, one row per word, for the ELMo models.

    `input_ids` is one level deeper than with other tokenizers: (sentences, words, characters). Everything else is one
    entry per word. The sentence markers `<S>` and `</S>` are added around each sentence as BERT's are. There is no
    vocabulary of words and no unknown word: every string has a row (see `characters_elmo.encode_word`).

    A pair, `tokenizer("a b", "c")`, is `<S> a b </S> <S> c </S>` in one row of the batch; its `token_type_ids` say
    which words are of the second sentence, and `ElmoModel` reads each sentence on its own. What is cut of pairs that
    are too long, and which windows overflow, is as with BERT's fast tokenizer.

    Words that another program has cut, a morphological analyser of Korean for example or a segmenter of Thai, go in as
    lists: `tokenizer([["나", "는", "학교", "에"]], is_split_into_words=True)`; nothing cuts them further. In files for
    pre-training they stand with a space between them, for the pre-tokenizer "whitespace".

    Args:
        pre_tokenizer: How raw text is cut into words. Saved with the tokenizer, so that a checkpoint knows how its
            text was cut. Lists of words are never cut.
            "whitespace": at white space alone, for text whose words another program has set apart.
            "punctuation": runs of letters, digits and their combining marks; every other character stands alone, so
            that "don't", "U.S." and "3.14" fall into three and more.
            "unicode", for raw text: the word boundaries of Unicode (UAX 29). "don't", "3.14", "1,234" and "a_b" are a
            word each; so are web and mail addresses, "U.S." with its dots, an emoji with all that is joined to it and
            a flag. Every other mark is a word, a hyphen too. Han, hiragana and Thai, written without spaces, are cut
            between characters; runs of katakana and of hangul stay whole.
            "penn", for raw English text: the tokens of the Penn Treebank, in which most tagged and parsed English
            stands ("do n't", "Alice 's", "can not", "well-known", "Mr.", "--"). Text that is tokenised so stays as it
            is.
        max_characters_per_word: Width C of a row; longer words are cut to C - 2 bytes.
        do_lower_case: Whether words are lower-cased before their characters are read.
        normalization: "NFC" to compose letters and their accents; None reads the text as it is.
        drop_invisible: Whether soft hyphens, byte order marks, marks of direction and their like are left out, and a
            zero width space ends a word. What joins emoji and what parts the letters of a Persian word is kept.
        ascii_marks: Whether typographic quotes, dashes and ellipses are read as the marks of a keyboard, as they stand
            in most tokenised English.
        characters: The characters that a row is made of where they are code points and not bytes, in the order of their
            ids from 1 on; see `characters_elmo.DictionaryCharacters`, which models of ELMoForManyLangs are read with.

    Offsets point into the text as it was given, whatever is composed or left out.

    Raises: ValueError or TypeError naming the argument, the value got and the value wanted.
    """

    _auto_class = "AutoTokenizer"
    # token_type_ids are made of pairs; of single sentences where they are asked for.
    model_input_names = ["input_ids", "token_type_ids", "attention_mask"]

    def __init__(
        self,
        pre_tokenizer: str = "whitespace",
        max_characters_per_word: int = 50,
        do_lower_case: bool = False,
        normalization: Literal["NFC"] | None = None,
        drop_invisible: bool = False,
        ascii_marks: bool = False,
        characters: Sequence[str] | None = None,
        bos_token: str = BOS_TOKEN,
        eos_token: str = EOS_TOKEN,
        pad_token: str = PAD_TOKEN,
        **kwargs: Any,
    ):
        if pre_tokenizer not in PRE_TOKENIZERS:
            raise ValueError(f"pre_tokenizer is {pre_tokenizer!r}; it must be one of {sorted(PRE_TOKENIZERS)}.")
        if normalization not in NORMALIZATIONS:
            raise ValueError(f"normalization is {normalization!r}; it must be 'NFC', or None for the text as it is.")
        is_width = isinstance(max_characters_per_word, int) and not isinstance(max_characters_per_word, bool)
        if not is_width or not 3 <= max_characters_per_word <= MAX_CHARACTERS_PER_WORD:
            raise ValueError(
                f"max_characters_per_word is {max_characters_per_word!r}; it must be an integer from 3 (two places go "
                f"to the begin- and end-of-word marks) to {MAX_CHARACTERS_PER_WORD}, more than any word has bytes."
            )
        for name in ("is_local", "local_files_only"):
            # How its files were found; transformers would save that with it.
            kwargs.pop(name, None)
        for name in kwargs:
            # transformers has many more settings, and keeps those of others; only slips of the pen are told.
            if meant := _meant(name, ElmoCharTokenizer.__init__):
                raise TypeError(f"{name!r} is no setting of ElmoCharTokenizer{meant}.")
        switches = {"do_lower_case": do_lower_case, "drop_invisible": drop_invisible, "ascii_marks": ascii_marks}
        for name, value in switches.items():
            if not isinstance(value, bool):
                raise TypeError(f"{name} is {value!r}; it must be True or False.")
        # Before all else, for the checks that setting anything makes.
        self._scheme: CharacterScheme = ByteCharacters() if characters is None else DictionaryCharacters(characters)
        if characters is not None:
            kwargs["characters"] = list(characters)
        self._check_special_tokens({"bos_token": bos_token, "eos_token": eos_token, "pad_token": pad_token, **kwargs})
        self.pre_tokenizer = pre_tokenizer
        self.normalization = normalization
        self.drop_invisible = drop_invisible
        self.ascii_marks = ascii_marks
        self.max_characters_per_word = max_characters_per_word
        self.do_lower_case = do_lower_case
        self._table = RowTable(max_characters_per_word, self._scheme)
        super().__init__(
            pre_tokenizer=pre_tokenizer,
            max_characters_per_word=max_characters_per_word,
            do_lower_case=do_lower_case,
            normalization=normalization,
            drop_invisible=drop_invisible,
            ascii_marks=ascii_marks,
            bos_token=bos_token,
            eos_token=eos_token,
            pad_token=pad_token,
            **kwargs,
        )

    # What it knows

    @property
    def is_fast(self) -> bool:
        """True: encodings carry offsets and word ids, which is what transformers means by fast."""
        return True

    @property
    def vocab_size(self) -> int:
        """Number of character ids, the padding id 0 included."""
        return self._scheme.size

    @property
    def characters(self) -> tuple[str, ...] | None:
        """The characters of a row by their ids, from 1 on; None for bytes."""
        return self._scheme.characters if isinstance(self._scheme, DictionaryCharacters) else None

    def get_vocab(self) -> dict[str, int]:
        """The names of the character ids."""
        return self._scheme.vocabulary()

    @property
    def pad_token_id(self) -> int:
        """0: a row of zeros is no word."""
        return NO_WORD

    @property
    def bos_token_id(self) -> int:
        """The character id inside the row of `<S>`."""
        return self._scheme.begin_sentence

    @property
    def eos_token_id(self) -> int:
        """The character id inside the row of `</S>`."""
        return self._scheme.end_sentence

    @property
    def all_special_ids(self) -> list[int]:
        return [self._scheme.begin_sentence, self._scheme.end_sentence, NO_WORD]

    def __setattr__(self, key: str, value: Any) -> None:
        name = key.removesuffix("_id")
        if name in self.SPECIAL_TOKENS_ATTRIBUTES:
            key, value = name, value if name == key or value is None else self.convert_ids_to_tokens(value)
            self._check_special_tokens({name: value})
        super().__setattr__(key, value)

    def add_special_tokens(self, special_tokens_dict: dict[str, Any], replace_extra_special_tokens: bool = True) -> int:
        """Give names to tokens that exist already; others are refused before anything is changed.

        Raises: ValueError naming the token that is neither a marker nor a character.
        """
        self._check_special_tokens(special_tokens_dict or {})
        return super().add_special_tokens(special_tokens_dict, replace_extra_special_tokens)

    def _add_tokens(self, new_tokens: list[str] | list[AddedToken], special_tokens: bool = False) -> int:
        self._check_known("new_tokens", new_tokens or [])
        return super()._add_tokens(new_tokens, special_tokens=special_tokens)

    def _check_special_tokens(self, tokens: Mapping[str, Any]) -> None:
        """Check special tokens by name: those of the sentence are fixed, others must be among the characters."""
        for name, token in tokens.items():
            if name in _FIXED_TOKENS:
                if str(token) != _FIXED_TOKENS[name]:
                    raise ValueError(
                        f"{name} is {str(token)!r}; the character scheme fixes it to {_FIXED_TOKENS[name]!r}."
                    )
            elif name in ("extra_special_tokens", "additional_special_tokens"):
                self._check_known(name, token.values() if isinstance(token, Mapping) else token or [])
            elif name in self.SPECIAL_TOKENS_ATTRIBUTES and token is not None:
                self._check_known(name, [token])

    def _check_known(self, name: str, tokens: Iterable[str | AddedToken]) -> None:
        known = self._scheme.vocabulary()
        unknown = [str(token) for token in tokens if str(token) not in known]
        if unknown:
            raise ValueError(
                f"{name} holds {unknown[:3]}; ElmoCharTokenizer has no word vocabulary to add to, and needs none: "
                "every string already has its row of characters."
            )

    # Text to words, words to rows

    @property
    def _cutter(self) -> TextCutter:
        # Made anew each time: its settings may be changed, and are then saved.
        return TextCutter(self.pre_tokenizer, self.normalization, self.drop_invisible, self.ascii_marks)

    def tokenize(self, text: str, **kwargs: Any) -> list[str]:
        """Cut a text into its words, lower-cased and normalised where the tokenizer reads them so."""
        if not isinstance(text, str):
            raise TypeError(f"text is a {type(text).__name__}; tokenize takes a string.")
        return cast("list[str]", self._lower_cased(self._cutter.words(text)))

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> list[int] | list[list[int]]:
        """The row of a word, C ids, or the rows of a list of words."""
        if isinstance(tokens, str):
            return self.encode_words([tokens])[0].tolist()
        return self.encode_words(list(tokens)).tolist()

    def convert_ids_to_tokens(
        self, ids: int | Sequence[int] | Sequence[Sequence[int]], skip_special_tokens: bool = False
    ) -> str | list[str]:
        """The word of a row, or the words of a list of rows (without padding); of a single id, its character's name."""
        values: Any = to_py_obj(ids)
        if isinstance(values, int):
            if not 0 <= values < self.vocab_size:
                raise ValueError(f"ids is {values}; character ids are 0 to {self.vocab_size - 1}.")
            return next(name for name, index in self.get_vocab().items() if index == values)
        if values and isinstance(values[0], int):
            return self._scheme.decode_row(values)
        is_marker = self._scheme.is_marker_row
        return [
            self._scheme.decode_row(row) for row in values if any(row) and not (skip_special_tokens and is_marker(row))
        ]

    def decode(self, token_ids: Any, skip_special_tokens: bool = False, **kwargs: Any) -> str | list[str]:
        """Turn rows back into their words, joined by spaces; a batch of sentences gives a list of strings.

        Args:
            token_ids: (T, C) or (B, T, C) character ids, as lists, arrays or a tensor.
            skip_special_tokens: Whether to leave out `<S>` and `</S>`. Padding is always left out.
        """
        token_ids = to_py_obj(token_ids)
        if _is_batch(token_ids):
            return [cast(str, self.decode(sentence, skip_special_tokens)) for sentence in token_ids]
        if token_ids and isinstance(token_ids[0], int):
            token_ids = [token_ids]
        words = self.convert_ids_to_tokens(token_ids, skip_special_tokens=skip_special_tokens)
        return self.convert_tokens_to_string(cast("list[str]", words))

    def build_inputs_with_special_tokens(
        self, token_ids_0: list[list[int]], token_ids_1: list[list[int]] | None = None
    ) -> list[list[int]]:
        """Rows of a sentence, or of both of a pair, each with the rows of its markers around them."""
        begin, end = self.encode_words([BOS_TOKEN, EOS_TOKEN]).tolist()
        second = [] if token_ids_1 is None else [begin, *token_ids_1, end]
        return [begin, *token_ids_0, end, *second]

    def create_token_type_ids_from_sequences(
        self, token_ids_0: list[list[int]], token_ids_1: list[list[int]] | None = None
    ) -> list[int]:
        """0 for each row of a sentence and of its markers, 1 for those of the second sentence of a pair."""
        second = [] if token_ids_1 is None else [1] * (len(token_ids_1) + 2)
        return [0] * (len(token_ids_0) + 2) + second

    def get_special_tokens_mask(
        self,
        token_ids_0: list[list[int]],
        token_ids_1: list[list[int]] | None = None,
        already_has_special_tokens: bool = False,
    ) -> list[int]:
        """1 for markers and padding, 0 for words."""
        if already_has_special_tokens:
            return [int(self._scheme.is_marker_row(row) or not any(row)) for row in to_py_obj(token_ids_0)]
        second = [] if token_ids_1 is None else [1, *[0] * len(token_ids_1), 1]
        return [1, *[0] * len(token_ids_0), 1, *second]

    def encode_words(self, words: Sequence[str | None]) -> np.ndarray:
        """The rows of a list of words as one array, (len(words), C); None gives the row of zeros, "no word here"."""
        rows, places = self._table.look_up(self.words_as_read(words))
        return rows.take(places, axis=0)

    def words_as_read(self, words: Sequence[str | None]) -> Sequence[str | None]:
        """Words as their characters are read and as a vocabulary has them: lower-cased and normalised where set so."""
        cutter = self._cutter
        if cutter.changes_words:
            words = [None if word is None else cutter.word_as_read(word) for word in words]
        words = self._lower_cased(words)
        if isinstance(self._scheme, DictionaryCharacters):
            width, as_read = self.max_characters_per_word, self._scheme.word_as_read
            words = [None if word is None else as_read(word, width) for word in words]
        return words

    def _lower_cased(self, words: Sequence[str | None]) -> Sequence[str | None]:
        if not self.do_lower_case:
            return words
        return [word if word in (None, BOS_TOKEN, EOS_TOKEN) else word.lower() for word in words]

    # Encoding

    def _get_padding_truncation_strategies(
        self,
        padding: Any = False,
        truncation: Any = None,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        **kwargs: Any,
    ) -> Any:
        # transformers divides by it.
        if pad_to_multiple_of is not None and pad_to_multiple_of < 1:
            raise ValueError(f"pad_to_multiple_of is {pad_to_multiple_of}; it must be None or an integer >= 1.")
        return super()._get_padding_truncation_strategies(padding, truncation, max_length, pad_to_multiple_of, **kwargs)

    def _encode_plus(
        self,
        text: Any,
        text_pair: Any = None,
        add_special_tokens: bool = True,
        padding_strategy: PaddingStrategy = PaddingStrategy.DO_NOT_PAD,
        truncation_strategy: TruncationStrategy = TruncationStrategy.DO_NOT_TRUNCATE,
        max_length: int | None = None,
        stride: int = 0,
        is_split_into_words: bool = False,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        return_tensors: str | None = None,
        return_token_type_ids: bool | None = None,
        return_attention_mask: bool | None = None,
        return_overflowing_tokens: bool = False,
        return_special_tokens_mask: bool = False,
        return_offsets_mapping: bool = False,
        return_length: bool = False,
        verbose: bool = True,
        split_special_tokens: bool | None = None,
        **kwargs: Any,
    ) -> BatchEncoding:
        for name in kwargs:
            # Other versions of transformers pass more; only slips of the pen are told.
            if meant := _meant(name, PreTrainedTokenizer.__call__):
                raise TypeError(f"{name!r} is no argument of a tokenizer's call{meant}.")
        side = _checked_side(padding_side or self.padding_side)
        samples, is_batch = as_samples(text, text_pair, is_split_into_words)
        truncation = Truncation(
            truncation_strategy, max_length, self.truncation_side, return_overflowing_tokens, stride
        )
        encodings: list[WordEncoding] = []
        sample_of_row: list[int] = []
        for index, sample in enumerate(self._as_sentences(samples)):
            windows = truncation.encode(sample, bool(add_special_tokens))
            encodings += windows
            sample_of_row += [index] * len(windows)
        lengths = [encoding.num_rows for encoding in encodings]
        width = _padded_length(lengths, padding_strategy, max_length, pad_to_multiple_of)
        if width is not None:
            for encoding in encodings:
                encoding.pad(width, side)
        if return_tensors is not None and len(set(map(len, encodings))) > 1:
            raise ValueError(
                f"return_tensors={return_tensors!r} wants sentences of one length, but these have from {min(lengths)} "
                f"to {max(lengths)} words (markers included); add padding=True, and truncation=True beside max_length."
            )
        if return_tensors is not None and not encodings:
            raise ValueError("text is an empty batch: there is nothing to make tensors of. Leave empty batches out.")
        input_ids, attention_mask = self._rows_and_mask(encodings)
        data: dict[str, Any] = {"input_ids": input_ids}
        has_pairs = any(encoding.n_sequences > 1 for encoding in encodings)
        if return_token_type_ids or (return_token_type_ids is None and has_pairs):
            data["token_type_ids"] = [encoding.type_ids for encoding in encodings]
        if return_attention_mask is not False:
            data["attention_mask"] = attention_mask
        if return_special_tokens_mask:
            data["special_tokens_mask"] = [encoding.special_tokens_mask for encoding in encodings]
        if return_offsets_mapping:
            data["offset_mapping"] = [encoding.offsets for encoding in encodings]
        if return_length:
            data["length"] = [len(encoding) for encoding in encodings]
        if return_overflowing_tokens:
            data["overflow_to_sample_mapping"] = sample_of_row
            is_batch = True
        if return_tensors is not None:
            # transformers' conversion walks nested lists one by one; an array is taken as it is.
            data = {key: np.asarray(value) for key, value in data.items()}
        else:
            data = {key: _as_lists(value) for key, value in data.items()}
            if not is_batch:
                data = {key: value[0] for key, value in data.items()}
        return _batch_encoding(data, encodings, return_tensors)

    def _as_sentences(self, samples: list[tuple[Text, ...]]) -> Iterator[tuple[Sentence, ...]]:
        cutter = self._cutter
        for sample in samples:
            sentences = [
                Sentence(cutter.words(text), text, cutter) if isinstance(text, str) else Sentence(text)
                for text in sample
            ]
            yield tuple(sentences)

    def _rows_and_mask(
        self, encodings: list[WordEncoding]
    ) -> tuple[np.ndarray | list[np.ndarray], np.ndarray | list[np.ndarray]]:
        """For each sentence its rows, (T, C), and a mask, (T,): 1 for words and markers, 0 for padding."""
        words = list(chain.from_iterable(encoding.row_words() for encoding in encodings))
        rows, places = self._table.look_up(self.words_as_read(words))
        counts = [(encoding.padding_before, encoding.num_rows, encoding.padding_after) for encoding in encodings]
        has_word = np.repeat(np.tile([False, True, False], len(counts)), np.array(counts, dtype=np.intp).ravel())
        # Rows of 400 bytes are most of the work: they are written once, the padding with them.
        padded_places = np.zeros(len(has_word), dtype=np.intp)
        padded_places[has_word] = places
        lengths = [len(encoding) for encoding in encodings]
        return _split(rows.take(padded_places, axis=0), lengths), _split(has_word.astype(np.int64), lengths)

    def pad(
        self,
        encoded_inputs: Any,
        padding: bool | str | PaddingStrategy = True,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        return_attention_mask: bool | None = None,
        return_tensors: str | None = None,
        verbose: bool = True,
    ) -> BatchEncoding:
        """Pad one encoded sentence or a batch of them; as transformers' own, for rows.

        Args:
            encoded_inputs: An encoding, a dict of lists, or a list of dicts as a data collator gets them. Entries other
                than the tokenizer's own pass through unchanged.
            padding: True or "longest", "max_length", or False.
            max_length: Length in words for padding="max_length".
            pad_to_multiple_of: Lengths are rounded up to a multiple of this.
            padding_side: "left" or "right"; None takes the tokenizer's.
            return_attention_mask: False leaves the attention mask out.
            return_tensors: "pt", "np" or None for lists.
        """
        features = encoded_inputs
        if isinstance(features, (list, tuple)) and features and isinstance(features[0], Mapping):
            features = {key: [feature[key] for feature in features] for key in features[0]}
        if not isinstance(features, Mapping) or "input_ids" not in features:
            found = list(features) if isinstance(features, Mapping) else type(features).__name__
            raise ValueError(f"encoded_inputs holds {found}; wanted the tokenizer's output with 'input_ids' in it.")
        features = dict(features)
        ids = features["input_ids"]
        if return_tensors is None and len(ids):
            first = ids if is_torch_tensor(ids) or isinstance(ids, np.ndarray) else ids[0]
            return_tensors = "pt" if is_torch_tensor(first) else "np" if isinstance(first, np.ndarray) else None
        features = {key: to_py_obj(value) if key != "input_ids" else value for key, value in features.items()}
        is_batch = _is_batch(ids)
        if not is_batch:
            features = {key: [value] for key, value in features.items()}
        sentences = [self._as_rows(sentence) for sentence in features["input_ids"]]
        lengths = [len(sentence) for sentence in sentences]
        strategy, _, max_length, _ = self._get_padding_truncation_strategies(
            padding=padding, max_length=max_length, pad_to_multiple_of=pad_to_multiple_of, verbose=verbose
        )
        width = _padded_length(lengths, strategy, max_length, pad_to_multiple_of)
        side = _checked_side(padding_side or self.padding_side)
        if return_attention_mask is not False and "attention_mask" not in features:
            features["attention_mask"] = [[1] * length for length in lengths]
        if width is not None:
            sentences = [_pad_array(sentence, width, side) for sentence in sentences]
            for key, filler in (("attention_mask", 0), ("token_type_ids", 0), ("special_tokens_mask", 1)):
                if key in features:
                    features[key] = [_pad_list(list(values), filler, width, side) for values in features[key]]
        stacked = return_tensors is not None
        features["input_ids"] = _stack(sentences) if stacked else [sentence.tolist() for sentence in sentences]
        if return_attention_mask is False:
            features.pop("attention_mask", None)
        if not is_batch:
            features = {key: (np.asarray(value) if stacked else value)[0] for key, value in features.items()}
        return BatchEncoding(features, tensor_type=return_tensors)

    def _as_rows(self, sentence: Any) -> np.ndarray:
        """The rows of an encoded sentence, (T, C)."""
        rows, width = np.asarray(sentence, dtype=np.int64), self.max_characters_per_word
        if rows.size == 0:
            return rows.reshape(0, width)
        if rows.shape[1:] != (width,):
            raise ValueError(f"input_ids holds a sentence of the shape {rows.shape}; wanted (words, {width}).")
        return rows


def _meant(name: str, function: Callable) -> str:
    """What to say of the argument of a function that was probably meant; nothing where none is near."""
    known = inspect.signature(function).parameters.keys() - _FIXED_TOKENS.keys()
    if name in known:
        return ""
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
    return f"; {nearest[0]!r} is near to it" if nearest else ""


def _checked_side(side: str) -> str:
    if side not in ("left", "right"):
        raise ValueError(f"padding_side is {side!r}; it must be 'left' or 'right'.")
    return side


def _padded_length(
    lengths: list[int], strategy: PaddingStrategy, max_length: int | None, pad_to_multiple_of: int | None
) -> int | None:
    """The length in words that every sentence is padded to; None without padding."""
    if strategy == PaddingStrategy.DO_NOT_PAD or not lengths:
        return None
    width = max_length if strategy == PaddingStrategy.MAX_LENGTH and max_length is not None else max(lengths)
    if pad_to_multiple_of:
        width = -(-width // pad_to_multiple_of) * pad_to_multiple_of
    return width


def _pad_array(sentence: np.ndarray, width: int, side: str) -> np.ndarray:
    amount = max(0, width - len(sentence))
    return np.pad(sentence, ((amount, 0) if side == "left" else (0, amount), (0, 0)))


def _pad_list(values: list[int], filler: int, width: int, side: str) -> list[int]:
    padding = [filler] * (width - len(values))
    return padding + values if side == "left" else values + padding


def _stack(sentences: list[np.ndarray]) -> Any:
    lengths = sorted(set(map(len, sentences)))
    if len(lengths) > 1:
        raise ValueError(
            f"input_ids holds sentences of {lengths[0]} to {lengths[-1]} words; tensors want padding=True."
        )
    return np.stack(sentences) if sentences else []


def _split(values: np.ndarray, lengths: list[int]) -> np.ndarray | list[np.ndarray]:
    """Values of sentences end to end, cut apart: one array where all are of one length, otherwise a list of them."""
    if len(set(lengths)) > 1:
        return np.split(values, np.cumsum(lengths)[:-1])
    return values.reshape(len(lengths), max(lengths, default=0), *values.shape[1:])


def _as_lists(values: Iterable[Any]) -> list[Any]:
    return [value.tolist() if isinstance(value, np.ndarray) else value for value in values]


def _is_batch(ids: Any) -> bool:
    """Whether ids are those of a batch of sentences, of which the first may be empty."""
    depth = _nesting(ids)
    return depth == 3 or (depth == 2 and len(ids) > 0 and len(ids[0]) == 0)


def _nesting(values: Any) -> int:
    """How deep a list, array or tensor of ids is nested; 3 for a batch of sentences of rows."""
    if hasattr(values, "ndim"):
        return values.ndim
    if isinstance(values, (list, tuple)):
        return 1 + max((_nesting(value) for value in values[:1]), default=0)
    return 0


def _batch_encoding(data: dict[str, Any], encodings: list[WordEncoding], return_tensors: str | None) -> BatchEncoding:
    """A BatchEncoding that also answers word_ids(), char_to_token() and their like."""
    if str(getattr(return_tensors, "value", return_tensors)) == "pt":
        import torch

        data = {key: torch.from_numpy(np.ascontiguousarray(value)) for key, value in data.items()}
    # They answer all that it asks of the encodings of the Rust tokenizers.
    answers: Any = encodings
    n_sequences = encodings[0].n_sequences if encodings else 1
    return BatchEncoding(data, encoding=answers, tensor_type=return_tensors, n_sequences=n_sequences)
