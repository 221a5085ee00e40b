"""Environments of their own for programs that are not ours, beside the one of this repository."""

import shutil
import site
import subprocess
import sys
import venv
from functools import cache
from pathlib import Path

ENVIRONMENTS = Path(sys.prefix) / "interop"
ROOT = Path(__file__).parents[1]


class CannotInstall(Exception):
    """A program that cannot be installed here; the message says why."""


@cache
def environment_with(name: str, *packages: str, has_hone: bool = False) -> Path:
    """Return the Python of an environment with these packages, installed if they are not yet.

    Only wheels are installed, so that no compiler is needed. One that `has_hone` finds our modules
    and their packages too, behind its own. Raises `CannotInstall`.
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
        raise CannotInstall(f"cannot be installed: {(errors or ['pip failed'])[-1]}")
    if has_hone:
        (own,) = folder.glob("lib/python*/site-packages")
        (own / "hone.pth").write_text("".join(f"{it}\n" for it in (ROOT, *site.getsitepackages())))
    return python


@cache
def node_modules_with(name: str, *packages: str) -> Path:
    """Return the `node_modules` with these packages of npm, installed if they are not yet.

    Their install scripts do not run. Raises `CannotInstall`.
    """
    npm = shutil.which("npm")
    if not npm:
        raise CannotInstall("npm is not on the PATH")
    folder = ENVIRONMENTS / name
    folder.mkdir(parents=True, exist_ok=True)
    install = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    done = subprocess.run(
        [npm, *install, "--prefix", str(folder), *packages],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CannotInstall(
            f"cannot be installed: {(done.stderr.splitlines() or ['npm failed'])[0]}"
        )
    return folder / "node_modules"
