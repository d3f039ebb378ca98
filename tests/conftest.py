"""Settings and fixtures shared by all tests: offline, on two threads, and with models small enough to be quick.

What takes seconds to import is imported where it is used: the process that hands the tests out uses none of it.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import logging
import os
import shutil
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# The tests are of a CPU; those that ask a GPU are in test_cuda.py.
if "HF_ELMO_TEST_CUDA" not in os.environ:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
# Threads that wait for one another sleep: a core that they keep busy is the other worker's.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import fresh_process
import pytest
from examples import THOROUGH, USUAL
from hypothesis import settings

# Checkpoints by the hundred, of some forty files each, are written and removed in memory where that has room for them.
MEMORY_DISK, ITS_ROOM = Path("/dev/shm"), 4 << 30
if MEMORY_DISK.is_dir() and os.access(MEMORY_DISK, os.W_OK) and shutil.disk_usage(MEMORY_DISK).free > ITS_ROOM:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY_DISK))

# What a shell starts in its background is deaf to interrupts, of which some tests want to hear.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    with contextlib.suppress(ValueError):  # in a worker that has another main thread
        signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("HF_ELMO_DATA", ROOT.parent / "shared" / "data"))

# The same examples every time: a test that fails now and then helps nobody. `make test-slow` takes more of them.
settings.register_profile("hf_elmo", derandomize=True, deadline=None, max_examples=USUAL)
settings.register_profile("thorough", derandomize=True, deadline=None, max_examples=THOROUGH)
settings.load_profile("hf_elmo")


def pytest_configure(config):
    if not hasattr(config, "workerinput"):  # which xdist's workers have
        fresh_process.open_templates()


def pytest_collection_modifyitems(items):
    """What starts interpreters of its own comes first, so that no worker is left alone with it in the end."""
    items.sort(key=lambda item: item.path.parent != ROOT / "tests")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What was imported and collected stays: it is not looked through for garbage again and again."""
    gc.disable()
    result = yield
    gc.collect()
    gc.freeze()
    gc.set_threshold(5000, 20, 50)  # models come by the thousand: all that lives is looked through less often
    gc.enable()
    return result


@pytest.fixture(autouse=True)
def _seed():
    import torch

    # Seeds for a device that is not there are kept with all of the stack, for the day when it is.
    seed = torch.manual_seed if torch.cuda.is_available() else torch.default_generator.manual_seed
    seed(0)


@pytest.fixture(autouse=True, scope="session")
def _shortcuts():
    """What libraries do again and again for hundreds of tiny models, and what takes most of the time of each.

    Trainer looks through all of memory for garbage before each training, each step of an optimizer looks through all
    folders of modules for a library, and each model that is saved has its files read for what they import from one
    another; those of the package are the same for the whole session.
    """
    import accelerate.optimizer
    import transformers.dynamic_module_utils

    files_of = transformers.dynamic_module_utils.get_relative_import_files
    kept = functools.cache(files_of)

    def relative_import_files(module_file):
        return kept(str(module_file)) if Path(module_file).is_relative_to(ROOT / "hf_elmo") else files_of(module_file)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("transformers.dynamic_module_utils.get_relative_import_files", relative_import_files)
        patch.setattr("accelerate.utils.memory.gc", SimpleNamespace(collect=lambda: 0))
        is_there = functools.cache(accelerate.optimizer.is_lomo_available)
        patch.setattr("accelerate.optimizer.is_lomo_available", is_there)
        yield


@pytest.fixture
def log_records():
    """The warnings of all loggers, those of transformers too, which does not pass them on."""
    records = []
    handler = logging.Handler()
    handler.emit = records.append
    levels = {logger: logger.level for logger in (logging.getLogger(), logging.getLogger("transformers"))}
    for logger in levels:
        logger.addHandler(handler)
        logger.setLevel(logging.WARNING)
    yield records
    for logger, level in levels.items():
        logger.removeHandler(handler)
        logger.setLevel(level)


@pytest.fixture
def accelerate_anew():
    """accelerate keeps the precision of the first run of a process for all later ones; called, it forgets it again."""
    from accelerate.state import AcceleratorState

    def forget():
        AcceleratorState._reset_state(reset_partial_state=True)

    forget()
    yield forget
    forget()


@pytest.fixture
def drawn_plots():
    """Asked for by tests whose runs draw their picture."""


@pytest.fixture(autouse=True)
def _plots(request, monkeypatch):
    """Runs leave their picture empty: drawing it takes longer than their steps, and it has tests of its own."""
    module = sys.modules.get("hf_elmo.pretraining.run")
    if module is not None and "drawn_plots" not in request.fixturenames:
        monkeypatch.setattr(module, "plot_run", lambda results, path: path.write_bytes(b""))


@pytest.fixture(scope="module")
def embedder(tmp_path_factory):
    """Of a tiny checkpoint that lies in a directory of its own."""
    import torch

    import hf_elmo

    directory = str(tmp_path_factory.mktemp("checkpoint"))
    torch.manual_seed(0)  # else its weights would be those of whatever ran before
    hf_elmo.ElmoModel(make_tiny_config()).save_pretrained(directory)
    hf_elmo.ElmoCharTokenizer().save_pretrained(directory)
    return hf_elmo.ElmoEmbedder(directory, device="cpu")


@pytest.fixture
def tokenizer():
    from hf_elmo import ElmoCharTokenizer

    return ElmoCharTokenizer()


def make_tiny_config(**overrides):
    """A config of odd sizes, so that no two axes can be mixed up unnoticed."""
    from hf_elmo import ElmoConfig

    return ElmoConfig(
        **{
            "character_embedding_size": 4,
            "filters": [[1, 3], [2, 5], [3, 6]],
            "num_highway_layers": 1,
            "projection_size": 6,
            "cell_size": 10,
            **overrides,
        }
    )


def shared_data(name: str) -> Path:
    """A file or folder of the real data, or a skip that says what is missing."""
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{path} is absent; set HF_ELMO_DATA to the folder that holds {name}")
    return path


@pytest.fixture
def write(tmp_path):
    """Writes bytes, a text or a list of lines into a file, and returns its path."""

    def write_file(content, name="data.tsv"):
        text = "".join(f"{line}\n" for line in content) if isinstance(content, list) else content
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write_file


@pytest.fixture
def code_cache(tmp_path, monkeypatch):
    """Where a checkpoint's own code is imported from in this process, which forgets it behind the test."""
    folder = tmp_path / "modules"

    def forget():
        for name in [name for name in sys.modules if name.split(".")[0] == "transformers_modules"]:
            del sys.modules[name]

    forget()
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(folder))
    monkeypatch.syspath_prepend(folder)
    yield folder
    forget()
