"""A copy of the repository with the files of an example of docs/extending.md in their places."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "tests" / "extending"
COPIED = ("app", "workers", "tests", "benchmarks", "docs")


@dataclass(frozen=True)
class ExtendedCopy:
    """The copy; what runs in it imports nothing of the original."""

    path: Path

    def test(self, *tests: str, added: str) -> None:
        """Run tests of the copy; what was added stands in their environment."""
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
            cwd=self.path,
            env={"PATH": os.defpath, "PYTHONPATH": str(self.path), "ADDED": added},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def copy_code(folder: Path, copy: Path) -> None:
    """Copy a folder with what Python compiled in it, but no file that it is writing now."""
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("extending", "*.pyc.*"))


def extended_by(example: str, path: Path) -> ExtendedCopy:
    """Copy the repository, add the files of `tests/extending/<example>`, append to pages."""
    for name in COPIED:
        copy_code(ROOT / name, path / name)
    shutil.copy(ROOT / "pyproject.toml", path)
    for added in files_of(example):
        place = path / added.relative_to(EXAMPLES / example)
        if added.suffix == ".md":
            place.write_text(place.read_text() + added.read_text())
        else:
            shutil.copy(added, place)
    return ExtendedCopy(path)


def files_of(example: str) -> list[Path]:
    """Return the files that an example adds; a page is appended to the one there is."""
    return sorted(it for it in (EXAMPLES / example).rglob("*.*") if it.suffix in {".py", ".md"})


def is_shown(added: Path) -> bool:
    """Tell whether a file of an example stands in docs/extending.md as it is."""
    pages = "".join(it.read_text() for it in (ROOT / "docs").glob("extending*.md"))
    if added.suffix == ".md":
        return f"````markdown\n{added.read_text().lstrip()}````" in pages
    return added.name == "__init__.py" or f"```python\n{added.read_text()}```" in pages
