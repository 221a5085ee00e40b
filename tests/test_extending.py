"""docs/extending.md works: its files, put in their places, are all that an extension needs.

Each folder of tests/extending is one extension. Its files go to the places below in a copy of the
product. Its own test runs there, and `check.py`, which tests what the rest of the system knows.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.extended_copy import copy_code

ROOT = Path(__file__).parent.parent
FOLDERS = ROOT / "tests" / "extending"
GUIDE = (ROOT / "docs" / "extending.md").read_text()

PLACES: dict[str, dict[str, str]] = {
    "strategy": {
        "contract.py": "app/contract/strategies/brainstorm.py",
        "engine.py": "workers/engine/strategies/brainstorm.py",
        "test.py": "tests/engine/test_brainstorm.py",
        "page.md": "docs/strategies/brainstorm.md",
    }
}
"""Where the files of each extension belong; in the copy, page and tests stand beside the code."""


def extended(copy: Path, extension: str) -> None:
    """Make a copy of the product that has the files of an extension."""
    for package in ("app", "workers"):
        copy_code(ROOT / package, copy / package)
    for name, place in PLACES[extension].items():
        target = copy / place if place.startswith(("app/", "workers/")) else copy / name
        shutil.copy(FOLDERS / extension / name, target)
    shutil.copy(FOLDERS / extension / "check.py", copy)


@pytest.mark.parametrize("extension", PLACES)
def test_an_extension_is_its_own_files_and_nothing_else(extension: str, tmp_path: Path) -> None:
    extended(tmp_path, extension)
    options = ["-q", "-p", "no:cacheprovider", "-c", f"{ROOT}/pyproject.toml"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--rootdir", tmp_path, "test.py", "check.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("extension", PLACES)
def test_the_guide_shows_the_very_files_and_where_they_belong(extension: str) -> None:
    for name, place in PLACES[extension].items():
        shown = (FOLDERS / extension / name).read_text()
        fence = "````" if "```" in shown else "```"
        language = {".py": "python", ".md": "markdown"}[Path(name).suffix]
        block = f"`{place}`:\n\n{fence}{language}\n{shown}{fence}\n"
        assert block in GUIDE
