"""bilm-tf's options: their forms, their defaults and what is wrong in them."""

from bilm_tf_files import assert_conversion_fails, changed, make_options, write_checkpoint, write_options

from hf_elmo.conversion.bilm_tf_options import options_from_config, read_config
from hf_elmo.conversion.checked_files import ConversionError


def test_options_in_their_training_form_describe_the_same_model(tmp_path):
    options = make_options()
    config = read_config(write_options(tmp_path, options))
    options["char_cnn"]["n_characters"] = 261
    options.update({"bidirectional": True, "dropout": 0.1, "batch_size": 128, "n_tokens_vocab": 793471})
    training_config = read_config(write_options(tmp_path, options))
    assert training_config.to_dict() == config.to_dict()
    assert options_from_config(training_config)["char_cnn"]["n_characters"] == 262


def test_absent_and_null_options_take_the_defaults_of_bilm_tf(tmp_path):
    options = make_options()
    for section, names in {"lstm": ["cell_clip", "proj_clip", "n_layers"], "char_cnn": ["n_highway"]}.items():
        for name in names:
            del options[section][name]
    config = read_config(write_options(tmp_path, options))
    assert (config.cell_clip, config.projection_clip, config.num_hidden_layers) == (None, None, 1)
    assert config.num_highway_layers == 0
    options["char_cnn"]["n_highway"] = options["lstm"]["cell_clip"] = None
    assert read_config(write_options(tmp_path, options)).to_dict() == config.to_dict()


BAD_OPTIONS = [
    ("lstm", KeyError),
    ("lstm", []),
    ("lstm.dim", KeyError),
    ("lstm.dim", 10.0),
    ("lstm.dim", "10"),
    ("lstm.dim", True),
    ("lstm.dim", 0),
    ("lstm.dim", None),
    ("lstm.dim", 10**12),
    ("lstm.projection_dim", -6),
    ("lstm.n_layers", 0),
    ("lstm.use_skip_connections", KeyError),
    ("lstm.use_skip_connections", 1),
    ("lstm.cell_clip", 0),
    ("lstm.proj_clip", "3"),
    ("lstm.proj_clip", float("nan")),
    ("char_cnn", KeyError),
    ("char_cnn.activation", "gelu"),
    ("char_cnn.activation", KeyError),
    ("char_cnn.filters", []),
    ("char_cnn.filters", [[1, 3], [2]]),
    ("char_cnn.filters", [[1, 3], [60, 5]]),
    ("char_cnn.n_highway", -1),
    ("char_cnn.embedding", 4),
    ("char_cnn.n_characters", 60),
    ("char_cnn.n_characters", 262.0),
    ("char_cnn.n_characters", KeyError),
    ("char_cnn.max_characters_per_token", 2),
    ("bidirectional", False),
]


def test_wrong_options_are_named_and_leave_nothing_behind(tmp_path):
    for number, (path, value) in enumerate(BAD_OPTIONS):
        folder = tmp_path / str(number)
        write_checkpoint(folder, make_options())
        write_options(folder, changed(path, value))
        assert_conversion_fails(folder, ConversionError, path)


def test_options_that_are_no_json_object_are_refused(tmp_path):
    for number, content in enumerate((b"", b'{"lstm": {', b"\x89HDF\r\n\x1a\n\xff\xfe", b"[1, 2]")):
        folder = tmp_path / str(number)
        write_checkpoint(folder, make_options())
        (folder / "options.json").write_bytes(content)
        assert_conversion_fails(folder, ConversionError, "options.json")
