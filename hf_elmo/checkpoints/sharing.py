"""A finished checkpoint to the Hub: the login checked before training, the files checked and sent in one commit."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from huggingface_hub import CommitOperationAdd, HfApi, is_offline_mode
from huggingface_hub.errors import HfHubHTTPError, HTTPError
from huggingface_hub.utils import validate_repo_id
from safetensors import SafetensorError, safe_open
from transformers.dynamic_module_utils import get_relative_import_files, get_relative_imports

from ..given.bounded_json import read_json
from ..model import configuration_elmo
from ..model.configuration_elmo import ElmoConfig, auto_map_of
from ..model.modeling_elmo import WORD_LIST_FILE
from .cards import render_recipe
from .file_names import (
    CARD_FILE,
    CONFIG_FILE,
    CONVERSION_FILE,
    RESULTS_FILE,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    WEIGHTS_INDEX_FILE,
)
from .secrets import find_token, holds_token, redact, require_token

# What a checkpoint is made of. What else lies in its directory (training state, trackers' files, pickles) stays there.
CODE_FILES = "*_elmo*.py"
SENT_FILES = ("*.safetensors", "*.json", "*.md", "*.txt", "*.png", "*.yaml", CODE_FILES, "LICENSE")
_MODEL_CODE = Path(configuration_elmo.__file__).parent
_TOKENIZER_AUTO_MAP = {"AutoTokenizer": "tokenization_elmo.ElmoCharTokenizer"}
_WORDS, _HAS_WORDS = WORD_LIST_FILE, "ElmoForPreTraining"

# The name by which a card's code loads the checkpoint, and what earlier versions wrote in its place.
_LOADED_NAME = re.compile(r'(?:from_pretrained\(|model=)"([^"]+)"')
_UNNAMED_CHECKPOINT = "path/to/this/checkpoint"

# What huggingface_hub raises where an answer, a connection or a file fails; anything else is a bug.
_HUB_ERRORS = (HTTPError, OSError, RuntimeError, ValueError)
_ADVICE: dict[int | None, str] = {
    401: "Log in again with `hf auth login`, or set HF_TOKEN to a token that is valid.",
    403: "Take a token that may write there, or another hub_model_id.",
    429: "Wait some minutes.",
}


def check_hub_access(hub_model_id: str, token: str | None = None) -> str:
    """Check, before any work is done, that a checkpoint can be uploaded at the end; nothing is made on the Hub.

    Args:
        hub_model_id: Name of the repository, with or without a namespace.
        token: Access token; None takes HF_TOKEN, or the one that `hf auth login` stored.
    Returns: The name with its namespace, the user's own where it had none.
    Raises: ValueError for a malformed name, an offline machine, no token, a token that the Hub refuses or that cannot
        write, and a namespace that is not the user's; no message holds the token.
    """
    _check_name(hub_model_id)
    if is_offline_mode():
        raise ValueError(
            "push_to_hub needs the Hub, but HF_HUB_OFFLINE is set; unset it, or upload the finished checkpoint later "
            "with hf-elmo push."
        )
    token = require_token(token)
    with _readable(ValueError, "push_to_hub: the login cannot be checked", token):
        identity = HfApi(token=token, library_name="hf_elmo").whoami()
    namespace, _, name = hub_model_id.rpartition("/")
    namespace = namespace or identity["name"]
    _check_rights(identity, namespace)
    return f"{namespace}/{name}"


def check_checkpoint(directory: str | os.PathLike, token: str | None = None) -> list[Path]:
    """Check that a directory is a whole checkpoint, which works without this package, and holds no token.

    Args:
        directory: A directory that pre-training, fine-tuning or conversion wrote.
        token: Access token that no file may hold; None takes the one of this machine, if any.
    Returns: The files to send.
    Raises: FileNotFoundError when there is no such directory; ValueError naming each thing that is missing, or each
        file that holds a token, but never the token.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise FileNotFoundError(
            f"checkpoint {str(directory)!r} is not a directory; name one that pre-training, fine-tuning or conversion "
            "wrote."
        )
    files = files_to_send(directory)
    problems = _find_problems(directory, {path.name: path for path in files})
    if problems:
        raise ValueError(
            f"checkpoint {str(directory)!r} is not whole, so nothing of it is sent: {'; '.join(problems)}. Name "
            "the directory that pre-training wrote, or save model and tokenizer again and write what is missing."
        )
    token = find_token(token)
    telling = [path.name for path in files if holds_token(path, token)]
    if telling:
        raise ValueError(
            f"checkpoint {str(directory)!r} holds an access token, so nothing of it is sent: see {', '.join(telling)}. "
            "Take it out, and have the Hub replace that token: it has been seen."
        )
    return files


def files_to_send(directory: str | os.PathLike) -> list[Path]:
    """The checkpoint's own files: no folders (checkpoint-500, runs), nothing hidden, unfinished or pickled.

    One without code, as model_cards/ has them, is sent with this package's.
    """
    found = {path for pattern in SENT_FILES for path in Path(directory).glob(pattern)}
    if not any(path.match(CODE_FILES) for path in found):
        found |= _package_code(_read_object(Path(directory) / CONFIG_FILE, []).get("architectures"))
    files = (path for path in found if path.is_file() and not path.name.startswith("."))
    return sorted(files, key=lambda path: path.name)


def _package_code(architectures: Iterable[str] | None) -> set[Path]:
    """What `save_pretrained` puts beside the weights of a model of these classes, and beside its tokenizer."""
    references = (*auto_map_of(architectures).values(), *_TOKENIZER_AUTO_MAP.values())
    files = {_MODEL_CODE / f"{reference.partition('.')[0]}.py" for reference in references}
    return files.union(*(map(Path, get_relative_import_files(path)) for path in files))


def push_checkpoint(
    directory: str | os.PathLike,
    hub_model_id: str,
    token: str | None = None,
    private: bool | None = None,
    commit_message: str = "Upload an ELMo checkpoint",
) -> str:
    """Upload a finished checkpoint, in one commit, to a repository that is made where there is none.

    The directory stays as it is. In the card that is sent, the repository's name stands where none was given.

    Args:
        directory: A directory that pre-training, fine-tuning or conversion wrote.
        hub_model_id: Name of the repository, with or without a namespace.
        token: Access token; None takes HF_TOKEN, or the one that `hf auth login` stored.
        private: Whether the repository is private; None leaves that to the Hub, which makes it public as a rule.
        commit_message: First line of the commit.
    Returns: The address of the repository.
    Raises: FileNotFoundError and ValueError as `check_checkpoint` and `check_hub_access`; ValueError when the
        repository is public already and private was asked for; ConnectionError when the Hub refuses or fails. No
        message holds the token.
    """
    _check_name(hub_model_id)
    files = check_checkpoint(directory, token)
    with _says_how_to_go_on(directory, hub_model_id, private):
        repository = check_hub_access(hub_model_id, token)
        token = require_token(token)
        with _readable(ConnectionError, f"the upload to {repository!r} failed", token):
            api = HfApi(token=token, library_name="hf_elmo")
            url = api.create_repo(repository, private=private, exist_ok=True)
            is_public = private and not api.model_info(repository).private
        if is_public:
            raise ValueError(
                f"private was asked for, but the repository {repository!r} is there and public; make it private in "
                "its settings, or name another hub_model_id."
            )
        with _readable(ConnectionError, f"the upload to {repository!r} failed", token):
            # Not upload_folder: it makes several commits of a large folder, and the first of them is half a checkpoint.
            operations = [CommitOperationAdd(path.name, _content(path, repository)) for path in files]
            api.create_commit(repository, operations, commit_message=commit_message)
    return str(url)


def _check_name(hub_model_id: str) -> None:
    try:
        # None is valid there.
        validate_repo_id(hub_model_id or "")
    except ValueError as error:
        reason = str(error)
    else:
        # A token in the place of a name is a well-formed name, and older versions take letters beyond ASCII.
        if redact(hub_model_id) == hub_model_id and hub_model_id.isascii():
            return
        reason = "it has letters beyond ASCII" if not hub_model_id.isascii() else "it is an access token"
    raise ValueError(
        f"hub_model_id {redact(str(hub_model_id or ''))!r} names no repository ({redact(reason).rstrip('.')}); wanted "
        "'name' or 'namespace/name'."
    )


def _check_rights(identity: dict[str, Any], namespace: str) -> None:
    """Refuse what is sure to be refused at the end; other kinds of tokens than these three do not tell their rights."""
    access = identity.get("auth", {}).get("accessToken", {})
    scopes = access.get("fineGrained", {}).get("scoped", [])
    role = access.get("role")
    can_write = role != "fineGrained" or any("repo.write" in scope.get("permissions", []) for scope in scopes)
    if role == "read" or not can_write:
        raise ValueError(
            f"the token of {identity['name']!r} can only read; make one with write access, and run `hf auth login` "
            "again or set HF_TOKEN to it."
        )
    own = [identity["name"], *(organization["name"] for organization in identity.get("orgs", []))]
    if role == "write" and namespace.lower() not in map(str.lower, own):
        raise ValueError(
            f"hub_model_id has the namespace {namespace!r}, where {identity['name']!r} cannot write; wanted one of "
            f"{', '.join(own)}, or none."
        )


def _find_problems(directory: Path, sent: Mapping[str, Path]) -> list[str]:
    """What keeps a directory, of which files of these names are sent, from being a whole checkpoint, in some words."""
    problems: list[str] = []
    config = _read_object(directory / CONFIG_FILE, problems)
    if config and config.get("model_type") != ElmoConfig.model_type:
        problems.append(f"{CONFIG_FILE} has the model_type {config.get('model_type')!r}, not {ElmoConfig.model_type!r}")
    auto_map = auto_map_of(config.get("architectures"))
    tokenizer_config = _read_object(directory / TOKENIZER_FILE, problems)
    for name, fields, wanted in (
        (CONFIG_FILE, config, auto_map),
        (TOKENIZER_FILE, tokenizer_config, _TOKENIZER_AUTO_MAP),
    ):
        if fields:
            problems += _find_auto_map_problems(name, fields.get("auto_map") or {}, wanted)
    problems += _find_weights_problems(directory, sent)
    problems += _find_code_problems(sent, {*auto_map.values(), *_TOKENIZER_AUTO_MAP.values()})
    if _HAS_WORDS in (config.get("architectures") or []) and _WORDS not in sent:
        problems.append(f"{_WORDS}, the words of the softmax, is missing")
    card = (directory / CARD_FILE).read_text(encoding="utf-8", errors="replace") if CARD_FILE in sent else ""
    if not card.strip():
        problems.append(f"{CARD_FILE}, the model card, is missing")
    sources = [name for name in (RESULTS_FILE, CONVERSION_FILE) if name in sent]
    for name in sources:
        _read_object(directory / name, problems)
    if not sources and _quotes_figures(card):
        problems.append(f"{CARD_FILE} quotes figures, but {RESULTS_FILE} with their source is missing")
    return problems


def _read_object(path: Path, problems: list[str]) -> dict[str, Any]:
    """A JSON object; empty, with a line in `problems`, where the file holds none."""
    if not path.is_file():
        problems.append(f"{path.name} is missing")
        return {}
    try:
        content = read_json(path, path.name)
    except ValueError:
        content = None
    if not isinstance(content, dict) or not content:
        problems.append(f"{path.name} holds no JSON object")
        return {}
    return content


def _find_auto_map_problems(name: str, auto_map: dict[str, Any], wanted: dict[str, str]) -> Iterator[str]:
    for auto_class, reference in wanted.items():
        found = auto_map.get(auto_class)
        # A tokenizer's entry is a pair, of which one is null.
        found = next(filter(None, found), None) if isinstance(found, list) else found
        if found != reference:
            yield f"the auto_map of {name} has {found!r} for {auto_class}, not {reference!r}"


def _find_weights_problems(directory: Path, sent: Collection[str]) -> Iterator[str]:
    shards = [WEIGHTS_FILE]
    if WEIGHTS_FILE not in sent and WEIGHTS_INDEX_FILE in sent:
        problems: list[str] = []
        shards = sorted(set(_read_object(directory / WEIGHTS_INDEX_FILE, problems).get("weight_map", {}).values()))
        yield from problems if shards else [f"{WEIGHTS_INDEX_FILE} names no weights"]
    for shard in shards:
        if shard not in sent:
            yield f"{shard} is missing"
            continue
        try:
            with safe_open(directory / shard, framework="np"):
                pass
        except SafetensorError as error:
            yield f"{shard} is broken ({error})"


def _find_code_problems(sent: Mapping[str, Path], references: set[str]) -> Iterator[str]:
    """Walk the imports from the classes that an auto_map names, as transformers does when it loads them."""
    todo = {reference.partition(".")[0]: "the auto_map" for reference in sorted(references)}
    known = set(todo)
    while todo:
        module, asking = todo.popitem()
        name = f"{module}.py"
        if name not in sent:
            yield f"{name}, which {asking} needs, is missing"
            continue
        imports = set(get_relative_imports(sent[name])) - known
        todo |= dict.fromkeys(sorted(imports), name)
        known |= imports


def _quotes_figures(card: str) -> bool:
    """Whether a card refers to results.json, has metrics in its front matter or a number in a table."""
    return RESULTS_FILE in card or "model-index:" in card or bool(re.search(r"^\|.*\d", card, flags=re.MULTILINE))


def _content(path: Path, repository: str) -> Path | bytes:
    """What is sent of a file: the file itself, or the card with its name on the Hub put in."""
    if path.name == CARD_FILE:
        card = path.read_text(encoding="utf-8")
        named = _name_card(path.parent, card, repository)
        if named != card:
            return named.encode("utf-8")
    return path


def _name_card(directory: Path, card: str, repository: str) -> str:
    """The card with the repository's name in the place of the local one.

    A card that is as it was rendered is rendered anew. In one that somebody has worked on only the name that its code
    loads the checkpoint by is replaced, and that only where it is a local one, which has no namespace.
    """
    found = _LOADED_NAME.search(card)
    local = found[1] if found else None
    if local is None or (local != _UNNAMED_CHECKPOINT and "/" in local):
        return card
    with suppress(ValueError, OSError):
        # Of results that this package did not write no card can be rendered.
        if render_recipe(directory, local) == card:
            return render_recipe(directory, repository)
    return card.replace(_UNNAMED_CHECKPOINT, repository).replace(f'"{local}"', f'"{repository}"')


@contextmanager
def _says_how_to_go_on(directory: str | os.PathLike, hub_model_id: str, private: bool | None) -> Iterator[None]:
    """Add to the message of an error that nothing is lost, and the command that tries again."""
    words = [
        "--model_name_or_path",
        str(directory),
        "--hub_model_id",
        hub_model_id,
        *(["--private"] if private else []),
    ]
    try:
        yield
    except (ValueError, ConnectionError) as error:
        kind = ConnectionError if isinstance(error, ConnectionError) else ValueError
        raise kind(
            f"{error} The checkpoint is still in {str(directory)!r}; upload it later: hf-elmo push {shlex.join(words)}"
        ) from None


@contextmanager
def _readable(kind: type[Exception], what: str, token: str) -> Iterator[None]:
    """Raise an error of one line, without the token, in the place of huggingface_hub's."""
    try:
        yield
    except _HUB_ERRORS as error:
        reason, status = _describe(error)
        advice = _ADVICE.get(status, "Try again when the Hub can be reached.")
        # From None: the old error's message is the Hub's, who may repeat what it was sent, and tracebacks show it.
        raise kind(f"{what} ({redact(reason, token)[:300]}). {advice}") from None


def _describe(error: BaseException) -> tuple[str, int | None]:
    """What went wrong, on one line, and the status of the Hub's answer."""
    first = error
    # Uploads of single files wrap the answer.
    while not isinstance(first, HfHubHTTPError) and first.__cause__ is not None:
        first = first.__cause__
    if isinstance(first, HfHubHTTPError):
        status = first.response.status_code
        said = " ".join((first.server_message or "").split())
        return f"the Hub answered {status} {first.response.reason_phrase}" + (f": {said}" if said else ""), status
    return f"{type(first).__name__}: {' '.join(str(first).split())}", None
