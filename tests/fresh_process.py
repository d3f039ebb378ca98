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

# The templates: the libraries, which have read the session's environment but for HF_MODULES_CACHE, and, forked from
# them, all that runs import in the end.
LIBRARIES, RUNS = range(2)
_IMPORTS = (
    "torch._dynamo torch.distributed.checkpoint torch.distributed.fsdp torch.distributed.tensor scipy.stats PIL.Image "
    "transformers.modeling_utils transformers.models.auto.modeling_auto transformers.models.auto.tokenization_auto "
    "transformers.pipelines",
    "hf_elmo.pretraining.run hf_elmo.pretraining.arguments hf_elmo.cli.command_line torch.distributed "
    "matplotlib.figure matplotlib.backends.backend_agg",
)
_FOLDER = "HF_ELMO_TEMPLATES"  # the variable that tells workers where the templates listen
_LONGEST_REQUEST = 2**20
# Below those that the system gives out by itself, and other ones in each worker: a port that was free a moment ago may
# else be another run's by the time that the run listens.
_ports = itertools.count(20_000 + os.getpid() % 1_000 * 10)


class FreshProcess:
    """A process that was forked; as of `subprocess.Popen` are pid, wait and kill."""

    def __init__(self, status: socket.socket):
        self._status = status
        self.pid = json.loads(status.recv(_LONGEST_REQUEST))

    def wait(self, timeout: float = 300) -> int:
        """Its exit code, minus the signal's number where one ended it; aborted, with its stack on stderr, when late."""
        self._status.settimeout(timeout)
        with self._status:
            try:
                return json.loads(self._status.recv(_LONGEST_REQUEST))
            except TimeoutError:
                os.kill(self.pid, signal.SIGABRT)
                return json.loads(self._status.recv(_LONGEST_REQUEST))

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def start(
    words: list[Any], stdout: IO, stderr: IO, env: dict[str, str] | None = None, cwd: Any = None, template: int = RUNS
) -> FreshProcess:
    """Start `python WORDS` in a process of its own: -c and a program, or -m and a module, and their arguments.

    The environment and the folder are this process's where none is given.
    """
    request = [list(map(str, words)), dict(os.environ if env is None else env), str(cwd or os.getcwd())]
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line.connect(os.path.join(os.environ[_FOLDER], str(template)))
    socket.send_fds(line, [json.dumps(request).encode()], [stdout.fileno(), stderr.fileno()])
    return FreshProcess(line)


def run(words: list[Any], **settings: Any) -> subprocess.CompletedProcess:
    """As `subprocess.run([sys.executable, *words], capture_output=True, text=True)`; settings as of `start`."""
    return run_together([words], [{}], **settings)[0]


def run_together(
    each: list[list[Any]], environments: list[dict[str, str]], env: dict[str, str] | None = None, **settings: Any
) -> list[subprocess.CompletedProcess]:
    """Run several at a time, each with variables of its own."""
    base, end = dict(os.environ) if env is None else env, time.monotonic() + 300
    with contextlib.ExitStack() as stack:
        outputs = [[stack.enter_context(tempfile.TemporaryFile()) for _ in range(2)] for _ in each]
        processes = [
            start(words, *files, env=base | variables, **settings)
            for words, files, variables in zip(each, outputs, environments, strict=True)
        ]
        done = []
        for words, process, files in zip(each, processes, outputs, strict=True):
            code = process.wait(max(end - time.monotonic(), 1))
            texts = [os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode() for file in files]
            done.append(subprocess.CompletedProcess(words, code, *texts))
        return done


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


def open_templates() -> None:
    """Let this process and those that it starts have new processes, as long as it lives."""
    folder = os.environ[_FOLDER] = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    lines = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in _IMPORTS]
    for number, line in enumerate(lines):
        line.bind(os.path.join(folder, str(number)))
        line.listen()
    # The end of this process closes the one side, which the other one hears.
    passed = [os.pipe()[0], *(line.detach() for line in lines)]
    subprocess.Popen(
        [sys.executable, __file__, *map(str, passed)], pass_fds=passed, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    for descriptor in passed:
        os.close(descriptor)


def _serve(life: int, listening: list[socket.socket]) -> None:
    """Be the next template, for all who call it; the further ones are forked from it when they are called."""
    for module in _IMPORTS[-len(listening)].split():
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
        _become(*json.loads(content), stdout, stderr)
    os.close(stdout)
    os.close(stderr)
    with contextlib.suppress(OSError):
        line.send(json.dumps(pid).encode())
        line.send(json.dumps(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
    os._exit(0)


def _become(words: list[str], environment: dict[str, str], folder: str, stdout: int, stderr: int) -> None:
    """Be the process that is asked for, to its end."""
    for number, descriptor in enumerate((os.open(os.devnull, os.O_RDONLY), stdout, stderr)):
        os.dup2(descriptor, number)
    faulthandler.enable(2)
    # What a shell starts in its background is deaf to interrupts, and the template may be.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # The name of this folder, for the template's imports; where the package is installed by naming its folder in
    # sys.path, that name stays.
    del sys.path[0]
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    if "HF_MODULES_CACHE" in environment and (loader := sys.modules.get("transformers.dynamic_module_utils")):
        loader.HF_MODULES_CACHE = environment["HF_MODULES_CACHE"]
    sys.stdout.reconfigure(write_through="PYTHONUNBUFFERED" in environment)
    random.seed()
    code = _run(words)
    with contextlib.suppress(BaseException):
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _run(words: list[str]) -> int:
    kind, what, *given = words
    sys.argv = [kind, *given]
    sys.path.insert(0, "")
    try:
        if kind == "-c":
            exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
        else:
            runpy.run_module(what, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    except BaseException as error:
        traceback.print_exc()
        if isinstance(error, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        return 1
    return 0


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    # The keepers of the processes end unheard.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    life, *descriptors = map(int, sys.argv[1:])
    _serve(life, [socket.socket(fileno=descriptor) for descriptor in descriptors])
