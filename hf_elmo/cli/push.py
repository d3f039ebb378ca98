"""Upload a finished checkpoint to the Hub, with the token of HF_TOKEN or `hf auth login`."""

from __future__ import annotations

from dataclasses import dataclass

from ..given import flag


@dataclass
class PushArguments:
    """What is sent, and where to."""

    model_name_or_path: str = flag("The checkpoint: a directory written by pretrain, convert or train.")
    hub_model_id: str = flag("Name on the Hub, with or without a namespace; a new one is made.")
    hub_private_repo: bool = flag("Make the repository on the Hub private.", default=False)


def push(arguments: PushArguments) -> str:
    """Upload a checkpoint, say what was sent, and give the address."""
    from ..hub.sharing import files_to_send, push_checkpoint

    checkpoint = arguments.model_name_or_path
    url = push_checkpoint(checkpoint, arguments.hub_model_id, private=arguments.hub_private_repo or None)
    print(f"Uploaded {len(files_to_send(checkpoint))} files of {checkpoint} to {url}")
    return url
