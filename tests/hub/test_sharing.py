"""What goes to the Hub, caught in the place of huggingface_hub's client; and that no token is shown."""

import json
from types import SimpleNamespace

import pytest
from conftest import ROOT, make_tiny_config
from huggingface_hub.errors import HfHubHTTPError
from refusals import assert_refused

from hf_elmo import ElmoCharTokenizer, ElmoModel
from hf_elmo.cli import command_line
from hf_elmo.hub import sharing
from hf_elmo.hub.provenance import redact
from hf_elmo.hub.sharing import files_to_send, push_checkpoint

TOKEN = "hf_NobodyMayReadThis0123456789AbCdEfGh"
OWN_FILES = {"README.md", "config.json", "model.safetensors", "tokenizer_config.json"}


class Url(str):
    @property
    def repo_id(self):
        return self.removeprefix("https://hub/")


class Hub:
    """In the place of `HfApi`: notes what is made and committed; `failing` is the call that is refused."""

    def __init__(self, failing=None):
        self.failing, self.created, self.commits = failing, [], []

    def __call__(self, library_name):
        return self

    def _may_fail(self, name):
        if name == self.failing:
            response = SimpleNamespace(status_code=403, headers={}, request=None)
            raise HfHubHTTPError(f"not with {TOKEN}\nnor ever", response=response)

    def create_repo(self, repository, private, exist_ok):
        self._may_fail("create_repo")
        self.created.append((repository, private))
        return Url(f"https://hub/{repository if '/' in repository else f'me/{repository}'}")

    def model_info(self, repository):
        return SimpleNamespace(private=repository != "me/public")

    def create_commit(self, repository, operations, commit_message):
        self._may_fail("create_commit")
        self.commits.append({each.path_in_repo: each.path_or_fileobj for each in operations})


@pytest.fixture
def connect(monkeypatch):
    def connect(failing=None):
        hub = Hub(failing)
        monkeypatch.setattr(sharing, "HfApi", hub)
        monkeypatch.setattr(sharing, "get_token", lambda: TOKEN)
        return hub

    return connect


@pytest.fixture
def checkpoint(tmp_path):
    """A checkpoint beside what lies about in a directory of a run."""
    folder = tmp_path / "elmo"
    ElmoModel(make_tiny_config()).save_pretrained(folder)
    ElmoCharTokenizer().save_pretrained(folder)
    (folder / "README.md").write_text('# elmo\nAutoModel.from_pretrained("elmo")\npipeline("x", model="elmo")\n')
    for name in ("checkpoint-5", "runs", ".x.partial"):
        (folder / name).mkdir()
    for name in ("optimizer.pt", ".hidden.json", "checkpoint-5/config.json"):
        (folder / name).write_text("{}")
    return folder


def test_a_checkpoint_goes_up_in_one_commit_with_its_name_in_the_card(connect, checkpoint):
    hub, before = connect(), (checkpoint / "README.md").read_text()
    assert push_checkpoint(checkpoint, "elmo-x", private=True) == "https://hub/me/elmo-x"
    (sent,) = hub.commits
    assert hub.created == [("elmo-x", True)]
    assert sent.keys() >= OWN_FILES | {"modeling_elmo.py", "configuration_elmo.py", "tokenization_elmo.py"}
    assert all("/" not in name and name[0] != "." and not name.endswith(".pt") for name in sent)
    assert sent.pop("README.md").decode() == before.replace('"elmo"', '"me/elmo-x"')
    assert (checkpoint / "README.md").read_text() == before
    assert all(str(path) == str(checkpoint / name) for name, path in sent.items())
    (checkpoint / "README.md").write_text('AutoModel.from_pretrained("you/elmo")\n')
    push_checkpoint(checkpoint, "elmo-x")
    assert hub.commits[1]["README.md"] == b'AutoModel.from_pretrained("you/elmo")\n'


def test_a_failing_upload_loses_nothing_and_a_public_repository_is_not_taken_for_a_private_one(connect, checkpoint):
    for call in ("create_repo", "create_commit"):
        hub = connect(call)
        message = assert_refused(ConnectionError, ("<token>", str(checkpoint)), push_checkpoint, checkpoint, "elmo-x")
        assert TOKEN not in message and "\n" not in message and not hub.commits
    hub, named = connect(), "'me/public' is there and public"
    assert_refused(ValueError, named, push_checkpoint, checkpoint, "public", private=True)
    assert not hub.commits


def test_each_missing_file_is_named(checkpoint):
    for name in OWN_FILES:
        content = (checkpoint / name).read_bytes()
        (checkpoint / name).unlink()
        assert_refused(ValueError, name, files_to_send, checkpoint)
        (checkpoint / name).write_bytes(content)
    assert {path.name for path in files_to_send(checkpoint)} >= OWN_FILES
    assert_refused(FileNotFoundError, "nowhere", files_to_send, "nowhere")
    config = json.loads((checkpoint / "config.json").read_text())
    (checkpoint / "config.json").write_text(json.dumps({**config, "architectures": ["ElmoForPreTraining"]}))
    assert_refused(ValueError, "word_vocabulary.txt", files_to_send, checkpoint)
    (checkpoint / "config.json").write_text('{"model_type": "bert"}')
    assert_refused(ValueError, "'bert'", files_to_send, checkpoint)


def test_weights_in_several_files_are_sent_whole_and_code_is_the_packages_where_there_is_none(checkpoint):
    saved = [path.name for path in files_to_send(checkpoint)]
    for path in checkpoint.glob("*.py"):
        path.unlink()
    sent = files_to_send(checkpoint)
    assert set(saved) < {path.name for path in sent}
    assert {path.parent for path in sent if path.suffix == ".py"} == {ROOT / "hf_elmo" / "model"}
    (checkpoint / "model.safetensors").rename(checkpoint / "model-1.safetensors")
    index = {"weight_map": {"x": "model-1.safetensors"}}
    (checkpoint / "model.safetensors.index.json").write_text(json.dumps(index))
    assert {"model-1.safetensors", "model.safetensors.index.json"} <= {path.name for path in files_to_send(checkpoint)}
    (checkpoint / "model-1.safetensors").unlink()
    assert_refused(ValueError, "model-1.safetensors", files_to_send, checkpoint)


def test_tokens_of_every_form_are_masked(monkeypatch):
    for token in (TOKEN, "api_org_" + "x" * 34, "hf_oauth_eyJhbGciOiJFZERTQSJ9.NobodyMay-_.x"):
        assert redact(f"before {token}, after") == "before <token>, after"
    assert redact("a secret-of-mine b", "secret-of-mine") == "a <token> b"
    for harmless in ("hf_elmo.cli.command_line.readable_errors", "hf_hub_download", "x" * 50):
        assert redact(harmless) == harmless
    monkeypatch.setenv("HF_TOKEN", "of another form")
    assert redact("one of another form") == "one <token>"


def test_the_command_pushes(connect, checkpoint, capsys, monkeypatch):
    # It would quieten the libraries for the tests to come.
    monkeypatch.setattr(command_line, "quiet_libraries", lambda: None)
    hub, given = connect(), ["--model_name_or_path", str(checkpoint), "--hub_model_id", "lab/elmo-x"]
    command_line.main(["push", *given, "--hub_private_repo"])
    said = f"Uploaded {len(hub.commits[0])} files of {checkpoint} to https://hub/lab/elmo-x\n"
    assert capsys.readouterr().out == said and hub.created == [("lab/elmo-x", True)]
