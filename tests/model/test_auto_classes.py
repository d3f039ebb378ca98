"""Loading by transformers' Auto classes: with the package, across classes, and by a checkpoint's own code alone."""

import json
import os
import sys
from collections import defaultdict
from pathlib import Path

import fresh_process
import numpy as np
import pytest
import torch
import transformers
from class_cases import CASES, build, make_inputs, tensors_of
from tolerances import REORDERED_FLOAT32
from transformers import AutoConfig, AutoTokenizer, pipeline
from transformers.dynamic_module_utils import get_class_from_dynamic_module

import hf_elmo
from hf_elmo import ElmoCharTokenizer, ElmoConfig, ElmoForPreTraining, ElmoWordTokenizer
from hf_elmo.model import write_code
from hf_elmo.model.configuration_elmo import WORD_LIST_FILE

# The Auto class of each case, and the files of code that it is saved with.
AUTO_CLASSES = {
    "base": "AutoModel",
    "word vectors": "AutoModel",
    "pretraining": "AutoModelForPreTraining",
    "causal": "AutoModelForCausalLM",
    "tokens": "AutoModelForTokenClassification",
    "texts": "AutoModelForSequenceClassification",
    "answers": "AutoModelForQuestionAnswering",
    "roles": "AutoModel",
    "coreference": "AutoModel",
}
PLAIN = {"configuration_elmo.py", "modeling_elmo.py", "tokenization_elmo.py"}
CODE = {
    **dict.fromkeys(("base", "word vectors", "pretraining", "causal"), PLAIN),
    **dict.fromkeys(("tokens", "texts", "answers"), PLAIN | {"modeling_elmo_tasks.py"}),
    "roles": PLAIN | {"modeling_elmo_tasks.py", "modeling_elmo_srl.py"},
    "coreference": PLAIN | {"modeling_elmo_tasks.py", "modeling_elmo_coref.py"},
}
TOKENIZERS = defaultdict(lambda: ElmoCharTokenizer, causal=ElmoWordTokenizer)
WORDS = ("<S>", "</S>", "<UNK>", "a", "cat", "sat", "on", "the", "日本")
SENTENCES = ["A cat sat on the mat .", "Ünïcode 日本 \U0001f600", ""]


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> dict[str, Path]:
    """A saved directory of each case, model and tokenizer; "whole" is a pre-trained one with the code of all heads."""
    directories = {}
    for name in (*AUTO_CLASSES, "whole"):
        model = build("pretraining" if name == "whole" else name)
        directories[name] = tmp_path_factory.mktemp(name.replace(" ", "_"))
        if isinstance(model, ElmoForPreTraining):
            model.words = WORDS
        model.save_pretrained(directories[name])
        arguments = {"words_file": directories[name] / WORD_LIST_FILE} if name == "causal" else {}
        TOKENIZERS[name](pre_tokenizer="punctuation", **arguments).save_pretrained(directories[name])
    write_code(directories["whole"])
    return directories


def outputs_of(model, batch) -> dict[str, np.ndarray]:
    """The numbers of a model, as a checkpoint's own code computes them where the package is not there."""
    with torch.no_grad(), hf_elmo.kernels.use_backend("reference"):
        return {name: value.numpy() for name, value in tensors_of(model.eval()(**batch))}


def assert_same(found: np.ndarray, wanted: np.ndarray) -> None:
    """The same numbers but for rounding: the order of a sum depends on where a weight lies in memory."""
    largest = np.abs(wanted, where=np.isfinite(wanted), out=np.zeros(wanted.shape)).max(initial=1)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=REORDERED_FLOAT32 * largest)


@pytest.mark.parametrize("name", AUTO_CLASSES)
def test_each_class_is_saved_with_the_code_that_it_needs_and_loaded_by_its_auto_class(saved, name):
    folder, cls = saved[name], CASES[name].cls
    words = {WORD_LIST_FILE} if name in ("pretraining", "causal") else set()
    words |= {"generation_config.json"} if name == "causal" else set()
    files = {path.name for path in folder.iterdir()}
    assert files == CODE[name] | words | {"config.json", "model.safetensors", "tokenizer_config.json"}
    assert not any(path.is_symlink() for path in folder.iterdir())
    auto_map = json.loads((folder / "config.json").read_text())["auto_map"]
    assert auto_map[AUTO_CLASSES[name]] == f"{cls.__module__.split('.')[-1]}.{cls.__name__}"
    assert {f"{value.split('.')[0]}.py" for value in auto_map.values()} <= CODE[name]
    assert type(AutoConfig.from_pretrained(folder)) is ElmoConfig
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert type(tokenizer) is TOKENIZERS[name] and tokenizer.pre_tokenizer == "punctuation"
    model, report = getattr(transformers, AUTO_CLASSES[name]).from_pretrained(folder, output_loading_info=True)
    assert type(model) is cls and not any(report.values())


# Fresh interpreters


def run_fresh(script: str, *arguments, home: Path) -> dict:
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
    run = fresh_process.run(["-c", script, *arguments], cwd=home, env=environment, template=fresh_process.LIBRARIES)
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

print(json.dumps({
    "actions": list(own_actions),
    "tokenizer": transformers.TOKENIZER_MAPPING[type(transformers.AutoConfig.for_model("elmo"))].__name__,
    "pipelines": {
        task: PIPELINE_REGISTRY.supported_tasks[task]["impl"].__name__
        for task in ("token-classification", "feature-extraction", "extractive-question-answering")
    },
    "heavy": sorted({"datasets", "h5py", "evaluate", "flair", "spacy", "accelerate.test_utils"} & set(sys.modules)),
}))
"""


def test_importing_the_package_registers_everything_and_touches_nothing(tmp_path):
    answer = run_fresh(IMPORT_SCRIPT, home=tmp_path)
    assert answer["actions"] == []
    assert answer["heavy"] == []
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
import transformers
from transformers import AutoConfig, AutoTokenizer, pipeline
from transformers.pipelines import PIPELINE_REGISTRY

tasks_before = {task: entry.get("impl") for task, entry in PIPELINE_REGISTRY.supported_tasks.items()}
directories, classes, sentences, out = map(json.loads, sys.argv[1:5])
batches = torch.load(f"{out}/batches.pt")
answer, arrays = {"modules": []}, {}

def numbers(model, name):
    with torch.no_grad():
        outputs = model.eval()(**batches[name])
    return {key: value.numpy() for key, value in outputs.items() if isinstance(value, torch.Tensor)}

def load(name, directory):
    config = AutoConfig.from_pretrained(directory, trust_remote_code=True)
    tokenizer = AutoTokenizer.from_pretrained(directory, trust_remote_code=True)
    model = getattr(transformers, classes[name]).from_pretrained(directory, trust_remote_code=True)
    answer["modules"] += [type(thing).__module__.split(".")[0] for thing in (config, tokenizer, model)]
    return tokenizer, model

for name in classes:
    tokenizer, model = load(name, directories[name])
    found = numbers(model, name)
    arrays.update({f"{name}/{key}": value for key, value in found.items()})
    arrays[f"{name}/ids"] = np.array(tokenizer(sentences, padding=True)["input_ids"])
    model.save_pretrained(f"{out}/{name}")
    tokenizer.save_pretrained(f"{out}/{name}")
    again = numbers(load(name, f"{out}/{name}")[1], name)
    assert all(np.array_equal(value, again[key], equal_nan=True) for key, value in found.items()), name

# A checkpoint that the package writes is loaded as a model of any task.
answer["whole"] = [
    type(getattr(transformers, auto).from_pretrained(directories["whole"], trust_remote_code=True)).__name__
    for auto in sorted(set(classes.values()))
]
features = pipeline("feature-extraction", model=directories["base"], trust_remote_code=True)
arrays["features"] = np.array(features(sentences[0]))
# The registry is that of all models of the process.
tasks = {task: entry.get("impl") for task, entry in PIPELINE_REGISTRY.supported_tasks.items()}
answer["pipelines of its own"] = sorted(task for task in tasks if tasks[task] is not tasks_before.get(task))
np.savez(f"{out}/numbers.npz", **arrays)
assert "hf_elmo" not in sys.modules
print(json.dumps(answer))
"""
)


def test_a_checkpoint_works_by_its_own_code_without_the_package(saved, tmp_path):
    batches = {name: make_inputs(name) for name in AUTO_CLASSES}
    torch.save({name: dict(batch) for name, batch in batches.items()}, tmp_path / "batches.pt")
    directories = {name: str(path) for name, path in saved.items()}
    arguments = map(json.dumps, (directories, AUTO_CLASSES, SENTENCES, str(tmp_path)))
    answer = run_fresh(REMOTE_SCRIPT, *arguments, home=tmp_path)
    assert set(answer["modules"]) == {"transformers_modules"} and answer["pipelines of its own"] == []
    assert answer["whole"] == [
        *("ElmoModel", "ElmoForCausalLM", "ElmoForPreTraining", "ElmoForQuestionAnswering"),
        *("ElmoForSequenceClassification", "ElmoForTokenClassification"),
    ]
    numbers = np.load(tmp_path / "numbers.npz")
    for name, auto in AUTO_CLASSES.items():
        model = getattr(transformers, auto).from_pretrained(saved[name])
        wanted = {key.removeprefix("output."): value for key, value in outputs_of(model, batches[name]).items()}
        for key in [key.removeprefix(f"{name}/") for key in numbers if key.startswith(f"{name}/")]:
            if key == "ids":
                ids = AutoTokenizer.from_pretrained(saved[name])(SENTENCES, padding=True)["input_ids"]
                assert numbers[f"{name}/ids"].tolist() == ids
            else:
                assert_same(numbers[f"{name}/{key}"], wanted[key])
        # What its code writes is what the package writes.
        for path in saved[name].iterdir():
            same = (tmp_path / name / path.name).read_bytes() == path.read_bytes()
            assert same or path.suffix in (".json", ".safetensors"), path
    config = json.loads((tmp_path / "tokens" / "config.json").read_text())
    assert config == json.loads((saved["tokens"] / "config.json").read_text())
    with torch.no_grad(), hf_elmo.kernels.use_backend("reference"):
        vectors = pipeline("feature-extraction", model=str(saved["base"]))(SENTENCES[0])
    assert_same(numbers["features"].astype(np.float32), np.array(vectors, dtype=np.float32))


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
    answer = run_fresh(TWICE_SCRIPT, saved["base"], home=tmp_path)
    assert answer == {"kept": [True] * 2, "modules": ["transformers_modules"] * 2, "imported": False, "ours": True}


def test_a_checkpoints_own_code_takes_the_kernels_of_an_imported_package(saved, code_cache):
    model = get_class_from_dynamic_module("modeling_elmo.ElmoModel", saved["base"]).from_pretrained(saved["base"])
    module = sys.modules[type(model).__module__]
    assert module.__name__.startswith("transformers_modules.") and module.kernels is hf_elmo.kernels
    batch = make_inputs("base")
    with torch.no_grad():
        found = model.eval()(**batch).last_hidden_state
    np.testing.assert_allclose(
        found.numpy(), outputs_of(model, batch)["output.last_hidden_state"], rtol=1e-5, atol=1e-5
    )


def test_a_star_brings_the_classes_and_no_package():
    names: dict = {}
    exec("from hf_elmo import *", names)
    assert {"ElmoModel", "ElmoCharTokenizer", "ElmoScorer", "TokenClassificationHead"} <= names.keys()
    assert {"model", "text", "AutoModel", "TYPE_CHECKING"}.isdisjoint(names)
