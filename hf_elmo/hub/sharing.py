"""A finished checkpoint to the Hub: the login is checked before training, and the files are sent in one commit."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import CommitOperationAdd, HfApi, get_token
from huggingface_hub.errors import HfHubHTTPError, HTTPError
from huggingface_hub.utils import validate_repo_id
from transformers.dynamic_module_utils import get_relative_import_files

from ..given.bounded_json import read_json
from ..model import configuration_elmo
from ..model.configuration_elmo import WORD_LIST_FILE, ElmoConfig, auto_map_of
from .file_names import CARD_FILE, CONFIG_FILE, TOKENIZER_FILE, WEIGHTS_FILE, WEIGHTS_INDEX_FILE
from .provenance import redact

# What a checkpoint is made of. What else lies in its directory (training state, trackers' files, pickles) stays there.
_CODE_FILES = "*_elmo*.py"
_SENT_FILES = ("*.safetensors", "*.json", "*.md", "*.txt", "*.png", "*.yaml", _CODE_FILES, "LICENSE")
_MODEL_CODE = Path(configuration_elmo.__file__).parent
# The name by which a card's code loads the checkpoint.
_LOADED_NAME = re.compile(r'(?:from_pretrained\(|model=)"([^"]+)"')


def check_hub_access(hub_model_id: str) -> str:
    """Check, before any work is done, that a checkpoint can be uploaded at the end; nothing is made on the Hub.

    The token is that of HF_TOKEN, or the one that `hf auth login` stored.

    Returns: The name with its namespace, the user's own where it had none.
    Raises: ValueError for a malformed name, an offline machine, no token, a token that the Hub refuses or that cannot
        write, and a namespace that is not the user's; no message holds the token.
    """
    try:
        validate_repo_id(hub_model_id)
    except ValueError as error:
        raise ValueError(f"hub_model_id names no repository: {redact(str(error))}") from None
    with _told_in_a_line(ValueError, "the login to the Hub cannot be checked"):
        identity = HfApi(library_name="hf_elmo").whoami()
    user, access = identity["name"], identity.get("auth", {}).get("accessToken", {})
    namespace, _, name = hub_model_id.rpartition("/")
    role, scopes = access.get("role"), access.get("fineGrained", {}).get("scoped", [])
    if role == "read" or (role == "fineGrained" and not any("repo.write" in each["permissions"] for each in scopes)):
        raise ValueError(f"the token of {user!r} can only read; log in with one that may write, or set HF_TOKEN to it.")
    own = [user, *(organization["name"] for organization in identity.get("orgs", []))]
    # Tokens of other roles do not tell where they may write.
    if role == "write" and namespace and namespace.lower() not in map(str.lower, own):
        raise ValueError(
            f"hub_model_id names {namespace!r}, where {user!r} cannot write; expected one of {', '.join(own)}."
        )
    return f"{namespace or user}/{name}"


def files_to_send(directory: str | os.PathLike) -> list[Path]:
    """The files of a checkpoint: no folders (checkpoint-500, runs), nothing hidden, unfinished or pickled.

    One without code, as model_cards/ has them, is sent with this package's.

    Raises: FileNotFoundError when there is no such directory; ValueError naming what a checkpoint lacks.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise FileNotFoundError(
            f"checkpoint {str(directory)!r} is not a directory; name one that pretrain, train or convert wrote."
        )
    found = {path.name: path for pattern in _SENT_FILES for path in directory.glob(pattern) if path.name[0] != "."}
    config = read_json(found[CONFIG_FILE], str(found[CONFIG_FILE])) if CONFIG_FILE in found else {}
    expected = {CONFIG_FILE, TOKENIZER_FILE, CARD_FILE}
    if "ElmoForPreTraining" in (config.get("architectures") or []):
        expected.add(WORD_LIST_FILE)
    index = found.get(WEIGHTS_INDEX_FILE)
    expected |= {WEIGHTS_FILE} if index is None else set(read_json(index, str(index))["weight_map"].values())
    missing = sorted(expected - found.keys())
    if missing or config.get("model_type") != ElmoConfig.model_type:
        what = f"lacks {', '.join(missing)}" if missing else f"has the model_type {config.get('model_type')!r}"
        raise ValueError(
            f"checkpoint {str(directory)!r} {what}, so nothing of it is sent; name the directory that pretrain, train "
            "or convert wrote, or write what is missing."
        )
    if not any(path.match(_CODE_FILES) for path in found.values()):
        has_heads = "AutoModelForTokenClassification" in (config.get("auto_map") or {})
        auto_map = auto_map_of(config.get("architectures"), with_heads=has_heads)
        modules = {_MODEL_CODE / f"{reference.partition('.')[0]}.py" for reference in auto_map.values()}
        modules.add(_MODEL_CODE / "tokenization_elmo.py")
        modules = modules.union(*(map(Path, get_relative_import_files(module)) for module in modules))
        found |= {path.name: path for path in modules}
    return sorted(found.values(), key=lambda path: path.name)


def push_checkpoint(directory: str | os.PathLike, hub_model_id: str, private: bool | None = None) -> str:
    """Upload a finished checkpoint, in one commit, to a repository that is made where there is none.

    The directory stays as it is. In the card that is sent, the repository's name stands where a local one was.

    Args:
        directory: A directory that pre-training, fine-tuning or conversion wrote.
        hub_model_id: Name of the repository, with or without a namespace.
        private: Whether the repository is private; None leaves that to the Hub.
    Returns: The address of the repository.
    Raises: As `files_to_send` and `check_hub_access`; ValueError when the repository is public already and private was
        asked for; ConnectionError when the Hub refuses or fails. No message holds the token.
    """
    files = files_to_send(directory)
    try:
        repository = check_hub_access(hub_model_id)
        with _told_in_a_line(ConnectionError, f"the upload to {repository!r} failed"):
            api = HfApi(library_name="hf_elmo")
            url = api.create_repo(repository, private=private, exist_ok=True)
            is_public = private and not api.model_info(repository).private
            if not is_public:
                # Not upload_folder: it makes several commits of a large folder, the first of them half a checkpoint.
                operations = [CommitOperationAdd(path.name, _content(path, repository)) for path in files]
                api.create_commit(repository, operations, commit_message="Upload an ELMo checkpoint")
        if is_public:
            raise ValueError(
                f"the repository {repository!r} is there and public; make it private, or name another one."
            )
    except (ValueError, ConnectionError) as error:
        raise type(error)(
            f"{error} The checkpoint is still in {str(directory)!r}; upload it later with hf-elmo push."
        ) from None
    return str(url)


def _content(path: Path, repository: str) -> Path | bytes:
    """What is sent of a file: the file itself, or the card whose code loads the checkpoint by its name on the Hub."""
    if path.name != CARD_FILE:
        return path
    card = path.read_text(encoding="utf-8")
    found = _LOADED_NAME.search(card)
    if found is not None and "/" not in found[1]:
        card = card.replace(f'"{found[1]}"', f'"{repository}"')
    return card.encode("utf-8")


@contextmanager
def _told_in_a_line(kind: type[Exception], what: str) -> Iterator[None]:
    """Raise an error of one line, without the token, in the place of huggingface_hub's."""
    try:
        yield
    # What huggingface_hub raises where an answer, a connection or a file fails; anything else is a bug.
    except (HTTPError, OSError, RuntimeError, ValueError) as error:
        first: BaseException = error
        # Uploads of single files wrap the answer.
        while not isinstance(first, HfHubHTTPError) and first.__cause__ is not None:
            first = first.__cause__
        said = redact(" ".join(f"{type(first).__name__}: {first}".split()), get_token())[:300]
        # From None: the old error's message is the Hub's, who may repeat what it was sent, and tracebacks show it.
        raise kind(f"{what} ({said}). Check `hf auth login` or HF_TOKEN, its rights and the line.") from None
