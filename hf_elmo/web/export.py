"""Export a checkpoint as a folder that any static host serves: a page, the model, and what runs it in a browser.

Letters in shapes: T words of a sentence, P projection, L biLM layers, V words of the softmax.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..given import require
from ..hub.loading import find_file, load_config
from ..hub.writing import check_keeps_inputs, check_output_directory, written_aside
from ..inference.embedder import ElmoEmbedder
from ..inference.onnx_export import ONNX_FILE, export_onnx
from ..inference.scoring import ElmoScorer
from ..inference.word_uses import static_vectors
from ..model.configuration_elmo import WORD_LIST_FILE, read_words
from ..model.modeling_elmo import ElmoForPreTraining
from .rules import tokenizer_rules

STATIC = Path(__file__).with_name("static")
# Of onnxruntime-web: the build that computes on the CPU alone. It has one thread where a host sends no special headers.
RUNTIME_FILES = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
RUNTIME_PACKAGE = "onnxruntime-web@1.30.0"
# Six bits for each weight of the softmax, half of all weights: the page has to load.
_SOFTMAX_MOST = 31
# Of the graph, smaller weights, biases among them, stay as they are.
_LEAST_WEIGHTS = 4096
# Words of the table of token vectors, the most frequent ones with a letter.
NUM_STATIC_WORDS = 10_000


def export_web(model: str, output_dir: str, runtime_dir: str | None = None, overwrite: bool = False) -> list[str]:
    """Write the folder: with the layers of the biLM, and its softmax where that is full and its words are known.

    Returns: What was written and how exact it is, a sentence each.
    Raises: FileNotFoundError, FileExistsError or ValueError naming the argument; ImportError without onnxruntime.
    """
    onnx, onnxruntime = (require(name, "the page and its check", "export") for name in ("onnx", "onnxruntime"))
    target = check_output_directory(output_dir, overwrite)
    check_keeps_inputs(target, [("model", model), *([("runtime_dir", runtime_dir)] if runtime_dir else [])])
    config = load_config(model)
    embedder = ElmoEmbedder(model, device="cpu")
    list_of_words = find_file(model, WORD_LIST_FILE)
    words = [] if list_of_words is None else read_words(list_of_words)
    has_softmax = ElmoForPreTraining.__name__ in (config.architectures or []) and config.softmax_type == "full"
    scorer = ElmoScorer(model, device="cpu") if words and has_softmax else None
    sentences = _examples(words)
    with _runtime(runtime_dir) as runtime, written_aside(target, overwrite) as aside:
        shutil.copytree(STATIC, aside, dirs_exist_ok=True)
        (aside / "runtime").mkdir()
        for name in RUNTIME_FILES:
            shutil.copyfile(runtime / name, aside / "runtime" / name)
        data = aside / "model"
        data.mkdir()
        with tempfile.TemporaryDirectory() as folder:
            export_onnx(model, Path(folder) / "onnx", output_hidden_states=True)
            graph = onnx.load(Path(folder) / "onnx" / ONNX_FILE)
        del graph.graph.output[0]  # the mix, which the page makes itself
        quantize_graph(graph)
        content = graph.SerializeToString()
        write_packed(data / "graph.bin", content)
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.disable_quant_qdq", "1")
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        softmaxes = _write_softmaxes(data, scorer) if scorer is not None else []
        (data / "words.txt").write_text("\n".join(words), encoding="utf-8")
        table = [word for word in words if any(map(str.isalpha, word)) and word not in ("<S>", "</S>", "<UNK>")]
        table = table[:NUM_STATIC_WORDS]
        codes = [quantize(static_vectors(embedder, table), _SOFTMAX_MOST)[0]] if table else []
        write_packed(data / "static.bin", *codes)
        rules = tokenizer_rules(embedder.tokenizer)
        (data / "tokenizer.json").write_text(json.dumps(rules, ensure_ascii=False), encoding="utf-8")
        errors = _measure(session, embedder, scorer, softmaxes, sentences)
        mix: Any = embedder.model.mixes[0]
        name = os.path.basename(os.path.normpath(model))
        facts = {
            "name": name,
            "layers": config.num_hidden_layers + 1,
            "projection": config.projection_size,
            "softmaxes": len(softmaxes),
            "num_words": len(words),
            "table": table,
            "shares": mix.shares().tolist(),
            "gamma": float(mix.scale.detach()),
            "examples": sentences,
            "errors": errors,
        }
        (data / "facts.json").write_text(json.dumps(facts, ensure_ascii=False), encoding="utf-8")
        (aside / "README.md").write_text(
            f"---\ntitle: {name} in the page\nemoji: 🔎\ncolorFrom: blue\ncolorTo: yellow\nsdk: static\n"
            f"pinned: false\n---\n\n{name} in the reader's browser, by `hf-elmo export --format web`.\n"
            "Serve the folder with any static host, `python -m http.server` for example. Nothing is sent anywhere.\n",
            encoding="utf-8",
        )
        size = sum(path.stat().st_size for path in data.iterdir()) / 1e6
    said = ", ".join(f"{each:.2%}" for each in errors["vectors"])
    notes = [
        f"model/ has {size:.1f} MB, its weights in eight bits, the softmax's in six; runtime/ is onnxruntime-web's.",
        f"Its vectors are those of the model within {said} of their length (layers from 0 on, mean of the examples).",
    ]
    if scorer is None:
        notes.append("It shows no surprise: the checkpoint has no full word softmax with a list of its words.")
    else:
        mean, most = errors["surprisal"], errors["surprisal_most"]
        notes.append(f"Its surprisals differ by {mean:.3f} bits on average, at most {most:.2f}.")
    return [*notes, f"See it: python -m http.server --directory {output_dir}"]


@contextmanager
def _runtime(directory: str | None) -> Iterator[Path]:
    """The folder that has the files of onnxruntime-web: the one given, unpacked, or the package that npm fetches."""
    with tempfile.TemporaryDirectory() as folder:
        if directory is None:
            npm = shutil.which("npm")
            if npm is None:
                raise ValueError(
                    f"--runtime_dir is not given and there is no npm: unpack the npm package {RUNTIME_PACKAGE} and "
                    "name its folder."
                )
            command = [npm, "pack", RUNTIME_PACKAGE, "--silent"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            packed = next(Path(folder).glob("*.tgz"), None)
            if done.returncode or packed is None:
                said = (done.stderr.strip().splitlines() or ["npm said nothing"])[-1]
                raise ValueError(f"npm pack {RUNTIME_PACKAGE} failed ({said}); name an unpacked one by --runtime_dir.")
            with tarfile.open(packed) as archive:
                members = [archive.getmember(f"package/dist/{name}") for name in RUNTIME_FILES]
                archive.extractall(folder, members, filter="data")
            directory = f"{folder}/package"
        found = Path(directory) / "dist" if (Path(directory) / "dist").is_dir() else Path(directory)
        lacking = [name for name in RUNTIME_FILES if not (found / name).is_file()]
        if lacking:
            raise FileNotFoundError(f"--runtime_dir {directory!r} lacks {lacking[0]}; unpack {RUNTIME_PACKAGE} there.")
        yield found


def _examples(words: list[str]) -> dict[str, list[str]]:
    """Those of the lectures in the language of the words, else in English; the first word marked by * is chosen."""
    korean = sum(any("가" <= letter <= "힣" for letter in word) for word in words)
    examples = json.loads(Path(__file__).with_name("examples.json").read_text(encoding="utf-8"))
    return examples["ko" if 2 * korean > len(words) else "en"]


def _write_softmaxes(data: Path, scorer: ElmoScorer) -> list[tuple[np.ndarray, np.ndarray]]:
    """Write the softmaxes, one or one of each direction: rows (V, P) in int8, their scales, and the biases.

    Returns: Weights (V, P) and biases (V,) as the page has them.
    """
    forward, backward = scorer.model.word_softmaxes
    softmax: Any
    rounded, written = [], []
    for softmax in [forward] if forward is backward else [forward, backward]:
        weight, bias = (each.detach().float().numpy() for each in (softmax.weight, softmax.bias))
        codes, scales = quantize(weight, _SOFTMAX_MOST)
        written += [scales, bias, codes]
        rounded.append((codes * scales, bias))
    write_packed(data / "softmax.bin", *written)
    return rounded


def quantize(weights: np.ndarray, most: int = 127) -> tuple[np.ndarray, np.ndarray]:
    """Rows (N, P) as int8 from -most to most, and the scale of each, (N, 1) float32: a weight is their product."""
    scales = np.maximum(np.abs(weights).max(axis=1, keepdims=True), 1e-12).astype(np.float32) / most
    return np.rint(weights / scales).astype(np.int8), scales


def quantize_graph(model: Any) -> None:
    """Put int8 weights and DequantizeLinear in the place of each large matrix, by rows or by columns.

    Whichever is closer to it is taken; onnxruntime multiplies them out when it loads the graph.
    """
    from onnx import helper, numpy_helper

    graph, kept, nodes = model.graph, [], []
    for initializer in graph.initializer:
        values = numpy_helper.to_array(initializer)
        if values.dtype != np.float32 or values.ndim != 2 or values.size < _LEAST_WEIGHTS:
            kept.append(initializer)
            continue
        choices = []
        for axis in (0, 1):
            codes, scales = quantize(values if axis == 0 else values.T)
            error = float(np.square(codes * scales - (values if axis == 0 else values.T)).sum())
            choices.append((error, axis, codes if axis == 0 else codes.T, scales.ravel()))
        _, axis, codes, scales = min(choices, key=lambda each: each[:2])
        name = initializer.name
        kept.append(numpy_helper.from_array(np.ascontiguousarray(codes), f"{name}.codes"))
        kept.append(numpy_helper.from_array(scales, f"{name}.scales"))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}.codes", f"{name}.scales"], [name], axis=axis))
    del graph.initializer[:]
    graph.initializer.extend(kept)
    nodes.extend(graph.node)
    del graph.node[:]
    graph.node.extend(nodes)


def write_packed(path: Path, *arrays: np.ndarray | bytes) -> None:
    """Arrays one behind the other, compressed; the page unpacks them with the browser's own DecompressionStream."""
    data = b"".join(each if isinstance(each, bytes) else np.ascontiguousarray(each).tobytes() for each in arrays)
    path.write_bytes(gzip.compress(data, 6, mtime=0))


def _measure(
    session: Any,
    embedder: ElmoEmbedder,
    scorer: ElmoScorer | None,
    softmaxes: list[tuple[np.ndarray, np.ndarray]],
    examples: dict[str, list[str]],
) -> dict[str, Any]:
    """How far the numbers of the rounded weights are from the checkpoint's, over the words of the examples.

    "vectors" is the mean of |difference| / |vector|, by layer; "surprisal" the mean difference, in bits, and
    "surprisal_most" the largest one, None without a scorer.
    """
    errors: list[np.ndarray] = []
    differences: list[np.ndarray] = []
    for text in [text.replace("*", "") for texts in examples.values() for text in texts]:
        words = embedder.tokenizer.tokenize(text)
        batch = embedder.tokenizer([words], is_split_into_words=True, return_tensors="np")
        found = session.run(None, {each.name: batch[each.name] for each in session.get_inputs()})
        layers = np.concatenate(found)
        (own,) = embedder.stream([words], "all")
        errors.append(np.linalg.norm(layers[:, 1:-1] - own, axis=-1) / np.linalg.norm(own, axis=-1))
        if scorer is not None:
            scores = scorer.score_sentence(words)
            ids = scorer.vocabulary.encode(map(str, scorer.tokenizer.normalize_words(words)))
            left, right = np.split(layers[-1], 2, axis=-1)
            for own_scores, contexts, (weight, bias) in (
                (scores.forward, left[:-2], softmaxes[0]),
                (scores.backward, right[2:], softmaxes[-1]),
            ):
                logits = contexts @ weight.T + bias
                logits -= logits.max(axis=1, keepdims=True)
                log_p = logits[np.arange(len(ids)), ids] - np.log(np.exp(logits).sum(axis=1))
                differences.append(np.abs(log_p - own_scores) / np.log(2))
    every = np.concatenate(differences) if differences else None
    return {
        "vectors": np.concatenate(errors, axis=1).mean(axis=1).tolist(),
        "surprisal": None if every is None else float(every.mean()),
        "surprisal_most": None if every is None else float(every.max()),
    }
