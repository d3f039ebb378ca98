"""A page in a browser without a window, spoken to through its pipe: what it says, and asks for."""

import itertools
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder that Python's own server serves."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


class Page:
    """One tab; `requests` are the addresses that it and its workers asked for, `errors` what went wrong in them."""

    def __init__(self, process: subprocess.Popen, reads: int, writes: int):
        self._process, self._in, self._out = process, os.fdopen(reads, "rb"), os.fdopen(writes, "wb")
        self._numbers = itertools.count(1)
        self.requests: list[str] = []
        self.errors: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._watch(self._session)

    def _watch(self, session: str) -> None:
        for name in ("Network.enable", "Runtime.enable", "Page.enable"):
            self._send(name, session)
        self._send("Target.setAutoAttach", session, autoAttach=True, waitForDebuggerOnStart=True, flatten=True)
        self._send("Runtime.runIfWaitingForDebugger", session)

    def _send(self, method: str, session: str | None = None, **params) -> int:
        message = {"id": next(self._numbers), "method": method, "params": params}
        self._out.write(json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0")
        self._out.flush()
        return message["id"]

    def _call(self, method: str, session: str | None = None, **params):
        number = self._send(method, session, **params)
        while True:
            message = json.loads(b"".join(iter(partial(self._in.read, 1), b"\0")))
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            given = message.get("params", {})
            if message.get("method") == "Target.attachedToTarget" and "parentSessionId" not in given:
                if "_session" in self.__dict__:
                    self._watch(given["sessionId"])
            elif message.get("method") == "Network.requestWillBeSent":
                self.requests.append(given["request"]["url"])
            elif message.get("method") == "Runtime.exceptionThrown":
                self.errors.append(json.dumps(given["exceptionDetails"])[:600])

    def open(self, address: str) -> None:
        self._call("Page.navigate", self._session, url=address)

    @contextmanager
    def changed_by(self, script: str) -> Iterator[None]:
        """Run a script before those of each page that is opened in the block."""
        number = self._call("Page.addScriptToEvaluateOnNewDocument", self._session, source=script)["identifier"]
        yield
        self._call("Page.removeScriptToEvaluateOnNewDocument", self._session, identifier=number)

    def run(self, script: str):
        """What JavaScript comes to, waited for where it is a promise."""
        given = {"expression": script, "awaitPromise": True, "returnByValue": True}
        result = self._call("Runtime.evaluate", self._session, **given)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait_for(self, condition: str, seconds: float = 60) -> None:
        """Until JavaScript is true; what the page's status says where it never is."""
        said = self.run(
            f"(async () => {{ for (const end = Date.now() + {1000 * seconds}; Date.now() < end;) {{"
            f" try {{ if ({condition}) return true; }} catch {{}}"
            " await new Promise((go) => setTimeout(go, 50)); } return document.body.innerText.slice(0, 800); })()"
        )
        assert said is True, (said, self.errors)

    def set_size(self, width: int, height: int, dark: bool = False) -> None:
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._call("Emulation.setDeviceMetricsOverride", self._session, **screen)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._call("Emulation.setEmulatedMedia", self._session, features=scheme)


@contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """A tab of a browser whose profile is in a folder of the test; skips the test where there is no browser."""
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        pytest.skip(f"no browser that runs without a window: none of {', '.join(_NAMES)}")
    to_browser, our_writes = os.pipe()
    our_reads, from_browser = os.pipe()
    # The browser reads its file 3 and writes its file 4.
    command = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        ["bash", "-c", command, program, *flags], pass_fds=(to_browser, from_browser), stderr=subprocess.DEVNULL
    )
    os.close(to_browser)
    os.close(from_browser)
    try:
        yield Page(process, our_reads, our_writes)
    finally:
        process.terminate()
        process.wait(20)
