"""Fuzz what reads a kind of file, or a property of hypothesis, guided by the code that is reached.

NAME is a kind of file, or FILE.TEST, a test of hypothesis that takes nothing but what hypothesis draws. Each new way to
fail is printed once, and what led to it is kept; the exit status is 1 where there was any.
"""

import argparse
import importlib
import os
import random
import sys
import tempfile
import time
import traceback
from pathlib import Path

TESTS = Path(__file__).resolve().parent
# Seconds for one input, and MiB for all that is held.
LONGEST, LARGEST = 30, 4096
# Longer pieces make all that comes after them slow.
LONGEST_PIECE = 5000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="What to fuzz; left out, the kinds of files are listed."
    )
    parser.add_argument("--seconds", type=float, default=60, help="How long, each.")
    parser.add_argument("--findings", type=Path, default=Path("output/fuzz"), help="Where inputs are kept that fail.")
    arguments = parser.parse_args()
    try:
        import atheris
    except ImportError:
        sys.exit("error: atheris is not installed, which sees the code that is reached; run: pip install atheris")
    sys.path[:0] = [str(TESTS), *{str(path.parent) for path in TESTS.rglob("test_*.py")}]
    has_failed = False
    with tempfile.TemporaryDirectory() as folder:
        # What datasets has read is not kept for the next run.
        os.environ["HF_DATASETS_CACHE"] = str(Path(folder) / "cache")
        with atheris.instrument_imports(include=["hf_elmo"]):
            kinds = {kind.name: kind for kind in importlib.import_module("file_kinds").KINDS}
            subjects = {name: kinds.get(name) or property_of(name) for name in arguments.names}
        if not subjects:
            print("\n".join(kinds))
        for place, (name, subject) in enumerate(subjects.items()):
            sys.stdout.flush()
            # libFuzzer ends the process that it is started in.
            process = os.fork()
            if not process:
                fuzz(atheris, name, subject, Path(folder) / str(place), arguments)
            has_failed |= os.waitpid(process, 0)[1] != 0
    sys.exit(has_failed)


def property_of(name):
    """What runs a test of hypothesis with the bytes of an input."""
    module, _, test = name.partition(".")
    if not test or not list(TESTS.rglob(f"{module}.py")):
        sys.exit(f"error: {name!r} is no kind of file, which are listed without a NAME, and no FILE.TEST")
    return getattr(importlib.import_module(module), test).hypothesis.fuzz_one_input


def fuzz(atheris, name, subject, folder, arguments):
    """Run inputs until the time is over, and end the process."""
    folder.mkdir()
    run, seed, options = subject, b"", {}
    if not callable(subject):
        run, seed = reader_of(subject, folder / "folder")
        options["custom_mutator"] = mutator(atheris, seed)
    (folder / "corpus").mkdir()
    (folder / "corpus" / "seed").write_bytes(seed)
    session = Session(name, run, arguments)
    limits = [f"-timeout={LONGEST}", f"-rss_limit_mb={LARGEST}", f"-max_len={max(4 * len(seed), 2**14)}"]
    kept = f"-artifact_prefix={arguments.findings}/{name}-"
    atheris.Setup(["fuzz", "-verbosity=0", *limits, kept, str(folder / "corpus")], session.run_once, **options)
    atheris.Fuzz()


def reader_of(kind, folder):
    """What reads a file of a kind with some content, and the content of a good one."""
    path = kind.prepare(folder)
    seed, put_in = kind.inside(path.read_bytes())

    def run(content):
        path.write_bytes(put_in(content))
        kind.check(path, folder)

    return run, seed


def mutator(atheris, seed):
    """What changes an input: libFuzzer's own ways, and the edits that the tests draw."""
    from file_edits import PIECES, VALUES, altered

    is_json = seed.lstrip()[:1] in (b"{", b"[")
    pieces = [piece for piece in PIECES if len(piece) <= LONGEST_PIECE]

    def mutate(content, most, number):
        draw = random.Random(number)
        if draw.random() < 0.5:
            return atheris.Mutate(content, most)
        edit = (draw.choice(["insert", "replace"]), draw.random(), draw.choice(pieces))
        if is_json and draw.random() < 0.7:
            edit = ("value", draw.random(), draw.choice(VALUES))
        return altered(content, edit)[:most]

    return mutate


class Session:
    """Inputs that are run until the time is over, and the ways to fail that were found."""

    def __init__(self, name, run, arguments):
        self.name, self.run, self.arguments = name, run, arguments
        self.start = time.monotonic()
        self.num_runs = 0
        self.found = set()
        arguments.findings.mkdir(parents=True, exist_ok=True)

    def run_once(self, content):
        self.num_runs += 1
        try:
            self.run(content)
        except KeyboardInterrupt:
            self.end()
        except BaseException as error:  # what ends a test is no Exception
            self.keep(content, error)
        if time.monotonic() - self.start > self.arguments.seconds:
            self.end()

    def keep(self, content, error):
        """Keep an input that fails as no other did."""
        # A check of an error fails while that is handled.
        cause = error.__context__ if isinstance(error, AssertionError) and error.__context__ else error
        frames = traceback.extract_tb(cause.__traceback__)
        ours = [frame for frame in frames if "hf_elmo" in Path(frame.filename).parts]
        way = (type(cause), *((frame.filename, frame.lineno) for frame in (*frames[-1:], *ours[-1:])))
        if way in self.found:
            return
        self.found.add(way)
        file = self.arguments.findings / f"{self.name}-{len(self.found)}"
        file.write_bytes(content)
        traceback.print_exception(cause)
        print(f"{file}: {type(error).__name__}: {str(error)[:2000]}", flush=True)

    def end(self):
        """End the process, which libFuzzer never does."""
        seconds = time.monotonic() - self.start
        print(f"{self.name}: {self.num_runs:,} runs in {seconds:.0f} s, {len(self.found)} ways to fail", flush=True)
        os._exit(bool(self.found))


if __name__ == "__main__":
    main()
