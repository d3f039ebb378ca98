"""A finished checkpoint to the Hub, in one commit."""

from __future__ import annotations

import os
import re
from pathlib import Path

from huggingface_hub import CommitOperationAdd, HfApi, get_token
from huggingface_hub.errors import HTTPError

from ..given import read_json
from ..model import configuration_elmo
from ..model.configuration_elmo import WORD_LIST_FILE, ElmoConfig
from . import CARD_FILE, CONFIG_FILE, TOKENIZER_FILE, WEIGHTS_FILE, WEIGHTS_INDEX_FILE
from .provenance import redact

# What a checkpoint is made of. What else lies in its directory (training state, trackers' files, pickles) stays there.
_CODE_FILES = "*_elmo*.py"
_SENT_FILES = ("*.safetensors", "*.json", "*.md", "*.txt", "*.npz", "*.png", "*.yaml", _CODE_FILES, "LICENSE")
# The name by which a card's code loads the checkpoint.
_LOADED_NAME = re.compile(r'(?:from_pretrained\(|model=)"([^"]+)"')


def files_to_send(directory: str | os.PathLike) -> list[Path]:
    """The files of a checkpoint: no folders (checkpoint-500, runs), nothing hidden, unfinished or pickled.

    One without code, as model_cards/ has them, is sent with this package's. ValueError names what a checkpoint lacks.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise FileNotFoundError(
            f"checkpoint {str(directory)!r} is not a directory; name one that pretrain, train or convert wrote."
        )
    found = {path.name: path for pattern in _SENT_FILES for path in directory.glob(pattern) if path.name[0] != "."}
    config = read_json(found[CONFIG_FILE], str(found[CONFIG_FILE])) if CONFIG_FILE in found else {}
    expected = {CONFIG_FILE, TOKENIZER_FILE, CARD_FILE}
    if {"ElmoForPreTraining", "ElmoForCausalLM"} & set(config.get("architectures") or []):
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
        found |= {path.name: path for path in Path(configuration_elmo.__file__).parent.glob(_CODE_FILES)}
    return sorted(found.values(), key=lambda path: path.name)


def push_checkpoint(directory: str | os.PathLike, hub_model_id: str, private: bool | None = None) -> str:
    """Upload a finished checkpoint, in one commit, to a repository that is made where there is none; gives its address.

    The token is that of HF_TOKEN, or the one that `hf auth login` stored. The directory stays as it is; in the card
    that is sent, the repository's name stands where a local one was.

    Raises: As `files_to_send`; ValueError when the repository is public already and private was asked for;
        ConnectionError, on one line without the token, when the Hub refuses or fails.
    """
    files, api = files_to_send(directory), HfApi(library_name="hf_elmo")
    try:
        url = api.create_repo(hub_model_id, private=private, exist_ok=True)
        is_public = private and not api.model_info(url.repo_id).private
        if not is_public:
            # Not upload_folder: it makes several commits of a large folder, the first of them half a checkpoint.
            operations = [CommitOperationAdd(path.name, _content(path, url.repo_id)) for path in files]
            api.create_commit(url.repo_id, operations, commit_message="Upload an ELMo checkpoint")
    # What huggingface_hub raises where an answer, a connection, a name or a file fails.
    except (HTTPError, OSError, RuntimeError, ValueError) as error:
        said = redact(" ".join(f"{type(error).__name__}: {error}".split()), get_token())[:300]
        # From None: the old error's message is the Hub's, who may repeat what it was sent, and tracebacks show it.
        raise ConnectionError(
            f"the upload to hub_model_id {hub_model_id!r} failed ({said}). Check `hf auth login` or HF_TOKEN, its "
            f"rights and the line; the checkpoint is still in {str(directory)!r}."
        ) from None
    if is_public:
        raise ValueError(f"the repository {url.repo_id!r} is there and public; make it private, or name another one.")
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
