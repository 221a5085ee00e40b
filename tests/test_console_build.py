"""The script of the console is built from its sources, and small."""

import gzip
import json
import re
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import get_args

import pytest

from app.contract.waiting import WaitReason
from app.service.report import wording

pytestmark = pytest.mark.long

ROOT = Path(__file__).parent.parent
CONSOLE = ROOT / "app" / "console"
CLIENT = ROOT / "clients" / "typescript"
BUILT = ("console.js", "console.css")
MOST_BYTES = 300_000


def test_it_is_built_from_the_present_sources() -> None:
    found = [
        it
        for folder in ("app/console/src", "clients/typescript/src")
        for it in sorted((ROOT / folder).rglob("*.*"))
    ]
    files = [it for it in found if it.name != "schema.ts"]  # types leave nothing in a script
    hashed = sha256(b"".join(it.read_bytes() for it in [*files, CONSOLE / "package-lock.json"]))
    for name in BUILT:
        built_from = re.search(r"sources (\w{16}) \*/", (CONSOLE / "static" / name).read_text())
        assert built_from, name
        assert built_from[1] == hashed.hexdigest()[:16], "stale: run make console"


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    if not shutil.which("npm"):
        pytest.skip("npm is not installed")
    ignored = shutil.ignore_patterns("node_modules", "static", "dist")
    shutil.copytree(CONSOLE, tmp_path / "app" / "console", ignore=ignored)
    shutil.copytree(CLIENT, tmp_path / "clients" / "typescript", ignore=ignored)
    copy = tmp_path / "app" / "console"
    (copy / "static").mkdir()
    installed = run(copy, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
    if installed.returncode:
        pytest.skip(f"npm cannot install what it is built with: {installed.stderr[-300:]}")
    built = run(copy, "npm", "run", "build")
    assert built.returncode == 0, built.stdout
    for name in (*BUILT, "LICENSES.txt"):
        assert (copy / "static" / name).read_bytes() == (CONSOLE / "static" / name).read_bytes()


def test_the_licences_of_what_is_bundled_go_with_it() -> None:
    licences = (CONSOLE / "static" / "LICENSES.txt").read_text()
    locked = json.loads((CONSOLE / "package-lock.json").read_text())["packages"]
    bundled = [name for name in locked if re.match("node_modules/(d3-|preact$|diff$)", name)]
    for name in bundled:
        version = locked[name]["version"]
        assert f"\n{name.removeprefix('node_modules/')} {version} (" in licences
    assert licences.count("Permission is hereby granted") == 1
    assert licences.count("Permission to use, copy") == len(bundled) - 2
    assert licences.count("Redistributions in binary form") == 1


def test_its_lock_names_no_host() -> None:
    lock = json.loads((CONSOLE / "package-lock.json").read_text())
    assert [name for name, it in lock["packages"].items() if "resolved" in it] == []


def test_it_is_small_on_the_wire() -> None:
    sent = sum(len(gzip.compress(it.read_bytes())) for it in (CONSOLE / "static").iterdir())
    assert sent < MOST_BYTES


@pytest.mark.parametrize(
    ("table", "codes"),
    [
        ("STATUSES", set(wording.STATUSES)),
        ("FIXES", set(wording.ERRORS)),
        ("WAITS", set(get_args(WaitReason))),
        ("CAVEATS", set(wording.CAVEATS)),
        ("SCORES_FROM", set(wording.SCORES_FROM)),
        ("TIMEOUTS", set(wording.TIMEOUTS)),
    ],
)
def test_it_has_words_for_every_code(table: str, codes: set[str]) -> None:
    words = (CONSOLE / "src" / "words.ts").read_text()
    found = re.search(rf"const {table}:.*?= {{\n(.*?)\n}};", words, re.DOTALL)
    assert found
    assert set(re.findall(r"^  (\w+):", found[1], re.MULTILINE)) == codes


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
