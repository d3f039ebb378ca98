"""What goes to the Hub, caught by a stub of its API on loopback; and that no token is sent beside it or shown."""

import base64
import contextlib
import hashlib
import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fresh_process
import numpy as np
import pytest
import torch
from conftest import ROOT
from refusals import assert_refused
from safetensors import safe_open
from tolerances import REORDERED_FLOAT32
from transformers import AutoModel, AutoTokenizer

import hf_elmo
from hf_elmo import ElmoConfig
from hf_elmo.checkpoints import sharing
from hf_elmo.checkpoints.cards import write_card
from hf_elmo.checkpoints.secrets import check_command_line, redact
from hf_elmo.checkpoints.sharing import (
    check_checkpoint,
    check_hub_access,
    files_to_send,
)
from hf_elmo.model.configuration_elmo import AUTO_MAP
from hf_elmo.pretraining.run import PretrainingArguments, run_pretraining
from hf_elmo.text.vocabulary import VOCABULARY_FILE

SECRET = "NobodyMayReadThis0123456789"
TOKENS = {
    # The Hub's own form, one of another form, and those that cannot write.
    "write": f"hf_{SECRET}AbCdEfGh",
    "other form": f"secret-{SECRET}",
    "read": f"hf_{SECRET}ReadOnly1",
    "fine": f"hf_{SECRET}FineGrain",
    "fine, read": f"hf_{SECRET}FineRead1",
    "unknown": f"hf_{SECRET}Unknown12",
}
# What the Hub takes apart from the commit itself.
LARGE = (".safetensors", ".png")
CODE_FILES = {"configuration_elmo.py", "modeling_elmo.py", "modeling_elmo_tasks.py", "tokenization_elmo.py"}


class Hub(ThreadingHTTPServer):
    """The Hub's API as huggingface_hub calls it to upload a model and to download it again, kept in memory.

    A repository called `answers-403-at-commit` answers that there; its answers repeat the request's token.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), HubHandler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.created: list[dict] = []
        self.public = {"me/taken"}
        self.objects: dict[str, bytes] = {}
        self.commits: list[tuple[str, dict, dict[str, bytes]]] = []

    def files(self, repository: str) -> dict[str, bytes]:
        """What a repository holds after its commits."""
        held: dict[str, bytes] = {}
        for name, _, files in self.commits:
            held |= files if name == repository else {}
        return held


class HubHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        """Nothing: the test reads what was recorded."""

    def handle_request(self):
        hub: Hub = self.server
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b"".join(iter(self._read_chunk, b""))
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = self.path.partition("?")[0]
        hub.requests.append((self.command, self.path, dict(self.headers), body))
        for pattern, answer in ROUTES:
            found = re.fullmatch(pattern, f"{self.command} {path}")
            if found:
                return answer(self, hub, body, *found.groups())
        return self.answer(404, {"error": f"the stub has no {self.command} {path}"})

    do_GET = do_HEAD = do_POST = do_PUT = handle_request

    def _read_chunk(self) -> bytes:
        chunk = self.rfile.read(int(self.rfile.readline(), 16))
        self.rfile.readline()
        return chunk

    def answer(self, status: int, content: dict | bytes | None = None, **headers: str):
        body = content if isinstance(content, bytes) else json.dumps(content or {}).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuses(self, repository: str, place: str) -> bool:
        """Whether the repository's name asks for an error here, which is then sent."""
        found = re.search(rf"answers-(\d+)-at-{place}", repository)
        if found:
            told = f"not with {self.headers.get('Authorization')}"
            self.answer(int(found.group(1)), {"error": told}, X_Error_Message=told)
        return bool(found)

    def answer_whoami(self, hub, body):
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        kind = next((name for name, value in TOKENS.items() if value == token), "unknown")
        if kind == "unknown":
            return self.answer(401, {"error": f"Invalid {token}"}, X_Error_Message="Invalid user token")
        access = {"role": "fineGrained" if kind.startswith("fine") else "read" if kind == "read" else "write"}
        if kind.startswith("fine"):
            permissions = ["repo.content.read", *([] if kind == "fine, read" else ["repo.write"])]
            access["fineGrained"] = {"scoped": [{"entity": {"type": "user", "name": "me"}, "permissions": permissions}]}
        self.answer(200, {"name": "me", "orgs": [{"name": "Lab"}], "auth": {"accessToken": access}})

    def answer_create(self, hub, body):
        asked = json.loads(body)
        repository = f"{asked['organization']}/{asked['name']}"
        if not self.refuses(repository, "create"):
            hub.created.append(asked)
            status = 409 if repository in hub.public else 200
            self.answer(status, {"url": f"{hub.url}/{repository}", "name": repository, "id": repository})

    def answer_model(self, hub, body, repository, revision=None):
        made = {f"{asked['organization']}/{asked['name']}" for asked in hub.created}
        if repository not in made | hub.public:
            return self.answer(404, {"error": "Repository not found"}, X_Error_Code="RepoNotFound")
        self.answer(200, {"id": repository, "private": repository not in hub.public, "sha": "1" * 40, "siblings": []})

    def answer_yaml(self, hub, body):
        front_matter = json.loads(body)["content"].partition("---\n")[2].partition("---\n")[0]
        if "library_name: transformers" in front_matter:
            self.answer(200, {"errors": [], "warnings": []})
        else:
            self.answer(400, {"errors": [{"message": "no library_name"}], "warnings": []})

    def answer_preupload(self, hub, body, repository):
        if not self.refuses(repository, "preupload"):
            modes = [
                {
                    "path": file["path"],
                    "uploadMode": "lfs" if file["path"].endswith(LARGE) else "regular",
                    "shouldIgnore": False,
                }
                for file in json.loads(body)["files"]
            ]
            self.answer(200, {"files": modes})

    def answer_batch(self, hub, body, repository):
        if self.refuses(repository, "batch"):
            return
        asked = json.loads(body)
        objects = [
            {
                **each,
                "actions": {
                    "upload": {"href": f"{hub.url}/storage/{repository}/{each['oid']}"},
                    "verify": {"href": f"{hub.url}/verify"},
                },
            }
            for each in asked["objects"]
        ]
        # Older clients ask here which storage to take, and the Hub takes its own.
        transfer = "xet" if "xet" in asked["transfers"] else "basic"
        self.answer(200, {"transfer": transfer, "objects": objects})

    def answer_storage(self, hub, body, repository, oid):
        if not self.refuses(repository, "storage"):
            hub.objects[oid] = body
            self.answer(200)

    def answer_verify(self, hub, body):
        asked = json.loads(body)
        self.answer(200 if len(hub.objects.get(asked["oid"], b"")) == asked["size"] else 404)

    def answer_commit(self, hub, body, repository):
        if self.refuses(repository, "commit"):
            return
        header, *operations = [json.loads(line) for line in body.splitlines()]
        files = {}
        for operation in operations:
            value = operation["value"]
            if operation["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            else:
                assert operation["key"] == "lfsFile"
                # Of a file that went to xet's storage, in pieces of its own, the hash is all that is known here.
                files[value["path"]] = hub.objects.get(value["oid"], f"sha256 {value['oid']}".encode())
        hub.commits.append((repository, header["value"], files))
        self.answer(200, {"commitUrl": f"{hub.url}/{repository}/commit/{'1' * 40}", "commitOid": "1" * 40})

    def answer_file(self, hub, body, repository, name):
        content = hub.files(repository).get(name)
        if content is None:
            return self.answer(404, X_Error_Code="EntryNotFound")
        self.answer(200, content, ETag=f'"{hashlib.sha256(content).hexdigest()}"', X_Repo_Commit="1" * 40)

    def answer_xet_token(self, hub, body, repository):
        token, expiration = "for storage", 4102444800
        # Older clients read the headers, newer ones the body.
        headers = {
            "X_Xet_Access_Token": token,
            "X_Xet_Token_Expiration": str(expiration),
            "X_Xet_Cas_Url": hub.url,
        }
        self.answer(200, {"accessToken": token, "exp": expiration, "casUrl": hub.url}, **headers)

    def answer_xorb(self, hub, body, name):
        hub.objects[name] = body
        self.answer(200, {"was_inserted": True})

    def answer_shard(self, hub, body):
        self.answer(200, {"result": 1})


NAME = r"([\w.-]+/[\w.-]+)"
ROUTES = [
    (r"GET /api/whoami-v2", HubHandler.answer_whoami),
    (r"POST /api/repos/create", HubHandler.answer_create),
    (rf"GET /api/models/{NAME}", HubHandler.answer_model),
    (rf"GET /api/models/{NAME}/revision/(\w+)", HubHandler.answer_model),
    (r"POST /api/validate-yaml", HubHandler.answer_yaml),
    (rf"POST /api/models/{NAME}/preupload/main", HubHandler.answer_preupload),
    (rf"POST /{NAME}\.git/info/lfs/objects/batch", HubHandler.answer_batch),
    (rf"PUT /storage/{NAME}/(\w+)", HubHandler.answer_storage),
    (r"POST /verify", HubHandler.answer_verify),
    (rf"POST /api/models/{NAME}/commit/main", HubHandler.answer_commit),
    (rf"GET /api/models/{NAME}/xet-write-token/main", HubHandler.answer_xet_token),
    (r"POST /v1/xorbs/default/(\w+)", HubHandler.answer_xorb),
    (r"POST /(?:v1/)?shards", HubHandler.answer_shard),
    (rf"(?:GET|HEAD) /{NAME}/resolve/\w+/([\w.-]+)", HubHandler.answer_file),
]


@contextlib.contextmanager
def serving() -> Iterator[Hub]:
    with Hub() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def hub():
    with serving() as server:
        yield server


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A directory as pre-training writes it, beside things that are to stay at home."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "text.txt").write_text("The cat sat on the mat .\nA dog ran .\n" * 20)
    (folder / "heldout.txt").write_text("The cat sat on the mat .\nA dog ran .\n")
    run_pretraining(
        PretrainingArguments(
            output_dir=str(folder / "elmo"),
            train_file=[str(folder / "text.txt")],
            validation_file=[str(folder / "heldout.txt")],
            config_overrides='{"projection_size": 8, "cell_size": 16, "filters": [[1, 4], [2, 4]]}',
            per_device_train_batch_size=2,
            per_device_eval_batch_size=2,
            max_steps=2,
        ),
        report=lambda line: None,
    )
    for name in (
        *("checkpoint-500/optimizer.pt", "checkpoint-500/model.safetensors", "runs/now/events.out"),
        *(".hidden.json", "model.safetensors.partial", "training_args.bin", "scratch.py"),
    ):
        (folder / "elmo" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "elmo" / name).write_text("stays at home")
    return folder / "elmo"


@pytest.fixture
def checkpoint(trained, tmp_path) -> Path:
    """A copy to spoil."""
    (tmp_path / "elmo").mkdir()
    for path in files_to_send(trained):
        (tmp_path / "elmo" / path.name).write_bytes(path.read_bytes())
    return tmp_path / "elmo"


CALLS_SCRIPT = """
import json, os, sys, traceback
from hf_elmo.checkpoints.sharing import check_hub_access, push_checkpoint
functions = {"check": check_hub_access, "push": push_checkpoint}
answers = []
for name, token, arguments in json.loads(os.environ["CALLS"]):
    os.environ.pop("HF_TOKEN", None)
    if token:
        os.environ["HF_TOKEN"] = os.environ[token]
    try:
        answers.append(["", functions[name](**arguments)])
    except Exception as error:
        traceback.print_exc()
        answers.append([type(error).__name__, str(error)])
print(json.dumps(answers))
"""


def run_fresh(script: str, hub: Hub, folder: Path, **environment: str) -> subprocess.CompletedProcess:
    """Run a script in a process that knows of the stub as its Hub; folder is all that it may write to."""
    for name in ("home", "tmp"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    return fresh_process.run(
        ["-c", script],
        modules=fresh_process.LIBRARIES,
        cwd=folder,
        env={
            "PATH": os.environ.get("PATH", ""),
            "PYTHONPATH": str(ROOT),
            "HOME": str(folder / "home"),
            "HF_HOME": str(folder / "home" / "hf"),
            "HF_MODULES_CACHE": str(folder / "home" / "modules"),
            "TMPDIR": str(folder / "tmp"),
            "HF_ENDPOINT": hub.url,
            "HF_HUB_OFFLINE": "0",
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "NO_PROXY": "127.0.0.1",
            "OMP_NUM_THREADS": "1",
            **environment,
        },
    )


def call(hub: Hub, folder: Path, *calls: tuple[str, str | None, dict], **environment: str) -> list[list[str]]:
    """Call functions of the package in one fresh process, and check that nothing of it shows a token.

    Args:
        calls: "check" or "push", which of TOKENS is logged in, and the arguments.
    Returns: For each call the name of the error, "" for none, and the result or the message.
    """
    variables = {kind: f"TOKEN_{index}" for index, kind in enumerate(TOKENS)}
    named = [(name, variables.get(token), arguments) for name, token, arguments in calls]
    environment |= {variables[kind]: token for kind, token in TOKENS.items()} | {"CALLS": json.dumps(named)}
    # With HF_DEBUG, huggingface_hub prints all that it sends.
    done = run_fresh(CALLS_SCRIPT, hub, folder, HF_DEBUG="1", **environment)
    assert done.returncode == 0, redact(done.stderr[-4000:])
    assert "curl -X" in done.stderr, "huggingface_hub prints its requests no more: this would prove less"
    assert SECRET not in done.stdout + done.stderr
    assert_no_token_in(folder)
    return json.loads(done.stdout.splitlines()[-1])


def assert_no_token_in(folder: Path) -> None:
    for path in folder.rglob("*"):
        assert SECRET not in path.name and not (path.is_file() and SECRET.encode() in path.read_bytes()), path


def assert_token_only_authorizes(hub: Hub) -> None:
    """In no request does a token stand anywhere but in the one header made for it."""
    secrets = [SECRET.encode(), *(base64.b64encode((" " * pad + SECRET).encode())[4:-4] for pad in range(3))]
    assert hub.requests
    for method, path, headers, body in hub.requests:
        shown = [path, *(f"{name}: {value}" for name, value in headers.items() if name.lower() != "authorization")]
        for text in (*(line.encode() for line in shown), body):
            assert not any(secret in text for secret in secrets), f"{method} {path}"


def as_sent(directory: Path, repository: str) -> dict[str, bytes]:
    """The files of a checkpoint as pre-training wrote it, its card rendered under the repository's name."""
    write_card(directory, repository)
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


LOAD_SCRIPT = (
    fresh_process.WITHOUT_OUR_PACKAGE
    + """
import json, os, sys
import torch
from transformers import AutoModel, AutoModelForPreTraining, AutoTokenizer

name = os.environ["NAME"]
tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=True)
model = AutoModel.from_pretrained(name, trust_remote_code=True).eval()
whole, report = AutoModelForPreTraining.from_pretrained(name, trust_remote_code=True, output_loading_info=True)
with torch.no_grad():
    vectors = model(**tokenizer("The cat sat .", return_tensors="pt")).last_hidden_state
assert "hf_elmo" not in sys.modules
print(json.dumps({
    "module": type(model).__module__.split(".")[0],
    "missing": len(report["missing_keys"]),
    "vectors": vectors.tolist(),
}))
"""
)


def test_a_checkpoint_goes_up_whole_in_one_commit_and_works_from_there(trained, checkpoint, hub, tmp_path):
    before = {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()}
    arguments = {"directory": str(trained), "hub_model_id": "elmo-x", "commit_message": "Twice through the text"}
    ((error, url),) = call(hub, tmp_path / "run", ("push", "write", arguments))
    assert (error, url) == ("", f"{hub.url}/me/elmo-x")
    assert hub.created == [{"name": "elmo-x", "organization": "me"}]
    ((repository, header, files),) = hub.commits
    assert (repository, header["summary"]) == ("me/elmo-x", "Twice through the text")
    # Exactly the checkpoint's files, byte for byte, the card under its name; and what lies at home is as it was.
    wanted = {"README.md", "config.json", "model.safetensors", "results.json", "tokenizer_config.json", VOCABULARY_FILE}
    assert wanted | CODE_FILES <= set(files)
    assert files == as_sent(checkpoint, "me/elmo-x")
    assert {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()} == before
    assert_token_only_authorizes(hub)
    assert json.loads(files["config.json"])["auto_map"] == AUTO_MAP
    assert json.loads(files["tokenizer_config.json"])["auto_map"]["AutoTokenizer"]
    card, results = files["README.md"].decode(), json.loads(files["results.json"])
    assert '("elmo")' not in card
    for place in ("- name: me/elmo-x\n", "\n# me/elmo-x\n", 'AutoModel.from_pretrained("me/elmo-x")'):
        assert place in card
    assert f"{results['perplexity']['mean']:,.1f}" in card
    # By the name that the card gives, with the code that came along.
    done = run_fresh(LOAD_SCRIPT, hub, tmp_path / "elsewhere", NAME="me/elmo-x")
    assert done.returncode == 0, done.stderr[-4000:]
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert (loaded["module"], loaded["missing"]) == ("transformers_modules", 0)
    tokenizer, model = AutoTokenizer.from_pretrained(checkpoint), AutoModel.from_pretrained(checkpoint).eval()
    with torch.no_grad(), hf_elmo.kernels.use_backend("readable"):
        vectors = model(**tokenizer("The cat sat .", return_tensors="pt")).last_hidden_state.numpy()
    np.testing.assert_allclose(loaded["vectors"], vectors, rtol=0, atol=REORDERED_FLOAT32 * max(1, abs(vectors).max()))


# Who asks for which name, the error, and what is answered.
CHECKS = [
    ("write", "elmo-x", "", "^me/elmo-x$"),
    ("other form", "me/elmo-x", "", "^me/elmo-x$"),
    ("write", "lab/elmo-x", "", "^lab/elmo-x$"),
    ("fine", "elmo-x", "", "^me/elmo-x$"),
    # What such a token may write to it alone knows.
    ("fine", "others/elmo-x", "", "^others/elmo-x$"),
    ("write", "others/elmo-x", "ValueError", "others.*me, Lab"),
    ("read", "elmo-x", "ValueError", "token.*read"),
    ("fine, read", "elmo-x", "ValueError", "token.*read"),
    ("unknown", "elmo-x", "ValueError", "401 Unauthorized"),
    (None, "elmo-x", "ValueError", "push_to_hub"),
    ("write", TOKENS["write"], "ValueError", "hub_model_id '<token>'"),
]
FAILURES = {
    "answers-403-at-create": "403 Forbidden",
    "answers-403-at-preupload": "403 Forbidden",
    "answers-403-at-storage": "403 Forbidden",
    "answers-401-at-batch": "401 Unauthorized",
    "answers-404-at-commit": "404 Not Found",
    "answers-500-at-commit": "500 Internal Server Error",
}


@pytest.fixture(scope="module")
def refused(trained, tmp_path_factory) -> tuple[list[list[str]], list[list[str]], Hub]:
    """What the calls for CHECKS and for uploads that fail gave, all in one process, and the stub that they asked."""
    directory = {"directory": str(trained)}
    with serving() as hub:
        answers = call(
            hub,
            tmp_path_factory.mktemp("refused"),
            *(("check", token, {"hub_model_id": name}) for token, name, *_ in CHECKS),
            *(("push", "write", {**directory, "hub_model_id": name}) for name in FAILURES),
            ("push", "unknown", {**directory, "hub_model_id": "elmo-x"}),
            ("push", None, {**directory, "hub_model_id": "elmo-x"}),
            ("push", "write", {**directory, "hub_model_id": "me/taken", "private": True}),
        )
    return answers[: len(CHECKS)], answers[len(CHECKS) :], hub


def test_access_is_checked_before_anything_is_made(refused):
    answers, _, hub = refused
    for (_, _, error, message), found in zip(CHECKS, answers, strict=True):
        assert found[0] == error and re.search(message, found[1]), found
    # One question each but for the last two, which ask none; then the first upload asks, and makes its repository.
    paths = [path for _, path, _, _ in hub.requests]
    assert paths[: len(CHECKS)] == ["/api/whoami-v2"] * (len(CHECKS) - 1) + ["/api/repos/create"]


def test_what_the_hub_refuses_is_told_on_one_line_without_the_token(refused, trained):
    _, answers, hub = refused
    for (name, told), (error, message) in zip(FAILURES.items(), answers, strict=False):
        assert error == "ConnectionError" and "\n" not in message
        # Storage is another's, and is not shown the token.
        seen = "None" if "storage" in name else "Bearer <token>"
        assert message.startswith(f"the upload to 'me/{name}' failed (the Hub answered {told}: not with {seen})")
    for error, message in answers[len(FAILURES) :]:
        assert error == "ValueError" and "\n" not in message
    *_, unknown, nobody, public = (message for _, message in answers)
    assert "the Hub answered 401 Unauthorized" in unknown and "Log in again" in unknown
    assert "push_to_hub needs a login" in nobody
    assert "'me/taken' is there and public" in public
    for _, message in answers:
        assert f"upload it later: hf-elmo push --model_name_or_path {trained} --hub_model_id " in message
    assert public.endswith("--hub_model_id me/taken --private")
    assert hub.commits == []
    assert_token_only_authorizes(hub)


RUN_COMMAND = """
import json, os
from hf_elmo.commands.command_line import main
main(["push", *json.loads(os.environ["ARGUMENTS"])])
"""


def test_the_script_uploads_through_the_storage_that_users_have_by_default(checkpoint, hub, tmp_path):
    pytest.importorskip("hf_xet", reason="huggingface_hub uploads large files by it where it is there")
    environment = {"HF_TOKEN": TOKENS["other form"], "HF_HUB_DISABLE_XET": "0", "HF_DEBUG": "1"}
    arguments = ["--checkpoint", str(checkpoint), "--hub_model_id", "lab/elmo-x", "--private"]
    done = run_fresh(RUN_COMMAND, hub, tmp_path / "run", ARGUMENTS=json.dumps(arguments), **environment)
    assert done.returncode == 0, redact(done.stderr[-4000:], TOKENS["other form"])
    assert SECRET not in done.stdout + done.stderr
    assert_no_token_in(tmp_path)
    num_files = len(files_to_send(checkpoint))
    assert done.stdout.splitlines()[-1] == f"Uploaded {num_files} files of {checkpoint} to {hub.url}/lab/elmo-x"
    ((_, _, files),) = hub.commits
    wanted = as_sent(checkpoint, "lab/elmo-x")
    large = {name: content for name, content in wanted.items() if name.endswith(LARGE)}
    hashes = {name: f"sha256 {hashlib.sha256(content).hexdigest()}".encode() for name, content in large.items()}
    assert "model.safetensors" in hashes and files == wanted | hashes
    (asked,) = hub.created
    assert asked["organization"] == "lab" and "private" in (asked.get("visibility"), *asked)
    assert_token_only_authorizes(hub)
    to_storage = [headers for _, path, headers, _ in hub.requests if path.startswith("/v1/xorbs/")]
    assert to_storage and not any(TOKENS["other form"] in str(headers) for headers in to_storage)


def test_a_token_in_a_file_keeps_all_of_them_at_home(checkpoint):
    other = TOKENS["other form"].encode()
    for name, token, content in (
        # As a command with `--hub_token` would be recorded; one of the Hub's form need not be this machine's own.
        ("results.json", None, json.dumps({"command": f"python run.py --hub_token {TOKENS['unknown']}"}).encode()),
        ("word_vocabulary.txt", TOKENS["other form"], b"<S>\n</S>\n<UNK>\n" + other),
        ("model.safetensors", TOKENS["other form"], (checkpoint / "model.safetensors").read_bytes()[:-99] + other * 3),
    ):
        kept = (checkpoint / name).read_bytes()
        (checkpoint / name).write_bytes(content[: len(kept)] if name == "model.safetensors" else content)
        with pytest.raises(ValueError, match=rf"access token.*{re.escape(name)}") as raised:
            check_checkpoint(checkpoint, token)
        assert SECRET not in str(raised.value)
        (checkpoint / name).write_bytes(kept)
    assert check_checkpoint(checkpoint) == files_to_send(checkpoint)


def test_malformed_names_are_refused_without_asking_the_hub():
    names = ("", "a/b/c", "has blank", "-elmo", "a--b", "elmo.git", "éclair", "me/", "x" * 97, None, "path/to/elmo")
    for name in names:
        assert_refused(ValueError, "hub_model_id", check_hub_access, name, TOKENS["write"])


def test_an_offline_machine_is_told_so():
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    with pytest.raises(ValueError, match="HF_HUB_OFFLINE"):
        check_hub_access("elmo-x", TOKENS["write"])
    with pytest.raises(FileNotFoundError, match="nowhere"):
        sharing.push_checkpoint("nowhere", "elmo-x", TOKENS["write"])


def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(checkpoint):
    for token in (f"{SECRET} {SECRET}", f"{SECRET}\n{SECRET}", f"{SECRET}é", "x" * 7):
        assert token not in assert_refused(ValueError, "access token", check_checkpoint, checkpoint, token)


def test_a_whole_checkpoint_is_taken_as_it_is(trained, checkpoint):
    files = check_checkpoint(trained)
    assert files == files_to_send(trained) == sorted(trained / path.name for path in checkpoint.iterdir())
    # Weights in several files are as good as in one.
    (checkpoint / "model.safetensors").rename(checkpoint / "model-00001-of-00001.safetensors")
    with safe_open(checkpoint / "model-00001-of-00001.safetensors", framework="np") as weights:
        index = {"metadata": {}, "weight_map": dict.fromkeys(weights.keys(), "model-00001-of-00001.safetensors")}
    (checkpoint / "model.safetensors.index.json").write_text(json.dumps(index))
    names = {path.name for path in check_checkpoint(checkpoint)}
    assert {"model.safetensors.index.json", "model-00001-of-00001.safetensors"} <= names
    (checkpoint / "model-00001-of-00001.safetensors").unlink()
    with pytest.raises(ValueError, match=r"model-00001-of-00001\.safetensors"):
        check_checkpoint(checkpoint)


def test_each_missing_file_is_named(checkpoint):
    others = ("README.md", "config.json", "model.safetensors", "results.json", "tokenizer_config.json", VOCABULARY_FILE)
    for name in (*sorted(CODE_FILES), *others):
        content = (checkpoint / name).read_bytes()
        (checkpoint / name).unlink()
        message = assert_refused(ValueError, "missing", check_checkpoint, checkpoint)
        assert re.search(rf"\b{re.escape(name)}\b", message), f"{name}: {message}"
        (checkpoint / name).write_bytes(content)
    assert check_checkpoint(checkpoint) == files_to_send(checkpoint)


def test_all_that_is_missing_is_told_at_once(tmp_path):
    with pytest.raises(ValueError) as raised:
        check_checkpoint(tmp_path)
    for name in ("config.json", "tokenizer_config.json", "model.safetensors", "README.md"):
        assert name in str(raised.value)


def test_a_checkpoint_without_code_is_sent_with_the_packages(checkpoint):
    wanted = [path.name for path in check_checkpoint(checkpoint)]
    for name in CODE_FILES:
        (checkpoint / name).unlink()
    sent = check_checkpoint(checkpoint)
    assert [path.name for path in sent if path.suffix == ".py"] == sorted(CODE_FILES)
    assert [path.name for path in sent] == wanted


def change_json(path: Path, **changes) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_incomplete_and_foreign_auto_maps_are_refused(checkpoint):
    part = {name: reference for name, reference in AUTO_MAP.items() if name != "AutoModelForPreTraining"}
    change_json(checkpoint / "config.json", auto_map=part)
    with pytest.raises(ValueError, match=r"config\.json .*AutoModelForPreTraining"):
        check_checkpoint(checkpoint)
    # As it is in a config that was loaded from somebody's repository.
    change_json(checkpoint / "config.json", auto_map={**AUTO_MAP, "AutoModel": "you/elmo--modeling_elmo.ElmoModel"})
    with pytest.raises(ValueError, match=r"you/elmo--modeling_elmo\.ElmoModel"):
        check_checkpoint(checkpoint)
    change_json(checkpoint / "config.json", auto_map=AUTO_MAP)
    change_json(checkpoint / "tokenizer_config.json", auto_map={})
    with pytest.raises(ValueError, match=r"tokenizer_config\.json .*AutoTokenizer"):
        check_checkpoint(checkpoint)


def test_broken_files_are_refused(checkpoint):
    weights = checkpoint / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    change_json(checkpoint / "config.json", model_type="bert")
    (checkpoint / "results.json").write_text("{")
    (checkpoint / "README.md").write_text(" \n")
    with pytest.raises(ValueError) as raised:
        check_checkpoint(checkpoint)
    for problem in ("model.safetensors is broken", "model_type 'bert'", "results.json holds no JSON", "README.md, the"):
        assert problem in str(raised.value)


def test_a_card_without_figures_needs_no_results(checkpoint):
    (checkpoint / "results.json").unlink()
    for card, quotes in (
        ("# elmo-x\n\nFor tests.\n", False),
        ("| mean |\n| 46.5 |\n", True),
        ("See results.json", True),
    ):
        (checkpoint / "README.md").write_text(card)
        if quotes:
            with pytest.raises(ValueError, match=r"results\.json"):
                check_checkpoint(checkpoint)
        else:
            check_checkpoint(checkpoint)


def test_what_somebody_wrote_into_a_card_is_sent(checkpoint):
    card = checkpoint / "README.md"
    assert sharing._content(checkpoint / "config.json", "me/elmo-x") == checkpoint / "config.json"
    card.write_text(card.read_text() + 'Load "elmo" with care.\n')
    before = card.read_bytes()
    assert before.count(b'"elmo"') == 3
    assert sharing._content(card, "me/elmo-x") == before.replace(b'"elmo"', b'"me/elmo-x"')
    assert card.read_bytes() == before
    # Results that no card of pre-training can be made of, a tagger's for example.
    (checkpoint / "results.json").write_text('{"predict_f1": 0.5}')
    assert sharing._content(card, "me/elmo-x") == before.replace(b'"elmo"', b'"me/elmo-x"')
    # As cards were before they named the directory.
    card.write_text('# path/to/this/checkpoint\nAutoModel.from_pretrained("path/to/this/checkpoint")\n')
    assert sharing._content(card, "me/elmo-x") == b'# me/elmo-x\nAutoModel.from_pretrained("me/elmo-x")\n'
    for others in ("# Named\n", 'AutoModel.from_pretrained("you/elmo-x")\n'):
        card.write_text(others)
        assert sharing._content(card, "me/elmo-x") == card


def test_a_token_on_the_command_line_is_refused_and_not_repeated(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKENS["other form"])
    for arguments in (
        ["--hub_token", "x"],
        ["--hub-token=x"],
        ["--token", "x"],
        ["--hub_model_id", TOKENS["write"]],
        [f"--train_file=https://me:{TOKENS['write']}@somewhere/text.txt"],
        ["--seed", TOKENS["other form"]],
    ):
        argv = ["--output_dir", "out", *arguments]
        assert SECRET not in assert_refused(ValueError, "access token", check_command_line, argv)


def test_other_command_lines_pass(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "short")
    check_command_line(["--text_is_tokenized", "--pre_tokenizer", "punctuation", "--hub_model_id", "me/elmo_short"])


def test_tokens_of_every_form_are_masked():
    for token in (TOKENS["write"], "api_org_" + "x" * 34, f"hf_oauth_eyJhbGciOiJFZERTQSJ9.{SECRET}-_.x"):
        assert redact(f"before {token}, after") == "before <token>, after"
    assert redact(f"a {TOKENS['other form']} b", TOKENS["other form"]) == "a <token> b"
    for harmless in ("hf_elmo.commands.command_line.readable_errors", "hf_hub_download", "x" * 50):
        assert redact(harmless) == harmless


def test_names_shared_with_other_files_agree(trained):
    config = ElmoConfig.from_pretrained(trained)
    assert sharing._WORDS == VOCABULARY_FILE and sharing._HAS_WORDS in config.architectures
