"""Tiny archives in AllenNLP's files, written from a model of ours by rules of their own."""

import json
import tarfile

import torch
from bilm_tf_files import make_options

PREFIX = "text_field_embedder.token_embedder_elmo._elmo."
OPTIONS = make_options()
ELMO = {"type": "elmo_token_embedder", "options_file": "elmo/options.json", "weight_file": "elmo/weights.hdf5"}
EXPERIMENT = {
    "dataset_reader": {"type": "sequence_tagging", "token_indexers": {"elmo": {"type": "elmo_characters"}}},
    "model": {
        "type": "simple_tagger",
        "text_field_embedder": {"token_embedders": {"elmo": ELMO}},
        "encoder": {"type": "gru", "bidirectional": True, "input_size": 12, "hidden_size": 4},
    },
}


def experiment_with(**elmo) -> dict:
    """The experiment with changes of its ELMo's settings."""
    found = json.loads(json.dumps(EXPERIMENT))
    found["model"]["text_field_embedder"]["token_embedders"]["elmo"].update(elmo)
    return found


def write_archive(directory, model, experiment=EXPERIMENT, options=OPTIONS, prefix=PREFIX, others=()):
    """Write the files of an archive with a model's biLM and mixes, and return its weights by their names."""
    directory.mkdir(parents=True, exist_ok=True)
    weights = {f"{prefix}{key}": tensor for key, tensor in weights_of(model).items()} | dict(others)
    torch.save(weights, directory / "weights.th", _use_new_zipfile_serialization=False)
    (directory / "config.json").write_text(json.dumps(experiment))
    if options is not None:
        (directory / "fta").mkdir()
        name = "model.text_field_embedder.token_embedders.elmo.options_file"
        (directory / "fta" / name).write_text(json.dumps(options))
    return weights


def pack(directory, path):
    with tarfile.open(path, "w:gz") as archive:
        for file in sorted(directory.iterdir()):
            archive.add(file, file.name)
    return path


def weights_of(model):
    """The weights of an ElmoModel by AllenNLP's names below those of its ELMo."""
    encoder, found = model.token_encoder, {}
    cells = "_elmo_lstm._elmo_lstm"
    tokens = "_elmo_lstm._token_embedder"
    found[f"{tokens}._char_embedding_weights"] = encoder.character_embedding.weight
    for index, convolution in enumerate(encoder.convolutions):
        found[f"{tokens}.char_conv_{index}.weight"] = convolution.weight
        found[f"{tokens}.char_conv_{index}.bias"] = convolution.bias
    for index, highway in enumerate(encoder.highways):
        # y = g x + (1 - g) relu(W x + b): the gate is that of what is carried.
        for part in ("weight", "bias"):
            rows = [getattr(highway.transform, part), -getattr(highway.carry, part)]
            found[f"{tokens}._highways._layers.{index}.{part}"] = torch.cat(rows)
    found[f"{tokens}._projection.weight"] = encoder.projection.weight
    found[f"{tokens}._projection.bias"] = encoder.projection.bias
    for index, layer in enumerate(model.bilm.layers):
        for direction, lstm in (("forward", layer.forward_lstm), ("backward", layer.backward_lstm)):
            bias = lstm.bias.clone()
            # The constant is part of the bias there.
            bias[len(bias) // 4 : len(bias) // 2] += lstm.forget_bias
            prefix = f"{cells}.{direction}_layer_{index}"
            found[f"{prefix}.input_linearity.weight"] = lstm.weight_ih
            found[f"{prefix}.state_linearity.weight"] = lstm.weight_hh
            found[f"{prefix}.state_linearity.bias"] = bias
            found[f"{prefix}.state_projection.weight"] = lstm.weight_hr
    for number, mix in enumerate(model.mixes):
        found[f"scalar_mix_{number}.gamma"] = mix.scale
        for layer, weight in enumerate(mix.weight):
            found[f"scalar_mix_{number}.scalar_parameters.{layer}"] = weight.reshape(1)
    return {key: tensor.detach().clone() for key, tensor in found.items()}
