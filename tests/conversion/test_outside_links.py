"""An hdf5 of weights that reads other files, runs other code or asks for more memory than it can fill is refused."""

import numpy as np
import pytest
from bilm_tf_files import assert_conversion_fails, changed, make_options, write_checkpoint, write_options
from refusals import assert_refused

from hf_elmo.conversion.bilm_tf import load_bilm_tf
from hf_elmo.conversion.bilm_tf_options import read_config
from hf_elmo.conversion.checked_files import ConversionError, check_storage

h5py = pytest.importorskip("h5py", reason="bilm-tf weights are hdf5 files")

KEY = "CNN_proj/b_proj"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A checkpoint, and a file of the user's that happens to have the right bytes."""
    monkeypatch.chdir(tmp_path)  # the file's name is short, and stands in the message whole
    arrays = write_checkpoint(tmp_path, make_options())
    (tmp_path / "secret").write_bytes(arrays[KEY].tobytes())
    with h5py.File(tmp_path / "secret.hdf5", "w") as file:
        file[KEY] = arrays[KEY]
    return tmp_path


def link(file):
    file[KEY] = h5py.ExternalLink("secret.hdf5", KEY)


def linked_group(file):
    del file["CNN_proj"]
    file["CNN_proj"] = h5py.ExternalLink("secret.hdf5", "CNN_proj")


def link_through_a_link(file):
    file["away"] = h5py.ExternalLink("secret.hdf5", "/")
    file[KEY] = h5py.SoftLink(f"/away/{KEY}")


def external_storage(file):
    file.create_dataset(KEY, (6,), "f4", external=[("secret", 0, 24)])


def virtual(file):
    layout = h5py.VirtualLayout((6,), "f4")
    layout[:] = h5py.VirtualSource("secret.hdf5", KEY, (6,))
    file.create_virtual_dataset(KEY, layout)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (link, KEY),
        (linked_group, "CNN_proj"),
        (link_through_a_link, "away"),
        (external_storage, KEY),
        (virtual, KEY),
    ],
)
def test_other_files_are_not_read(folder, change, named):
    with h5py.File(folder / "weights.hdf5", "a") as file:
        del file[KEY]
        change(file)
    assert_conversion_fails(folder, ConversionError, (named, "secret"))


def test_links_within_the_file_and_groups_that_hold_themselves_are_read(folder):
    with h5py.File(folder / "weights.hdf5", "a") as file:
        file.move(KEY, "elsewhere")
        file[KEY] = h5py.SoftLink("/elsewhere")
        file["CNN/again"] = file["/"]
    # The array under its other name is one key too many; the circle ends.
    assert_conversion_fails(folder, ConversionError, "elsewhere")


def test_filters_that_are_not_built_in_are_not_loaded(folder):
    with h5py.File(folder / "weights.hdf5", "a") as file:
        del file[KEY]
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((6,))
        # Optional: hdf5 writes without it where it is missing.
        properties.set_filter(306, h5py.h5z.FLAG_OPTIONAL)
        space = h5py.h5s.create_simple((6,))
        made = h5py.h5d.create(file["CNN_proj"].id, b"b_proj", h5py.h5t.IEEE_F32LE, space, dcpl=properties)
        made.write(space, space, np.ones(6, "f4"))
    assert_conversion_fails(folder, ConversionError, (KEY, "306"))


@pytest.mark.parametrize(
    "options", [{"compression": "gzip", "shuffle": True}, {"compression": "lzf"}, {"chunks": (2,)}]
)
def test_built_in_filters_are_read(folder, options):
    with h5py.File(folder / "weights.hdf5", "a") as file:
        values = file[KEY][()]
        del file[KEY]
        file.create_dataset(KEY, data=values, **options)
    model = load_bilm_tf(folder / "options.json", folder / "weights.hdf5")
    assert np.array_equal(model.token_encoder.projection.bias.detach().numpy(), values)


def test_a_user_block_is_refused(folder):
    content = (folder / "weights.hdf5").read_bytes()
    with h5py.File(folder / "weights.hdf5", "w", userblock_size=512) as file:
        file["a"] = np.ones(3, "f4")
    assert_conversion_fails(folder, ConversionError, "user block")
    (folder / "weights.hdf5").write_bytes(content)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("lstm.dim", 1_000_000),
        ("lstm.projection_dim", 900_000),
        ("char_cnn.filters", [[1, 1_000_000]]),
    ],
)
def test_sizes_that_the_file_cannot_fill_are_refused_before_memory_is_taken(folder, path, value):
    write_options(folder, changed(path, value))
    assert_conversion_fails(folder, ConversionError, ("options.json", "weights.hdf5", "bytes"))


@pytest.mark.parametrize("value", [1001, 10**6, 10**30])
def test_rows_wider_than_any_word_are_refused(folder, value):
    write_options(folder, changed("char_cnn.max_characters_per_token", value))
    assert_conversion_fails(folder, ConversionError, ("max_characters_per_token", "1000"))


@pytest.mark.parametrize(
    ("shape", "chunks"), [((8_000_000,), (8_000_000,)), ((6,), (250_000_000,))], ids=["zeros", "chunk"]
)
def test_an_array_that_takes_more_memory_than_the_file_can_fill_is_refused(tmp_path, shape, chunks):
    """Zeros are packed a thousandfold, and a chunk may be larger than what is in it."""
    with h5py.File(tmp_path / "weights.hdf5", "w") as file:
        made = file.create_dataset(KEY, shape, "f4", compression="gzip", chunks=chunks, maxshape=(None,))
        if shape == chunks:
            made[:] = 0
        assert_refused(ConversionError, KEY, check_storage, "weight_file", KEY, made)


def test_groups_nested_without_end_do_not_end_the_process(folder):
    # hdf5 itself, asked for all keys of 30,000 levels, recurses until the process ends with signal 11.
    with h5py.File(folder / "weights.hdf5", "a") as file:
        group = file
        for _ in range(100):
            group = group.create_group("a")
    assert_conversion_fails(folder, ConversionError, "levels")


@pytest.mark.parametrize("content", ["[" * 100_000, '{"a":' * 100_000, '{"lstm":\n' * 200])
def test_nested_options_are_refused_by_their_line(folder, content):
    (folder / "options.json").write_text(content)
    assert_conversion_fails(folder, ConversionError, ("options.json", "line"))


def test_endless_options_are_refused(folder):
    (folder / "options.json").write_text(" " * 2**21 + "{}")
    assert "MiB" in assert_refused(ConversionError, "options.json", read_config, folder / "options.json")
