"""A process that answers lines with lines, and can be ended at any point of its work."""

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
INHERITED = (
    "PATH",
    "LD_LIBRARY_PATH",
    "VIRTUAL_ENV",
    "HOME",
    "TMPDIR",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
)


class ChildProcess:
    """Runs `python -m MODULE`; it starts with the first question, and again if it dies.

    Its environment has no secrets. One thread at a time may ask.
    """

    def __init__(self, module: str, *arguments: str, wall_s: float) -> None:
        self._command = (sys.executable, "-m", module, *arguments)
        self._wall_s = wall_s
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The id of the process, or None if none runs."""
        return self._process.pid if self._process else None

    def ask(self, line: bytes) -> bytes:
        """Return the answer, or nothing if the process dies or takes more than `wall_s`."""
        process = self._process = self._process or self._started()
        assert process.stdin
        assert process.stdout
        out_of_time = threading.Timer(self._wall_s, process.kill)
        out_of_time.start()
        try:
            process.stdin.write(line + b"\n")
            process.stdin.flush()
            reply = process.stdout.readline()
        except OSError:
            reply = b""
        finally:
            out_of_time.cancel()
        if not reply.endswith(b"\n"):
            self.close()
            return b""
        return reply

    def close(self) -> None:
        """End the process, and with it what it does."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            try:
                if pipe:
                    pipe.close()
            except OSError:
                pass

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(os.environ),
        )


def environment(of: Mapping[str, str]) -> dict[str, str]:
    """Return what a child process is given of an environment: no keys and no passwords."""
    path = os.pathsep.join(filter(None, (str(ROOT), of.get("PYTHONPATH"))))
    kept = {name: of[name] for name in INHERITED if name in of}
    # A fixed hash seed: what comes first must not depend on the order of a set.
    return kept | {"PYTHONPATH": path, "PYTHONHASHSEED": "0"}
