"""Environments of their own for servers that are not ours, beside the one of this repository."""

import subprocess
import sys
import venv
from pathlib import Path

ENVIRONMENTS = Path(sys.prefix) / "interop"


class CannotInstall(Exception):
    """A server that cannot be installed here; the message says why."""


def environment_with(name: str, *packages: str) -> Path:
    """Return the Python of an environment with these packages, installed if they are not yet.

    Only wheels are installed, so that no compiler is needed. Raises `CannotInstall`.
    """
    folder = ENVIRONMENTS / name
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    install = ["-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    done = subprocess.run(
        [str(python), *install, "--only-binary", ":all:", *packages],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        errors = [it for it in done.stderr.splitlines() if it.startswith("ERROR")]
        raise CannotInstall((errors or ["pip failed"])[-1])
    return python
