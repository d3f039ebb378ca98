"""Tiny models in ELMoForManyLangs's files, and the vectors of their words worked out beside the package's code."""

import json
import zipfile

import numpy as np
import torch

SETTINGS = {
    "encoder": {"name": "elmo", "projection_dim": 3, "cell_clip": 3, "proj_clip": 3, "dim": 5, "n_layers": 2},
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [[2, 3], [1, 2]],
        "n_highway": 1,
        "word_dim": 4,
        "char_dim": 2,
        "max_characters_per_token": 8,
    },
    "classifier": {"name": "sampled_softmax", "n_samples": 10},
    "dropout": 0.1,
}
WORDS = ("<oov>", "<bos>", "<eos>", "<pad>", "the", "boat", "나무", "ñ", "abcdef", "abcdefgh", "<S>", "x y")
CHARACTERS = (*"theboa나", "<oov>", "<bos>", "<eos>", "<pad>", "<bow>", "<eow>", "ñ", "xyz")


def make_settings(**changes) -> dict:
    """The settings, with changes as `encoder={"name": "lstm"}`."""
    return {
        name: {**value, **changes.get(name, {})} if isinstance(value, dict) else value
        for name, value in SETTINGS.items()
    }


def write_model(
    directory, settings=SETTINGS, *, words=WORDS, characters=CHARACTERS, softmax=False, config_path="sizes.json"
):
    """Write a model of random weights, and return the state dict of each of its files by the file's name."""
    directory.mkdir(parents=True, exist_ok=True)
    weights = make_weights(settings, len(words), len(characters), softmax)
    for name, tensors in weights.items():
        torch.save(tensors, directory / name)
    write_dictionary(directory / "word.dic", words)
    write_dictionary(directory / "char.dic", characters)
    (directory / "config.json").write_text(json.dumps({"seed": 1, "config_path": config_path}))
    (directory / "sizes.json").write_text(json.dumps(settings))
    return weights


def write_dictionary(path, entries):
    path.write_text("".join(f"{entry}\t{index}\n" for index, entry in enumerate(entries)), encoding="utf-8")


def make_weights(settings, num_words, num_characters, softmax):
    generator = torch.Generator().manual_seed(0)
    embedder, encoder = settings["token_embedder"], settings["encoder"]
    word_dim, char_dim = embedder["word_dim"], embedder["char_dim"]
    projection, cell = encoder["projection_dim"], encoder["dim"]
    filters = embedder["filters"] if char_dim else []
    features = sum(count for _, count in filters)

    def draw(*shape):
        return torch.randn(*shape, generator=generator)

    tokens = {"projection.weight": draw(projection, word_dim + features), "projection.bias": draw(projection)}
    if word_dim:
        tokens["word_emb_layer.embedding.weight"] = draw(num_words, word_dim)
    if char_dim:
        tokens["char_emb_layer.embedding.weight"] = draw(num_characters, char_dim)
        for index, (width, count) in enumerate(filters):
            tokens[f"convolutions.{index}.weight"] = draw(count, char_dim, width)
            tokens[f"convolutions.{index}.bias"] = draw(count)
        for index in range(embedder["n_highway"]):
            tokens[f"highways._layers.{index}.weight"] = draw(2 * features, features)
            tokens[f"highways._layers.{index}.bias"] = draw(2 * features)
    cells = {}
    for layer in range(encoder["n_layers"]):
        for direction in ("forward", "backward"):
            prefix = f"{direction}_layer_{layer}"
            cells[f"{prefix}.input_linearity.weight"] = draw(4 * cell, projection)
            cells[f"{prefix}.state_linearity.weight"] = draw(4 * cell, projection)
            cells[f"{prefix}.state_linearity.bias"] = draw(4 * cell)
            cells[f"{prefix}.state_projection.weight"] = draw(projection, cell)
    found = {"token_embedder.pkl": tokens, "encoder.pkl": cells}
    if softmax:
        found["classifier.pkl"] = {
            "oov_column": draw(projection, 1),
            "column_emb.weight": draw(num_words, projection),
            "column_bias.weight": draw(num_words, 1),
        }
    return found


def word_vector(weights, word, settings=SETTINGS, words=WORDS, characters=CHARACTERS):
    """The token encoder's vector of a word, by the program's rules, (P,), in float64."""
    tensors = {key: tensor.double().numpy() for key, tensor in weights["token_embedder.pkl"].items()}
    embedder = settings["token_embedder"]
    width = embedder["max_characters_per_token"]
    cut = word if word in ("<bos>", "<eos>") else word[: width - 2]
    parts = []
    if embedder["word_dim"]:
        index = words.index(cut) if cut in words else words.index("<oov>")
        parts.append(tensors["word_emb_layer.embedding.weight"][index])
    if embedder["char_dim"]:
        spelled = [cut] if cut in ("<bos>", "<eos>") else list(cut)
        row = ["<eow>", *spelled, "<bow>"]
        row += ["<pad>"] * (width - len(row))
        ids = [characters.index(each if each in characters else "<oov>") for each in row]
        vectors = tensors["char_emb_layer.embedding.weight"][ids]
        maxima = []
        for index, (size, _) in enumerate(embedder["filters"]):
            kernel, bias = tensors[f"convolutions.{index}.weight"], tensors[f"convolutions.{index}.bias"]
            windows = [vectors[start : start + size].T for start in range(width - size + 1)]
            maxima.append(np.max([np.tensordot(kernel, window, 2) + bias for window in windows], axis=0))
        features = np.concatenate(maxima)
        features = np.tanh(features) if embedder["activation"] == "tanh" else np.maximum(features, 0)
        for index in range(embedder["n_highway"]):
            prefix = f"highways._layers.{index}"
            nonlinear, gate = np.split(tensors[f"{prefix}.weight"] @ features + tensors[f"{prefix}.bias"], 2)
            gate = 1 / (1 + np.exp(-gate))
            features = gate * features + (1 - gate) * np.maximum(nonlinear, 0)
        parts.append(features)
    return tensors["projection.weight"] @ np.concatenate(parts) + tensors["projection.bias"]


def zip_directory(directory, path, under=""):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(directory.rglob("*")):
            if file.is_file():
                archive.write(file, f"{under}{file.relative_to(directory)}")
    return path
