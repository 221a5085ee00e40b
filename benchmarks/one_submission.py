"""The files whose code runs for one submission, in all processes of a service."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.request import Request, urlopen

from app.cli.processes import free_port
from benchmarks.processes import without_settings

HOOK = Path(__file__).with_name("called_files.py")
TIMEOUT_S = 120.0
OFF = 0
WARMING, *COUNTED = range(1, 10)
"""Submissions. What the first one begins for all, such as a connection, is no part of another's
work; what processes do by the clock falls into some of them, not into all."""


@dataclass(frozen=True)
class NotedCalls:
    """A folder in which the processes of a service note the files whose functions are called."""

    folder: Path
    root: Path
    packages: Sequence[str]

    def environment(self) -> dict[str, str]:
        """Return the variables that make a process note its calls, once the folder is ready."""
        shutil.copy(HOOK, self.folder / "sitecustomize.py")
        (self.folder / "flag").write_bytes(bytes([OFF]))
        (self.folder / "notes").touch()
        return {
            "PYTHONPATH": os.pathsep.join(map(str, (self.folder, self.root))),
            "CALLED_FILES": str(self.folder),
            "CALLED_UNDER": os.pathsep.join(f"{self.root / it}{os.sep}" for it in self.packages),
        }

    @contextmanager
    def during(self, submission: int) -> Iterator[None]:
        """Note what is called meanwhile as called for this submission."""
        with (self.folder / "flag").open("r+b") as flag:
            flag.write(bytes([submission]))
            flag.flush()
            yield
            flag.seek(0)
            flag.write(bytes([OFF]))

    def files(self, submission: int, without: int) -> set[str]:
        """Return the files called for a submission by all processes but the one `without`."""
        notes = [it.split(" ", 2) for it in (self.folder / "notes").read_text().splitlines()]
        return {
            str(Path(path).relative_to(self.root))
            for noted_for, process, path in notes
            if int(noted_for) == submission and int(process) != without
        }


def files_of_one_submission(root: Path, packages: Sequence[str]) -> list[str]:
    """Return the files in which a function runs for each submission to a service.

    `hone serve` of the checkout runs the service, with its own model server. The files are those
    that API and worker run, and what they start, from POST to the last event that a watcher gets.
    What runs by an import does not count.
    """
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        calls = NotedCalls(folder, root, packages)
        noting = calls.environment()
        url = f"http://127.0.0.1:{free_port('127.0.0.1')}"
        model_server = ("benchmarks.model_server", "--port", "0")
        with (
            (folder / "log").open("w+") as log,
            _running(model_server, folder, subprocess.PIPE, PYTHONPATH=str(root)) as models,
        ):
            assert models.stdout is not None
            settings = {
                "HONE_PORT": url.rpartition(":")[2],
                "HONE_DATA_DIR": str(folder / "data"),
                "HONE_MODEL": "openai:scripted",
                "HONE_WORKERS": "1",  # several have a supervisor, which looks at them by the clock
                "HONE_OPENAI_BASE_URL": f"http://127.0.0.1:{models.stdout.readline().strip()}/v1",
            }
            with _running(("app.cli", "serve"), folder, log, **noting, **settings) as supervisor:
                _await_worker(url, supervisor, folder / "log")
                for submission in (WARMING, *COUNTED):
                    with calls.during(submission):
                        _submit(url)
        found = (calls.files(it, without=supervisor.pid) for it in COUNTED)
        return sorted(set.intersection(*found))


@contextmanager
def _running(
    module: Sequence[str], folder: Path, output: int | IO[str], **variables: str
) -> Iterator[subprocess.Popen[str]]:
    """Run a Python module without settings of Hone but those given, and end it afterwards."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", *module],
        cwd=folder,  # no .env of a checkout counts
        env=without_settings() | variables,
        stdout=output,
        stderr=None if output == subprocess.PIPE else subprocess.STDOUT,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(TIMEOUT_S)
            process.kill()


def _await_worker(url: str, service: subprocess.Popen[str], log: Path) -> None:
    give_up = time.monotonic() + TIMEOUT_S
    while service.poll() is None and time.monotonic() < give_up:
        with suppress(OSError):
            if json.loads(_answer(f"{url}/readyz"))["workers"]:
                return
        time.sleep(0.1)
    raise RuntimeError(f"the service does not start:\n{log.read_text()}")


def _submit(url: str) -> None:
    """Submit a task and read its events to the end. Raises RuntimeError unless it succeeds."""
    submitted = json.loads(_answer(f"{url}/v1/refinements", {"task": "Explain refunds."}))
    events = _answer(url + submitted["links"]["events"]).splitlines()
    ended = [it for it in events if it.startswith("event:")][-1]
    if ended != "event: refinement.completed":
        raise RuntimeError(f"the submission ended with {ended}")


def _answer(url: str, body: dict[str, Any] | None = None) -> str:
    data = None if body is None else json.dumps(body).encode()
    asked = Request(url, data, {"content-type": "application/json"})
    with urlopen(asked, timeout=TIMEOUT_S) as response:
        text: str = response.read().decode()
        return text
