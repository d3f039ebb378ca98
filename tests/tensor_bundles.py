"""Checkpoints as TensorFlow writes them, two files by hand: an index, which is a table of LevelDB, and its data."""

import struct
from pathlib import Path

import numpy as np
import pytest

google_crc32c = pytest.importorskip("google_crc32c", reason="TensorFlow's checkpoints are checked by their CRC-32C")

MAGIC = 0xDB4775248B80FB57


def masked(content):
    crc = google_crc32c.value(content)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32


def varint(number):
    parts = []
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def whole(number, value):
    """A field of a protocol buffer that is a whole number; 0 is left out."""
    return varint(number << 3) + varint(value) if value else b""


def nested(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def block(entries):
    """Keys and values, each key sharing its beginning with the one before."""
    content, before = b"", b""
    for key, value in entries:
        shared = max(length for length in range(len(key) + 1) if before.startswith(key[:length]))
        rest = key[shared:]
        content += varint(shared) + varint(len(rest)) + varint(len(value)) + rest + value
        before = key
    return content + struct.pack("<II", 0, 1)


def write_bundle(folder, arrays, name="model.ckpt-7", shards=1, kind=0, changes=None):
    """Write a checkpoint, and the file `checkpoint` with a path that nobody has.

    Args:
        folder: Where to.
        arrays: The variables.
        name: Their prefix.
        shards: As the header says.
        kind: How blocks are packed, as their trailers say.
        changes: For a variable, bytes that are put behind its entry: fields again, of which the last counts.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    types = {"float32": 1, "float64": 2, "int32": 3, "int64": 9}
    data, entries = b"", [(b"", whole(1, shards) + nested(3, whole(1, 1)))]
    for key in sorted(arrays):
        array = np.asarray(arrays[key])
        content = array.tobytes()
        shape = b"".join(nested(2, whole(1, size)) for size in array.shape)
        entry = whole(1, types[str(array.dtype)]) + nested(2, shape) + whole(4, len(data)) + whole(5, len(content))
        entry += varint(6 << 3 | 5) + struct.pack("<I", masked(content)) + (changes or {}).get(key, b"")
        entries.append((key.encode(), entry))
        data += content
    index = b""

    def add(entries):
        nonlocal index
        content = block(entries) + bytes([kind])
        handle = varint(len(index)) + varint(len(content) - 1)
        index += content + struct.pack("<I", masked(content))
        return handle

    half = len(entries) // 2
    handles = [(part[-1][0], add(part)) for part in (entries[:half], entries[half:]) if part]
    footer = add([]) + add(handles)
    (folder / f"{name}.index").write_bytes(index + footer.ljust(40, b"\0") + struct.pack("<Q", MAGIC))
    (folder / f"{name}.data-00000-of-00001").write_bytes(data)
    paths = f'model_checkpoint_path: "/home/them/run/{name}"\nall_model_checkpoint_paths: "/home/them/run/x"\n'
    (folder / "checkpoint").write_text(paths)
    return folder / f"{name}.index"


def variables_of(arrays):
    """The arrays of an hdf5 of bilm-tf's of several layers, by the names that its training gives them."""
    named = {}
    for key, array in arrays.items():
        for theirs, name in (
            ("RNN/MultiRNNCell/Cell", "rnn/multi_rnn_cell/cell_"),
            ("LSTMCell/W_P_0", "lstm_cell/projection/kernel"),
            ("LSTMCell/W_0", "lstm_cell/kernel"),
            ("LSTMCell/B", "lstm_cell/bias"),
        ):
            key = key.replace(theirs, name)
        named[f"lm/{key}"] = array
    return named
