"""Loading by transformers' Auto classes: with the package, across classes, and by a checkpoint's own code alone."""

import json
import os
import sys
from pathlib import Path

import fresh_process
import numpy as np
import pytest
import torch
from conftest import make_tiny_config
from safetensors.torch import load_file
from tolerances import REORDERED_FLOAT32
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForPreTraining,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    pipeline,
)
from transformers.dynamic_module_utils import get_class_from_dynamic_module

import hf_elmo
from hf_elmo import (
    ElmoCharTokenizer,
    ElmoConfig,
    ElmoForPreTraining,
    ElmoForQuestionAnswering,
    ElmoForSemanticRoleLabeling,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
    QuestionAnsweringHead,
    SemanticRoleLabelingHead,
    SequenceClassificationHead,
)

AUTO_CLASSES = {
    "model": (AutoModel, ElmoModel),
    "pretraining": (AutoModelForPreTraining, ElmoForPreTraining),
    "tokens": (AutoModelForTokenClassification, ElmoForTokenClassification),
    "texts": (AutoModelForSequenceClassification, ElmoForSequenceClassification),
    "answers": (AutoModelForQuestionAnswering, ElmoForQuestionAnswering),
}
HEADS = {
    "texts": {"head": SequenceClassificationHead(encoder="bcn", hidden_size=3, mix_at_output=True)},
    "answers": {"head": QuestionAnsweringHead(hidden_size=3)},
}
TAGGERS_HEAD = {"classifier_lstm_layers": 1}
WORDS = ("<S>", "</S>", "<UNK>", "a", "cat", "sat", "on", "the", "日本")
SENTENCES = ["A cat sat on the mat .", "Ünïcode 日本 \U0001f600", ""]
CODE_FILES = {"configuration_elmo.py", "modeling_elmo.py", "modeling_elmo_tasks.py", "tokenization_elmo.py"}


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> dict[str, Path]:
    """A saved directory of each class, model and tokenizer."""
    directories = {}
    for name, (_, cls) in AUTO_CLASSES.items():
        torch.manual_seed(0)
        config = make_tiny_config(
            word_vocab_size=9, id2label={0: "O", 1: "PER", 2: "LOC"}, **HEADS.get(name, TAGGERS_HEAD)
        )
        model = cls(config)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_()
        directories[name] = tmp_path_factory.mktemp(name)
        if name == "pretraining":
            model.words = WORDS
        model.save_pretrained(directories[name])
        ElmoCharTokenizer(pre_tokenizer="punctuation").save_pretrained(directories[name])
    return directories


def outputs_of(model, tokenizer) -> dict[str, np.ndarray]:
    """The numbers of a model on the same few sentences."""
    texts = [SENTENCES, SENTENCES[::-1]] if isinstance(model, ElmoForQuestionAnswering) else [SENTENCES]
    batch = tokenizer(*texts, padding=True, return_tensors="pt")
    # As a checkpoint's own code computes them where the package is not there.
    with torch.no_grad(), hf_elmo.kernels.use_backend("readable"):
        outputs = model.eval()(**batch)
    return {name: value.numpy() for name, value in outputs.items() if isinstance(value, torch.Tensor)}


def layers_of(model, tokenizer) -> torch.Tensor:
    """The biLM's layers side by side, whatever the head."""
    batch = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    with torch.no_grad():
        return torch.cat(model.eval()(**batch, output_hidden_states=True).hidden_states, dim=-1)


def assert_same(found: np.ndarray, wanted: np.ndarray) -> None:
    """The same numbers but for rounding: the order of a sum depends on where a weight lies in memory."""
    np.testing.assert_allclose(found, wanted, rtol=0, atol=REORDERED_FLOAT32 * max(1, np.abs(wanted).max()))


@pytest.mark.parametrize("name", AUTO_CLASSES)
def test_each_class_is_saved_complete(saved, name):
    files = {path.name for path in saved[name].iterdir()}
    words = {"word_vocabulary.txt"} if name == "pretraining" else set()
    assert files == CODE_FILES | words | {"config.json", "model.safetensors", "tokenizer_config.json"}
    assert not any(path.is_symlink() for path in saved[name].iterdir())
    auto_map = json.loads((saved[name] / "config.json").read_text())["auto_map"]
    assert auto_map == {
        "AutoConfig": "configuration_elmo.ElmoConfig",
        "AutoModel": "modeling_elmo.ElmoModel",
        "AutoModelForPreTraining": "modeling_elmo.ElmoForPreTraining",
        "AutoModelForQuestionAnswering": "modeling_elmo_tasks.ElmoForQuestionAnswering",
        "AutoModelForSequenceClassification": "modeling_elmo_tasks.ElmoForSequenceClassification",
        "AutoModelForTokenClassification": "modeling_elmo_tasks.ElmoForTokenClassification",
    }
    assert load_file(saved[name] / "model.safetensors")


@pytest.mark.parametrize("name", AUTO_CLASSES)
def test_auto_classes_load_what_was_saved(saved, name):
    auto, cls = AUTO_CLASSES[name]
    assert type(AutoConfig.from_pretrained(saved[name])) is ElmoConfig
    tokenizer = AutoTokenizer.from_pretrained(saved[name])
    assert type(tokenizer) is ElmoCharTokenizer and tokenizer.pre_tokenizer == "punctuation"
    model, report = auto.from_pretrained(saved[name], output_loading_info=True)
    assert type(model) is cls
    assert not any(report.values())
    stored = load_file(saved[name] / "model.safetensors")
    assert set(stored) == set(model.state_dict())
    assert all(torch.equal(tensor, stored[key]) for key, tensor in model.state_dict().items())


@pytest.mark.parametrize(
    ("source", "target", "new"),
    [
        ("pretraining", "model", set()),
        ("tokens", "model", set()),
        ("model", "tokens", {"classifier", "lstm"}),
        ("pretraining", "tokens", {"classifier", "lstm"}),
        ("model", "pretraining", {"word_softmax"}),
        ("tokens", "pretraining", {"word_softmax"}),
        ("texts", "model", set()),
        ("pretraining", "texts", {"classifier"}),
    ],
)
def test_each_class_loads_the_others_checkpoints(saved, source, target, new):
    tokenizer = AutoTokenizer.from_pretrained(saved[source])
    original = AUTO_CLASSES[source][0].from_pretrained(saved[source])
    model, report = AUTO_CLASSES[target][0].from_pretrained(saved[source], output_loading_info=True)
    assert {key.split(".")[0] for key in report["missing_keys"]} == new
    # The old head is left behind; that of pre-training without a word.
    left = {"tokens": {"classifier", "lstm"}, "texts": {"classifier", "text_encoder", "output"}}
    assert {key.split(".")[0] for key in report["unexpected_keys"]} == left.get(source, set())
    assert not report["mismatched_keys"]
    assert_same(layers_of(model, tokenizer).numpy(), layers_of(original, tokenizer).numpy())
    mixes = [dict(module.base_model.mixes.named_parameters()) for module in (model, original)]
    assert all(torch.equal(mixes[0][name], mixes[1][name]) for name in mixes[1])
    # What is new starts by the model's own rules, not at zero or at what the memory held.
    for name, parameter in model.named_parameters():
        if name.split(".")[0] in new:
            assert parameter.isfinite().all()
            assert bool(parameter.any()) is ("bias" not in name)


@pytest.mark.parametrize("name", AUTO_CLASSES)
def test_auto_classes_build_from_a_config(name):
    auto, cls = AUTO_CLASSES[name]
    assert type(auto.from_config(make_tiny_config(word_vocab_size=9))) is cls


def test_labels_given_at_loading_size_the_classifier(saved):
    labels = {0: "O", 1: "B", 2: "I", 3: "E"}
    model = AutoModelForTokenClassification.from_pretrained(saved["model"], id2label=labels)
    assert model.classifier.out_features == 4
    assert model.config.label2id == {label: index for index, label in labels.items()}


def test_a_misspelt_setting_of_a_model_is_refused(saved):
    with pytest.raises(TypeError, match="freeze_bilmm"):
        AutoModel.from_pretrained(saved["model"], freeze_bilmm=False)
    assert not AutoModel.from_pretrained(saved["model"], freeze_bilm=False).config.freeze_bilm


# Fresh interpreters


def run_fresh(script: str, *arguments, home: Path, modules: tuple[str, ...] = fresh_process.TRANSFORMERS) -> dict:
    """Run a script in an interpreter that knows nothing of ours; what it prints last is its answer, as JSON."""
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(home),
        "HF_HOME": str(home / "hf"),
        "HF_MODULES_CACHE": str(home / "modules"),
        "HF_HUB_OFFLINE": "1",
        # As many as here: bits may depend on how a sum is split.
        "OMP_NUM_THREADS": str(torch.get_num_threads()),
    }
    run = fresh_process.run(["-c", script, *arguments], cwd=home, env=environment, modules=modules)
    assert run.returncode == 0, run.stderr[-4000:]
    return json.loads(run.stdout.splitlines()[-1])


IMPORT_SCRIPT = """
import json, os, sys

WATCHED = {"open", "os", "shutil", "socket", "subprocess", "tempfile", "glob", "urllib"}
own_actions = []

def watch(event, args):
    if event.split(".")[0] not in WATCHED:
        return
    # Ours is what a frame of the package asked for; what another package does while it is imported is not.
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith("<frozen importlib"):
            return
        if os.sep + "hf_elmo" + os.sep in name:
            own_actions.append([event, repr(args)[:200], name, frame.f_lineno])
            return
        frame = frame.f_back

sys.addaudithook(watch)
import hf_elmo

import transformers
from transformers.pipelines import PIPELINE_REGISTRY

config = hf_elmo.ElmoConfig()
tiny = hf_elmo.ElmoConfig(
    filters=[[1, 2]], projection_size=2, cell_size=2, num_highway_layers=0, num_hidden_layers=1, word_vocab_size=3
)
print(json.dumps({
    "actions": list(own_actions),
    "config": transformers.AutoConfig.for_model("elmo").__class__.__name__,
    "classes": {
        name: type(getattr(transformers, name).from_config(tiny)).__name__
        for name in (
            "AutoModel", "AutoModelForPreTraining", "AutoModelForQuestionAnswering",
            "AutoModelForSequenceClassification", "AutoModelForTokenClassification",
        )
    },
    "tokenizer": transformers.TOKENIZER_MAPPING[type(config)].__name__,
    "pipelines": {
        task: PIPELINE_REGISTRY.supported_tasks[task]["impl"].__name__
        for task in ("token-classification", "feature-extraction", "extractive-question-answering")
    },
    "missing": [name for name in hf_elmo.__all__ if not hasattr(hf_elmo, name)],
    "heavy": sorted({"datasets", "h5py", "evaluate", "accelerate.test_utils"} & set(sys.modules)),
}))
"""


def test_importing_the_package_registers_everything_and_touches_nothing(tmp_path):
    answer = run_fresh(IMPORT_SCRIPT, home=tmp_path, modules=fresh_process.LIBRARIES)
    assert answer["actions"] == []
    assert answer["missing"] == []
    assert answer["heavy"] == []
    assert answer["config"] == "ElmoConfig"
    assert answer["classes"] == {
        "AutoModel": "ElmoModel",
        "AutoModelForPreTraining": "ElmoForPreTraining",
        "AutoModelForQuestionAnswering": "ElmoForQuestionAnswering",
        "AutoModelForSequenceClassification": "ElmoForSequenceClassification",
        "AutoModelForTokenClassification": "ElmoForTokenClassification",
    }
    assert answer["tokenizer"] == "ElmoCharTokenizer"
    assert answer["pipelines"] == {
        "token-classification": "ElmoTokenClassificationPipeline",
        "feature-extraction": "ElmoFeatureExtractionPipeline",
        "extractive-question-answering": "ElmoQuestionAnsweringPipeline",
    }
    assert not any(tmp_path.iterdir())


REMOTE_SCRIPT = (
    fresh_process.WITHOUT_OUR_PACKAGE
    + """
import json, sys
try:
    import hf_elmo
    raise SystemExit("hf_elmo can be imported: this would prove nothing")
except ModuleNotFoundError:
    pass

import numpy as np
import torch
from transformers import (
    AutoConfig, AutoModel, AutoModelForPreTraining, AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer, pipeline
)
from transformers.pipelines import PIPELINE_REGISTRY

tasks_before = {task: entry.get("impl") for task, entry in PIPELINE_REGISTRY.supported_tasks.items()}

directories, sentences, out = json.loads(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
classes = {
    "model": AutoModel, "pretraining": AutoModelForPreTraining, "tokens": AutoModelForTokenClassification,
    "texts": AutoModelForSequenceClassification, "answers": AutoModelForQuestionAnswering,
}
answer, arrays = {"modules": {}}, {}

def numbers(model, tokenizer):
    texts = [sentences, sentences[::-1]] if "QuestionAnswering" in type(model).__name__ else [sentences]
    batch = tokenizer(*texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        outputs = model.eval()(**batch)
    return {name: value.numpy() for name, value in outputs.items() if isinstance(value, torch.Tensor)}

def load(name, directory):
    config = AutoConfig.from_pretrained(directory, trust_remote_code=True)
    tokenizer = AutoTokenizer.from_pretrained(directory, trust_remote_code=True)
    model = classes[name].from_pretrained(directory, trust_remote_code=True)
    return config, tokenizer, model

for name, directory in directories.items():
    config, tokenizer, model = load(name, directory)
    answer["modules"][name] = [type(thing).__module__.split(".")[0] for thing in (config, tokenizer, model)]
    for key, value in numbers(model, tokenizer).items():
        arrays[f"{name}/{key}"] = value
    model.save_pretrained(f"{out}/{name}")
    tokenizer.save_pretrained(f"{out}/{name}")
    again = numbers(*load(name, f"{out}/{name}")[:0:-1])
    answer[f"{name} again"] = all(np.array_equal(value, arrays[f"{name}/{key}"]) for key, value in again.items())

# A tokenizer alone.
tokenizer.save_pretrained(f"{out}/tokenizer")
alone = AutoTokenizer.from_pretrained(f"{out}/tokenizer", trust_remote_code=True)
answer["tokenizer alone"] = alone(sentences)["input_ids"] == tokenizer(sentences)["input_ids"]

# A checkpoint of one class, another Auto class.
AutoModel.from_pretrained(directories["tokens"], trust_remote_code=True)

features = pipeline("feature-extraction", model=directories["model"], trust_remote_code=True)
arrays["features"] = np.array(features(sentences[0]))
classifier = pipeline("text-classification", model=directories["texts"], trust_remote_code=True, device="cpu")
answer["labels"] = classifier(sentences, top_k=None)
# The registry is that of all models of the process.
tasks = {task: entry.get("impl") for task, entry in PIPELINE_REGISTRY.supported_tasks.items()}
answer["pipelines of its own"] = sorted(task for task in tasks if tasks[task] is not tasks_before.get(task))
np.savez(f"{out}/numbers.npz", **arrays)
assert "hf_elmo" not in sys.modules
print(json.dumps(answer))
"""
)


def test_a_checkpoint_works_by_its_own_code_without_the_package(saved, tmp_path):
    """The same numbers where `hf_elmo` cannot be imported; and saved again from there."""
    answer = run_fresh(
        REMOTE_SCRIPT,
        json.dumps({name: str(directory) for name, directory in saved.items()}),
        json.dumps(SENTENCES),
        tmp_path,
        home=tmp_path,
    )
    numbers = np.load(tmp_path / "numbers.npz")
    for name, (auto, cls) in AUTO_CLASSES.items():
        assert answer["modules"][name] == ["transformers_modules"] * 3
        assert answer[f"{name} again"] is True
        tokenizer, model = AutoTokenizer.from_pretrained(saved[name]), auto.from_pretrained(saved[name])
        wanted = outputs_of(model, tokenizer)
        assert {key.split("/")[1] for key in numbers if key.startswith(f"{name}/")} == set(wanted)
        for key, value in wanted.items():
            assert_same(numbers[f"{name}/{key}"], value)
        # What the checkpoint's own code saved is a checkpoint like any other.
        assert {path.name for path in (tmp_path / name).iterdir()} == {path.name for path in saved[name].iterdir()}
        again = auto.from_pretrained(tmp_path / name)
        assert type(again) is cls
        tokenizer = AutoTokenizer.from_pretrained(tmp_path / name)
        assert type(tokenizer) is ElmoCharTokenizer and tokenizer.pre_tokenizer == "punctuation"
        for key, value in outputs_of(again, tokenizer).items():
            assert_same(value, wanted[key])
        configs = [json.loads((directory / "config.json").read_text()) for directory in (tmp_path / name, saved[name])]
        assert configs[0] == configs[1]

    assert answer["tokenizer alone"] is True
    assert answer["pipelines of its own"] == []
    assert AutoModelForPreTraining.from_pretrained(tmp_path / "pretraining").words == WORDS
    tokenizer, model = AutoTokenizer.from_pretrained(saved["model"]), AutoModel.from_pretrained(saved["model"])
    with torch.no_grad(), hf_elmo.kernels.use_backend("readable"):
        features = model(**tokenizer(SENTENCES[0], return_tensors="pt")).last_hidden_state
    # The pipeline hands out Python floats.
    assert_same(numbers["features"].astype(np.float32), features.numpy())
    classifier = pipeline("text-classification", model=str(saved["texts"]), device="cpu")
    for found, wanted in zip(answer["labels"], classifier(SENTENCES, top_k=None), strict=True):
        assert [row["label"] for row in found] == [row["label"] for row in wanted]
        assert [row["score"] for row in found] == pytest.approx([row["score"] for row in wanted], abs=1e-4)


ROLES_SCRIPT = (
    fresh_process.WITHOUT_OUR_PACKAGE
    + """
import json, sys
import torch
from transformers import AutoModel, AutoTokenizer

model = AutoModel.from_pretrained(sys.argv[1], trust_remote_code=True).eval()
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1], trust_remote_code=True)
batch = tokenizer(["a cat sat"], return_tensors="pt")
batch["predicate_mask"] = torch.tensor([[0, 0, 0, 1, 0]])
with torch.no_grad():
    logits = model(**batch).logits
answer = {
    "class": type(model).__name__,
    "logits": logits.tolist(),
    "labels": model.decode(logits, batch["input_ids"]).tolist(),
}
model.save_pretrained(sys.argv[2])
assert "hf_elmo" not in sys.modules
print(json.dumps(answer))
"""
)


def test_semantic_roles_work_by_their_own_code_without_the_package(tmp_path):
    head = SemanticRoleLabelingHead(hidden_size=4, predicate_size=2, num_layers=2)
    config = make_tiny_config(head=head, id2label={0: "O", 1: "B-V", 2: "B-ARG0", 3: "I-ARG0"})
    model = ElmoForSemanticRoleLabeling(config).eval()
    model.save_pretrained(tmp_path / "saved")
    tokenizer = ElmoCharTokenizer()
    tokenizer.save_pretrained(tmp_path / "saved")
    answer = run_fresh(ROLES_SCRIPT, tmp_path / "saved", tmp_path / "again", home=tmp_path)
    assert answer["class"] == "ElmoForSemanticRoleLabeling"
    batch = tokenizer(["a cat sat"], return_tensors="pt")
    batch["predicate_mask"] = torch.tensor([[0, 0, 0, 1, 0]])
    with torch.no_grad(), hf_elmo.kernels.use_backend("readable"):
        logits = model(**batch).logits
    assert_same(np.array(answer["logits"], dtype=np.float32), logits.numpy())
    assert answer["labels"] == model.decode(logits, batch["input_ids"]).tolist()
    assert type(AutoModel.from_pretrained(tmp_path / "again")) is ElmoForSemanticRoleLabeling


TABLE_SCRIPT = (
    fresh_process.WITHOUT_OUR_PACKAGE
    + """
import json, sys
import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

directory, sentences, out = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
tokenizer = AutoTokenizer.from_pretrained(directory, trust_remote_code=True)
model = AutoModel.from_pretrained(directory, trust_remote_code=True).eval()
table = model.token_encoder.word_table
with torch.no_grad():
    vectors = model(**tokenizer(sentences, padding=True, return_tensors="pt")).last_hidden_state
weight = table.weight.detach().numpy()
np.savez(f"{out}/numbers.npz", vectors=vectors.numpy(), hashes=table.hashes.numpy(), weight=weight)
model.save_pretrained(f"{out}/again")
assert "hf_elmo" not in sys.modules
print(json.dumps({"module": type(table).__module__}))
"""
)


def test_a_word_table_travels_with_a_checkpoint_that_works_without_the_package(tmp_path):
    words = ["cat", "mat", "<S>", "</S>", "Ünïcode"]
    tokenizer = ElmoCharTokenizer()
    config = make_tiny_config(token_inputs="both", word_table_size=len(words), word_vector_size=5, word_vocab_size=9)
    model = ElmoForPreTraining(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    table = model.elmo.token_encoder.word_table
    table.fill(torch.from_numpy(tokenizer.encode_words(words)))
    saved = tmp_path / "saved"
    model.save_pretrained(saved)
    tokenizer.save_pretrained(saved)
    assert {path.name for path in saved.glob("*.py")} == CODE_FILES
    answer = run_fresh(TABLE_SCRIPT, saved, json.dumps(SENTENCES), tmp_path, home=tmp_path)
    assert answer["module"].startswith("transformers_modules.") and answer["module"].endswith(".modeling_elmo")
    numbers = np.load(tmp_path / "numbers.npz")
    assert np.array_equal(numbers["hashes"], table.hashes.numpy())
    assert np.array_equal(numbers["weight"], table.weight.detach().numpy())
    wanted = outputs_of(model.elmo, tokenizer)["last_hidden_state"]
    assert_same(numbers["vectors"], wanted)
    again = AutoModel.from_pretrained(tmp_path / "again")
    assert type(again) is ElmoModel
    assert_same(outputs_of(again, tokenizer)["last_hidden_state"], wanted)


TWICE_SCRIPT = """
import json, sys
from transformers import AutoModel, AutoTokenizer

loaded = []
for _ in range(2):
    loaded.append([kind.from_pretrained(sys.argv[1], trust_remote_code=True) for kind in (AutoTokenizer, AutoModel)])
kept = [type(first) is type(second) for first, second in zip(*loaded)]
modules = [type(each).__module__.split(".")[0] for each in loaded[0]]
imported = "hf_elmo" in sys.modules

import hf_elmo

ours = type(AutoModel.from_pretrained(sys.argv[1])) is hf_elmo.ElmoModel
print(json.dumps({"kept": kept, "modules": modules, "imported": imported, "ours": ours}))
"""


def test_the_package_where_it_is_installed_is_used_only_where_it_is_imported(saved, tmp_path):
    answer = run_fresh(TWICE_SCRIPT, saved["model"], home=tmp_path)
    assert answer == {"kept": [True] * 2, "modules": ["transformers_modules"] * 2, "imported": False, "ours": True}


def test_a_checkpoints_own_code_takes_the_kernels_of_an_imported_package(saved, code_cache):
    model = get_class_from_dynamic_module("modeling_elmo.ElmoModel", saved["model"]).from_pretrained(saved["model"])
    module = sys.modules[type(model).__module__]
    assert module.__name__.startswith("transformers_modules.") and module.kernels is hf_elmo.kernels
    tokenizer = ElmoCharTokenizer.from_pretrained(saved["model"])
    with torch.no_grad():
        found = model.eval()(**tokenizer(SENTENCES, padding=True, return_tensors="pt")).last_hidden_state
    wanted = outputs_of(model, tokenizer)["last_hidden_state"]
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-5)  # the weights are ten times usual ones
