"""Datasets that `save_to_disk` wrote: found, read, and refused where they are damaged."""

import pytest
from datasets import Dataset, DatasetDict
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.tasks.readers.named_datasets import load_named_dataset
from hf_elmo.text.saved_datasets import is_saved_dataset, load_saved_dataset
from hf_elmo.text.sentence_sources import sentences_of_dataset

ROWS = {"text": ["Ä b", "c d e"] * 9, "tokens": [["Ä"], ["c", "d"]] * 9}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "novels"
    DatasetDict({"train": Dataset.from_dict(ROWS)}).save_to_disk(folder)
    return folder


def test_one_split_or_all_of_them(saved, tmp_path):
    Dataset.from_dict(ROWS).save_to_disk(tmp_path / "one")
    assert is_saved_dataset(saved) and is_saved_dataset(tmp_path / "one") and not is_saved_dataset(tmp_path)
    assert load_saved_dataset(saved)["train"][:] == ROWS == load_saved_dataset(tmp_path / "one")[:]
    assert load_named_dataset(str(tmp_path / "one"))["train"][:] == ROWS


@given(place=st.integers(min_value=0), content=st.binary(min_size=1, max_size=9), is_cut=st.booleans())
def test_a_damaged_table_is_read_or_refused_by_name(saved, place, content, is_cut):
    (file,) = saved.glob("train/*.arrow")
    whole = file.read_bytes()
    place %= len(whole)
    # Another file, not other bytes in this one, which may still be mapped.
    file.unlink()
    file.write_bytes(whole[:place] if is_cut else whole[:place] + content + whole[place + len(content) :])
    try:
        for read in (sentences_of_dataset, load_named_dataset):
            try:
                for _ in read(str(saved)):
                    pass
            except ValueError as error:
                assert str(saved) in str(error)
    finally:
        file.unlink()
        file.write_bytes(whole)
