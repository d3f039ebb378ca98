"""transformers knows our classes after `import hf_elmo`, whatever was imported first; and the import is light."""

import importlib
import importlib.util
import json
import pickle
import sys
import warnings
from importlib.abc import Loader, MetaPathFinder

import fresh_process
import pytest
from conftest import make_tiny_config

import hf_elmo
from hf_elmo.registration import _Registrar

ANSWER = """
import json, sys, transformers, hf_elmo
from transformers.pipelines import PIPELINE_REGISTRY
config = transformers.AutoConfig.for_model("elmo")
names = ("AutoModel", "AutoModelForPreTraining", "AutoModelForQuestionAnswering",
         "AutoModelForSequenceClassification", "AutoModelForTokenClassification")
found = [getattr(transformers, name)._model_mapping[type(config)] for name in names]
print(json.dumps({
    # Of several classes the first is that of a checkpoint that names none.
    "classes": [(each[0] if isinstance(each, tuple) else each).__name__ for each in found],
    "tokenizer": transformers.TOKENIZER_MAPPING[type(config)].__name__,
    "pipeline": PIPELINE_REGISTRY.supported_tasks["token-classification"]["impl"].__name__,
    "is_hf_elmos": type(config) is hf_elmo.ElmoConfig,
    "finders": [type(finder).__name__ for finder in sys.meta_path],
}))
"""
LIGHT = 'import sys; assert not {"torch", "transformers", "datasets", "numpy"} & set(sys.modules);'


# Each import meets half-made modules at another place: transformers.modelcard and .trainer import the Auto classes
# in their own middle, and the package's own models import transformers' pipelines.
@pytest.mark.parametrize(
    "first",
    [
        f"import hf_elmo; {LIGHT} from transformers import AutoModel",
        "from transformers import AutoModel; import hf_elmo",
        "from hf_elmo import *; import transformers.modelcard",
        "import hf_elmo, transformers.modelcard; from transformers import pipeline",
    ],
    ids=["before", "after", "by-star", "in-the-middle"],
)
def test_everything_is_registered_whatever_is_imported_first(first):
    warn = "import warnings; warnings.simplefilter('error', RuntimeWarning)"
    modules = () if LIGHT in first else fresh_process.LIBRARIES
    done = fresh_process.run(["-c", f"{warn}\n{first}\n{ANSWER}"], modules=modules)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["classes"] == [
        "ElmoModel",
        "ElmoForPreTraining",
        "ElmoForQuestionAnswering",
        "ElmoForSequenceClassification",
        "ElmoForTokenClassification",
    ]
    assert (answer["tokenizer"], answer["pipeline"]) == ("ElmoCharTokenizer", "ElmoTokenClassificationPipeline")
    assert answer["is_hf_elmos"]
    assert "_Registrar" not in answer["finders"], "all is registered, but the finder is still there"


def test_public_names_are_found_and_others_are_not():
    assert set(hf_elmo.__all__) <= set(dir(hf_elmo))
    for name in hf_elmo.__all__:
        assert getattr(hf_elmo, name).__name__ == name
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = hf_elmo.no_such_name
    with pytest.raises(ImportError, match="no_such_name"):
        from hf_elmo import no_such_name  # noqa: F401


def test_models_and_configs_are_pickled_by_name():
    model = pickle.loads(pickle.dumps(hf_elmo.ElmoModel(make_tiny_config())))
    assert type(model) is hf_elmo.ElmoModel and type(model.config) is hf_elmo.ElmoConfig


def test_reloading_the_package_keeps_its_classes():
    config_class = hf_elmo.ElmoConfig
    importlib.reload(hf_elmo)
    assert hf_elmo.ElmoConfig is config_class
    assert not any(isinstance(finder, _Registrar) for finder in sys.meta_path)


# The finder by itself, on packages that stand in for transformers


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of three modules, of which `outer` imports `inner` in its middle, and what has been registered."""
    (tmp_path / "standin").mkdir()
    (tmp_path / "standin" / "__init__.py").write_text("")
    (tmp_path / "standin" / "inner.py").write_text("VALUE = 1\n")
    (tmp_path / "standin" / "outer.py").write_text("from . import inner\nDONE = True\n")
    (tmp_path / "standin" / "broken.py").write_text("from . import inner\n1 / 0\n")
    monkeypatch.setattr("hf_elmo.registration._WATCHED", {"standin"})
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "standin"]:
        del sys.modules[name]


def install(function):
    registrar = _Registrar({"standin.inner": function})
    sys.meta_path.insert(0, registrar)
    return registrar


def test_nothing_is_registered_in_the_middle_of_an_import(package):
    seen = []
    registrar = install(lambda: seen.append(hasattr(sys.modules["standin.outer"], "DONE")))
    outer = importlib.import_module("standin.outer")
    assert seen == [True] and registrar not in sys.meta_path
    # The modules are as they would have been without the finder.
    assert "exec_module" not in vars(outer.__loader__) and outer.__spec__.loader is outer.__loader__
    assert importlib.reload(outer) is outer and seen == [True]


def test_an_import_that_fails_fails_as_ever_and_the_next_one_registers(package):
    seen = []
    registrar = install(lambda: seen.append(True))
    with pytest.raises(ZeroDivisionError):
        importlib.import_module("standin.broken")
    assert "standin.broken" not in sys.modules
    importlib.import_module("standin.outer")
    assert seen == [True] and registrar not in sys.meta_path


def test_a_registration_that_fails_is_a_warning_of_ours_and_no_error_of_theirs(package):
    def fail():
        raise ImportError("no torch here")

    install(fail)
    with pytest.warns(RuntimeWarning, match="no torch here"):
        assert importlib.import_module("standin.inner").VALUE == 1


def test_looking_for_a_module_imports_nothing(package):
    registrar = install(lambda: pytest.fail("nothing has been imported"))
    assert importlib.util.find_spec("standin.inner") is not None
    assert importlib.util.find_spec("standin.absent") is None
    assert registrar in sys.meta_path and "standin.inner" not in sys.modules


def test_other_finders_and_loaders_without_attributes_go_on_working(package):
    class Slotted(Loader):
        __slots__ = ()

        def exec_module(self, module):
            module.VALUE = 2

    class Finder(MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            # Finders such as coverage's ask the others again.
            if name == "standin.inner" and importlib.util.find_spec("json"):
                return importlib.util.spec_from_loader(name, Slotted())
            return None

    seen = []
    sys.meta_path.insert(0, Finder())
    install(lambda: seen.append(True))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert importlib.import_module("standin.inner").VALUE == 2
        importlib.import_module("standin.outer")
    assert seen == [True]
