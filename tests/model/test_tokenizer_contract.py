"""What transformers asks of every tokenizer, asked of ours in all of its forms."""

import copy
import pickle

import numpy as np
import pytest
import torch
from refusals import assert_refused
from transformers import AutoTokenizer, BatchEncoding

from hf_elmo import ElmoCharTokenizer

FORMS = {
    "bytes": {},
    "raw text": {"pre_tokenizer": "unicode", "normalization": "NFC", "drop_invisible": True, "ascii_marks": True},
    "narrow, lower case": {"do_lower_case": True, "max_characters_per_word": 8, "pre_tokenizer": "penn"},
    "dictionary": {"characters": ["<bos>", "<eos>", "<bow>", "<eow>", "<oov>", "<pad>", *"abcdé"]},
    "left": {"padding_side": "left", "truncation_side": "left", "model_max_length": 7},
}
each_form = pytest.mark.parametrize("form", FORMS)
TEXTS = ["a b abc", "d", "", "é dab <S> c b a ca"]
PAIRS = ["c d", "", "a b", "b"]
PADDINGS = [False, True, "longest", "max_length", "do_not_pad"]
TRUNCATIONS = [False, True, "longest_first", "only_first", "do_not_truncate"]


def make(form: str) -> ElmoCharTokenizer:
    return ElmoCharTokenizer(**FORMS[form])


@each_form
def test_every_copy_reads_alike_and_is_saved_alike(form, tmp_path):
    tokenizer = make(form)
    wanted = tokenizer(TEXTS, PAIRS, padding=True, truncation=True, max_length=9)
    tokenizer.save_pretrained(tmp_path / "outer" / "inner")
    files = {file.name: file.read_bytes() for file in (tmp_path / "outer" / "inner").iterdir()}
    for number, other in enumerate(
        (
            copy.copy(tokenizer),
            copy.deepcopy(tokenizer),
            pickle.loads(pickle.dumps(tokenizer)),
            ElmoCharTokenizer.from_pretrained(tmp_path / "outer", subfolder="inner"),
            AutoTokenizer.from_pretrained(tmp_path / "outer", subfolder="inner"),
            AutoTokenizer.from_pretrained(tmp_path / "outer" / "inner"),
        )
    ):
        assert type(other) is ElmoCharTokenizer
        assert other(TEXTS, PAIRS, padding=True, truncation=True, max_length=9).data == wanted.data
        other.save_pretrained(tmp_path / str(number))
        assert {file.name: file.read_bytes() for file in (tmp_path / str(number)).iterdir()} == files


@each_form
def test_its_ways_of_reading_agree(form):
    tokenizer = make(form)
    for text in TEXTS:
        words = tokenizer.tokenize(text)
        rows = tokenizer.convert_tokens_to_ids(words)
        marked = tokenizer.build_inputs_with_special_tokens(rows)
        assert tokenizer.encode(text, add_special_tokens=False) == rows
        assert tokenizer.encode(text) == tokenizer(text)["input_ids"] == marked
        assert len(marked) - len(rows) == tokenizer.num_special_tokens_to_add() == 2
        mask = tokenizer.get_special_tokens_mask(rows)
        assert tokenizer(text, return_special_tokens_mask=True)["special_tokens_mask"] == mask
        assert tokenizer.get_special_tokens_mask(marked, already_has_special_tokens=True)[0] == 1
        # What comes back is what was read: lower-cased, cut, and with the characters that there are.
        read = tokenizer.convert_ids_to_tokens(rows)
        assert tokenizer.convert_tokens_to_ids(read) == rows
        assert tokenizer.decode(rows) == tokenizer.convert_tokens_to_string(read) == " ".join(read)
        assert tokenizer.convert_ids_to_tokens(marked) == ["<S>", *read, "</S>"]
    assert tokenizer.num_special_tokens_to_add(pair=True) == 4
    assert tokenizer.batch_decode(tokenizer(TEXTS)["input_ids"]) == [
        tokenizer.decode(row) for row in map(tokenizer.encode, TEXTS)
    ]


@each_form
@pytest.mark.filterwarnings("ignore:`max_length` is ignored")
@pytest.mark.parametrize("with_pairs", [False, True])
def test_a_batch_is_its_rows_by_every_padding_truncation_and_kind_of_tensor(form, with_pairs):
    tokenizer = make(form)
    everything = {
        "return_special_tokens_mask": True,
        "return_token_type_ids": True,
        "return_offsets_mapping": True,
        "return_length": True,
        "max_length": 8,
    }
    for padding in PADDINGS:
        for truncation in TRUNCATIONS:
            how = {"padding": padding, "truncation": truncation, **everything}
            batch = tokenizer(TEXTS, PAIRS if with_pairs else None, **how)
            assert isinstance(batch, BatchEncoding)
            singles = [tokenizer(text, PAIRS[row] if with_pairs else None, **how) for row, text in enumerate(TEXTS)]
            lengths = {len(ids) for ids in batch["input_ids"]}
            if padding in (True, "longest"):
                singles = tokenizer.pad(
                    {
                        key: [single[key] for single in singles]
                        for key in batch
                        if key not in ("offset_mapping", "length")
                    }
                )
                assert all(batch[key] == singles[key] for key in singles)
            else:
                assert all(batch[key] == [single[key] for single in singles] for key in batch)
            if len(lengths) > 1:
                assert_refused(
                    ValueError,
                    "padding=True",
                    tokenizer,
                    TEXTS,
                    PAIRS if with_pairs else None,
                    return_tensors="np",
                    **how,
                )
                continue
            for kind, container in (("pt", torch.Tensor), ("np", np.ndarray)):
                tensors = tokenizer(TEXTS, PAIRS if with_pairs else None, return_tensors=kind, **how)
                assert tensors.keys() == batch.keys()
                for key, value in tensors.items():
                    assert isinstance(value, container) and value.tolist() == np.array(batch[key]).tolist()


@each_form
def test_special_tokens_are_known_by_name_and_number(form):
    tokenizer = make(form)
    assert tokenizer.special_tokens_map == {"bos_token": "<S>", "eos_token": "</S>", "pad_token": tokenizer.pad_token}
    names = {index: name for name, index in tokenizer.get_vocab().items()}
    assert len(names) == len(tokenizer) == tokenizer.vocab_size and set(names) == set(range(len(names)))
    for index in (0, 1, len(names) - 1):
        assert tokenizer.convert_ids_to_tokens(index) == names[index]
    assert {tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id} == set(tokenizer.all_special_ids)


def test_what_is_to_be_read_as_a_target_is_read_alike(tokenizer):
    assert tokenizer("a", text_target="b c")["labels"] == tokenizer("b c")["input_ids"]


@pytest.mark.parametrize("meant", ["padding", "truncation", "max_length", "return_offsets_mapping"])
def test_arguments_of_a_call_with_a_slip_of_the_pen_are_refused_with_what_was_meant(meant, tokenizer):
    wrong = f"{meant[:-1]}s"
    assert_refused(TypeError, (repr(wrong), repr(meant)), tokenizer, "a", **{wrong: True})


def test_an_argument_that_another_version_of_transformers_passes_changes_nothing(tokenizer):
    assert tokenizer(["a", "b"], something=None, pack_sequences=True) == tokenizer(["a", "b"])


def test_settings_with_a_slip_of_the_pen_are_refused_and_those_of_others_kept(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    for wrong, meant in (
        ("do_lowercase", "do_lower_case"),
        ("pre_tokeniser", "pre_tokenizer"),
        ("character", "characters"),
    ):
        for make_one in (ElmoCharTokenizer, lambda **how: AutoTokenizer.from_pretrained(tmp_path, **how)):
            assert_refused(TypeError, (repr(wrong), repr(meant)), make_one, **{wrong: True})
    assert ElmoCharTokenizer(clean_up_tokenization_spaces=False).init_kwargs["clean_up_tokenization_spaces"] is False
