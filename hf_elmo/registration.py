"""Our classes in transformers' Auto classes and pipelines, as soon as those are there, whichever is imported first."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

# In the middle of these packages' imports half-made modules lie about: nothing is registered before the outermost ends.
_WATCHED = {"transformers", "hf_elmo"}


def _register_config() -> None:
    from transformers import AutoConfig

    from .model.configuration_elmo import ElmoConfig

    AutoConfig.register(ElmoConfig.model_type, ElmoConfig, exist_ok=True)


def _register_tokenizer() -> None:
    from transformers import AutoTokenizer

    from .model.configuration_elmo import ElmoConfig
    from .model.tokenization_elmo import ElmoCharTokenizer

    AutoTokenizer.register(ElmoConfig, ElmoCharTokenizer, exist_ok=True)


def _register_models() -> None:
    from transformers import (
        AutoModel,
        AutoModelForPreTraining,
        AutoModelForQuestionAnswering,
        AutoModelForSequenceClassification,
        AutoModelForTokenClassification,
    )

    from .model.configuration_elmo import ElmoConfig
    from .model.modeling_elmo import ElmoForPreTraining, ElmoModel
    from .model.modeling_elmo_coref import ElmoForCoreferenceResolution
    from .model.modeling_elmo_srl import ElmoForSemanticRoleLabeling
    from .model.modeling_elmo_tasks import (
        ElmoForQuestionAnswering,
        ElmoForSequenceClassification,
        ElmoForTokenClassification,
    )
    from .pipelines import register_pipelines

    # Of several the Auto class takes the one that a checkpoint's config names, and else the first.
    several = (ElmoModel, ElmoForSemanticRoleLabeling, ElmoForCoreferenceResolution)
    AutoModel.register(ElmoConfig, several, exist_ok=True)
    AutoModelForPreTraining.register(ElmoConfig, ElmoForPreTraining, exist_ok=True)
    AutoModelForQuestionAnswering.register(ElmoConfig, ElmoForQuestionAnswering, exist_ok=True)
    AutoModelForSequenceClassification.register(ElmoConfig, ElmoForSequenceClassification, exist_ok=True)
    AutoModelForTokenClassification.register(ElmoConfig, ElmoForTokenClassification, exist_ok=True)
    register_pipelines()


class _Registrar(MetaPathFinder):
    """Sees transformers' modules being imported, finds none itself, and is gone when all is registered.

    Args:
        waiting: What to call when a module has been imported, by the module's name.
    """

    def __init__(self, waiting: dict[str, Callable[[], None]]):
        self._waiting = waiting
        self._imports = threading.local()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the finders after this one find, with a loader that tells when it has run."""
        if name.partition(".")[0] not in _WATCHED or self not in sys.meta_path:
            return None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(name, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None:
                self._watch(spec.loader)
                return spec
        return None

    def register_what_is_ready(self) -> None:
        """Register where the module waited for is there, unless an import is still going on in this thread."""
        if getattr(self._imports, "depth", 0):
            return
        # What is imported meanwhile must not begin anew.
        with self._import():
            while ready := [name for name in self._waiting if name in sys.modules]:
                self._register(self._waiting.pop(ready[0], None))
        if not self._waiting and self in sys.meta_path:
            sys.meta_path.remove(self)

    def _register(self, function: Callable[[], None] | None) -> None:
        # None where another thread has been faster.
        try:
            if function is not None:
                function()
        except Exception as error:
            # The import that has just ended is somebody else's, and has not failed.
            warnings.warn(
                f"hf_elmo cannot register its classes with transformers ({type(error).__name__}: {error}); "
                "AutoModel and its like will not know ELMo.",
                RuntimeWarning,
                stacklevel=2,
            )

    def _watch(self, loader: object) -> None:
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return

        def exec_module(module: ModuleType) -> None:
            # The module keeps its loader: leave it as it was.
            vars(loader).pop("exec_module", None)
            with self._import():
                execute(module)
            self.register_what_is_ready()

        # Where a loader takes no attributes the next module's import registers.
        with suppress(AttributeError):
            loader.exec_module = exec_module  # type: ignore[attr-defined]

    @contextmanager
    def _import(self) -> Iterator[None]:
        self._imports.depth = getattr(self._imports, "depth", 0) + 1
        try:
            yield
        finally:
            self._imports.depth -= 1


_REGISTRAR = _Registrar(
    {
        "transformers.models.auto.configuration_auto": _register_config,
        "transformers.models.auto.tokenization_auto": _register_tokenizer,
        "transformers.models.auto.modeling_auto": _register_models,
    }
)


def register_when_ready() -> None:
    """Register at once with those of transformers' modules that have been imported, and with the others when they are.

    A meta-path finder does the waiting, so that `import hf_elmo` imports neither transformers nor torch.
    """
    if _REGISTRAR not in sys.meta_path:
        sys.meta_path.insert(0, _REGISTRAR)
    _REGISTRAR.register_what_is_ready()
