"""A copy of the repository with the files of an example of docs/extending.md in their places."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
COPIED = ("app", "workers", "tests", "benchmarks", "docs")


@dataclass(frozen=True)
class ExtendedCopy:
    """The copy; what runs in it imports nothing of the original."""

    path: Path

    def run(self, *arguments: str, **variables: str) -> str:
        """Run Python with these arguments and return what it prints; a failure is an error."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.path,
            env={"PATH": os.defpath, "PYTHONPATH": str(self.path), **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def extended_by(example: str, path: Path) -> ExtendedCopy:
    """Copy the repository, add the files of `tests/extending/<example>`, append to pages."""
    for name in COPIED:
        shutil.copytree(ROOT / name, path / name, ignore=shutil.ignore_patterns("extending"))
    shutil.copy(ROOT / "pyproject.toml", path)
    folder = ROOT / "tests" / "extending" / example
    for added in folder.rglob("*.*"):
        if "__pycache__" in added.parts:
            continue
        place = path / added.relative_to(folder)
        if added.suffix == ".md":
            place.write_text(place.read_text() + added.read_text())
        else:
            shutil.copy(added, place)
    return ExtendedCopy(path)
