"""New Python processes without the seconds of their imports: forked from a template that has imported already.

A forked process is a new one in all that a test asks of it: its words, environment, folder, output, limits, signals and
end. Only what modules read while they are imported is the template's. All workers of a test session share the
templates, each of which is forked from the one before when it is asked for first.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import importlib
import itertools
import json
import os
import random
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import weakref
from pathlib import Path
from typing import IO, Any

# The beginning of a script that finds transformers, but not hf_elmo.
WITHOUT_OUR_PACKAGE = """
import sys
from importlib.abc import MetaPathFinder

class Blocker(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "hf_elmo":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
"""

# What a run imports in the end, beside what lies beneath.
RUNS = (
    "hf_elmo.pretraining.run",
    "hf_elmo.pretraining.arguments",
    "hf_elmo.cli.command_line",
    "torch.distributed",
    "matplotlib.figure",
    "matplotlib.backends.backend_agg",
)
# The Hub's and transformers' modules read the environment while they are imported, and tests look at how ours are: what
# lies beneath all of these takes most of the seconds.
LIBRARIES = (
    "torch._dynamo",
    "torch.distributed.checkpoint",
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
    "scipy.stats",
    "PIL.Image",
)
# For what is not about transformers' own import: it has read the session's environment, but for HF_MODULES_CACHE.
TRANSFORMERS = (
    "transformers.modeling_utils",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "transformers.pipelines",
)
# The order in which templates are forked from one another.
_TEMPLATES = (LIBRARIES, TRANSFORMERS, RUNS)
_FOLDER = "HF_ELMO_TEMPLATES"  # the variable that tells workers where the templates listen
_LONGEST_REQUEST = 2**20
# Below those that the system gives out by itself, and other ones in each worker: a port that was free a moment ago may
# else be another run's by the time that the run listens.
_ports = itertools.count(20_000 + os.getpid() % 1_000 * 10)
_ROOT = str(Path(__file__).resolve().parent.parent)


class FreshProcess:
    """A process that was forked; as of `subprocess.Popen` are pid, returncode, wait and kill."""

    def __init__(self, status: socket.socket):
        self._status = status
        self.pid = json.loads(status.recv(_LONGEST_REQUEST))
        self.returncode: int | None = None

    def wait(self, timeout: float | None = 300) -> int:
        """Its exit code, minus the signal's number where one ended it; ended, with its stack, when it takes longer."""
        self._status.settimeout(timeout)
        try:
            self.returncode = json.loads(self._status.recv(_LONGEST_REQUEST))
        except TimeoutError:
            # Its stack goes to its stderr first.
            os.kill(self.pid, signal.SIGABRT)
            raise
        self._status.close()
        return self.returncode

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def start(
    words: list[Any],
    stdout: IO,
    stderr: IO,
    env: dict[str, str] | None = None,
    cwd: str | Path | None = None,
    modules: tuple[str, ...] = RUNS,
) -> FreshProcess:
    """Start `python WORDS` in a process of its own.

    Args:
        words: A script and its arguments, or -c and a program, or -m and a module, and their arguments.
        stdout, stderr: Open files that take its output.
        env: All of its environment; None for this process's.
        cwd: Where it runs; None for here.
        modules: What it finds imported.
    """
    request = {
        "words": list(map(str, words)),
        "env": dict(os.environ if env is None else env),
        "cwd": str(cwd or os.getcwd()),
    }
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line.connect(os.path.join(os.environ[_FOLDER], str(_TEMPLATES.index(modules))))
    socket.send_fds(line, [json.dumps(request).encode()], [stdout.fileno(), stderr.fileno()])
    return FreshProcess(line)


def run(words: list[Any], timeout: float = 300, **settings: Any) -> subprocess.CompletedProcess:
    """As `subprocess.run([sys.executable, *words], capture_output=True, text=True)`; settings as of `start`."""
    return run_together([words], [{}], timeout, **settings)[0]


def run_together(
    each: list[list[Any]], environments: list[dict[str, str]], timeout: float = 300, env: Any = None, **settings: Any
) -> list[subprocess.CompletedProcess]:
    """Run several at a time, each with variables of its own."""
    base = dict(os.environ) if env is None else env
    with contextlib.ExitStack() as stack:
        outputs = [[stack.enter_context(tempfile.TemporaryFile()) for _ in range(2)] for _ in each]
        processes = [
            start(words, *files, env=base | variables, **settings)
            for words, files, variables in zip(each, outputs, environments, strict=True)
        ]
        late = []
        for process in processes:
            try:
                process.wait(1 if late else timeout)
            except TimeoutError:
                late.append(process)
        if late:
            time.sleep(1)  # for the stacks
        texts = []
        for files in outputs:
            for file in files:
                file.seek(0)
            texts.append([file.read().decode() for file in files])
        if late:
            raise TimeoutError("\n".join(line for text in texts for line in text))
    return [
        subprocess.CompletedProcess(words, process.returncode, *text)
        for words, process, text in zip(each, processes, texts, strict=True)
    ]


def environments_of_ranks(count: int) -> list[dict[str, str]]:
    """What torchrun tells the processes of one run; a single one is told nothing."""
    if count == 1:
        return [{}]
    for port in _ports:
        with socket.socket() as free, contextlib.suppress(OSError):
            free.bind(("127.0.0.1", port))
            break
    # Not by the address that the machine's name has, which may come and go.
    loopback = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
    shared = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    shared["GLOO_SOCKET_IFNAME"] = loopback
    return [{name: str(value) for name, value in {**shared, "RANK": n, "LOCAL_RANK": n}.items()} for n in range(count)]


def do_not_wait_for_the_disk() -> None:
    """Leave files to the system, here and in all that is forked from here: kills lose nothing of them.

    Only a cut of the power would, and waiting took most of the time of tests that write checkpoints.
    """
    os.fsync = lambda descriptor: None


def open_templates() -> None:
    """Let this process and those that it starts have new processes, as long as it lives."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ[_FOLDER] = folder
    listening = []
    for number in range(len(_TEMPLATES)):
        line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        line.bind(os.path.join(folder, str(number)))
        line.listen()
        listening.append(line.detach())
    # The end of this process closes the one side, which the other one hears.
    life, _ = os.pipe()
    command = [sys.executable, __file__, *map(str, [life, *listening])]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.Popen(command, pass_fds=[life, *listening], env=environment)
    for descriptor in (life, *listening):
        os.close(descriptor)


def _serve(life: int, listening: list[socket.socket]) -> None:
    """Be the next template, for all who call it; the further ones are forked from it when they are called."""
    for module in _TEMPLATES[-len(listening)]:
        importlib.import_module(module)
    # What the libraries would take apart at the end of a process goes with its memory.
    for unmade in list(weakref.finalize._registry):
        unmade.atexit = False
    while True:
        ready, _, _ = select.select([life, *listening], [], [])
        if life in ready:
            return
        if listening[0] in ready:
            line, _ = listening[0].accept()
            if os.fork() == 0:
                _keep(line)
            line.close()
        else:
            if os.fork() == 0:
                return _serve(life, listening[1:])
            for line in listening[1:]:
                line.close()
            del listening[1:]


def _keep(line: socket.socket) -> None:
    """Start the process that is asked for, and tell its number and its end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    content, (stdout, stderr), _, _ = socket.recv_fds(line, _LONGEST_REQUEST, 2)
    pid = os.fork()
    if pid == 0:
        line.close()
        _become(json.loads(content), stdout, stderr)
    os.close(stdout)
    os.close(stderr)
    with contextlib.suppress(OSError):
        line.send(json.dumps(pid).encode())
        line.send(json.dumps(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
    os._exit(0)


def _become(request: dict[str, Any], stdout: int, stderr: int) -> None:
    """Be the process that is asked for, to its end."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    faulthandler.enable(2)
    # What a shell starts in its background is deaf to interrupts, and the template may be.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # The name of this folder, for the template's imports; where the package is installed by naming its folder in
    # sys.path, that name stays.
    del sys.path[0]
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    if os.environ.get("PYTHONPATH"):
        sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)
    dynamic_modules = sys.modules.get("transformers.dynamic_module_utils")
    if dynamic_modules is not None and "HF_MODULES_CACHE" in os.environ:
        dynamic_modules.HF_MODULES_CACHE = os.environ["HF_MODULES_CACHE"]
    sys.stdout.reconfigure(write_through="PYTHONUNBUFFERED" in os.environ)
    random.seed()
    code = _run(request["words"])
    with contextlib.suppress(BaseException):
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _run(words: list[str]) -> int:
    try:
        if words[0] == "-c":
            sys.argv = ["-c", *words[2:]]
            sys.path.insert(0, "")
            exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
        elif words[0] == "-m":
            sys.argv = words[1:]
            sys.path.insert(0, "")
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = words
            sys.path.insert(0, os.path.dirname(words[0]))
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    except KeyboardInterrupt:
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.path[0] = _ROOT
    do_not_wait_for_the_disk()
    # The keepers of the processes end unheard.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    life, *descriptors = map(int, sys.argv[1:])
    _serve(life, [socket.socket(fileno=descriptor) for descriptor in descriptors])
