"""The pages that explain the code name files that exist and every field of the summary."""

import re
from pathlib import Path

import pytest

from app.contract.status import Status, StopReason

ROOT = Path(__file__).parent.parent
PAGES = ("docs/architecture.md", "docs/extending.md", "CONTRIBUTING.md", "README.md", "SECURITY.md")
PATH = re.compile(
    r"`((?:app|workers|tests|docs|benchmarks|examples|clients|deploy)/[\w./-]*)`"
    r"|\]\(((?!https?:)[\w./-]+)\)"
)
FENCED = re.compile(r"^(`{3,}).*?^\1$", re.DOTALL | re.MULTILINE)
IN_LUA = re.compile(r"'(\w+)'")


def paths_in(page: str) -> set[str]:
    """Paths in backticks, and targets of links from the page's own folder; not those in blocks."""
    text = FENCED.sub("", (ROOT / page).read_text())
    folder = (ROOT / page).parent
    found = PATH.findall(text)
    linked = {str((folder / link).resolve().relative_to(ROOT)) for _, link in found if link}
    return {path for path, _ in found if path} | linked


def test_the_threat_model_names_tests_that_exist() -> None:
    rows = re.findall(r"`(tests/[\w/]+\.py)`: `(test_\w+)`", (ROOT / "SECURITY.md").read_text())
    assert rows
    missing = [name for file, name in rows if f"def {name}(" not in (ROOT / file).read_text()]
    assert missing == []


def fields_in_lua() -> set[str]:
    """Names that a script sets or removes in a summary hash."""
    scripts = (path.read_text() for path in (ROOT / "app/store/lua").rglob("*.lua"))
    writes = re.compile(
        r"redis\.call\('(?:HSET|HDEL|HINCRBY)', (?:key|SUMMARY \.\. id),(.*?)\)", re.DOTALL
    )
    return {
        name
        for text in scripts
        for call in writes.findall(text)
        for name in IN_LUA.findall(call)
        if not name.isdigit()
    }


def owned() -> set[str]:
    """Field names in the first column of the page's last table."""
    page = (ROOT / "docs/architecture.md").read_text().partition("| fields | written by |")[2]
    return {
        name
        for row in page.splitlines()
        for name in re.findall(r"`(\w+)`", row.split("|")[1] if "|" in row else "")
    }


@pytest.mark.parametrize("page", [page for page in PAGES if (ROOT / page).exists()])
def test_a_page_names_only_files_that_exist(page: str) -> None:
    assert [it for it in sorted(paths_in(page)) if not (ROOT / it).exists()] == []


def test_every_field_that_a_script_writes_has_an_owner() -> None:
    values = {*Status, *StopReason}
    assert fields_in_lua() - values - owned() == set()
    assert len(fields_in_lua() & owned()) > 25
