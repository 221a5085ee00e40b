"""The documentation site builds from the repository alone, and every link in it leads somewhere."""

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urldefrag

import pytest

import hone
from app.contract.events import DATA_OF
from app.contract.strategies import STRATEGIES
from app.service.report.wording import ERRORS
from documentation.__main__ import ROOT, reference, write
from documentation.codes import FIXES
from documentation.pages import with_links, with_tabs
from tests.test_packaging import variables

ELSEWHERE = re.compile(r"[a-z+]+:|//")
LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src"}


class HtmlPage(HTMLParser):
    """What a page is made of: its anchors, its links and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors, self.links, self.loaded = {""}, set[str](), set[str]()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[it] for it in ("id", "name") if it in given}
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        elif given.get(LOADED.get(tag, "")) and given.get("rel") != "canonical":
            self.loaded.add(given[LOADED[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly from a copy of the pages."""
    root = tmp_path_factory.mktemp("site")
    shutil.copy(ROOT / "zensical.toml", root)
    write(root / "build" / "docs")
    built = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"],
        cwd=root,
        env=os.environ | {"NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return root / "site"


@pytest.fixture(scope="module")
def read(site: Path) -> dict[Path, HtmlPage]:
    """Every page of the site."""
    return {path: HtmlPage(path) for path in site.rglob("*.html") if path.name != "404.html"}


def test_every_link_and_anchor_leads_somewhere(read: dict[Path, HtmlPage]) -> None:
    broken = []
    for path, page in read.items():
        for link in page.links:
            address, anchor = urldefrag(link)
            if ELSEWHERE.match(link):
                continue
            target = (path.parent / unquote(address)).resolve() if address else path
            if not target.exists() or (target in read and anchor not in read[target].anchors):
                broken.append(f"{path.name}: {link}")
    assert broken == []


def test_a_reader_needs_no_other_host(site: Path, read: dict[Path, HtmlPage]) -> None:
    loaded = {(path, it) for path, page in read.items() for it in page.loaded}
    assert loaded
    assert [it for it in loaded if ELSEWHERE.match(it[1])] == []
    assert [it for it in loaded if not (it[0].parent / it[1].partition("?")[0]).exists()] == []
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert re.findall(r"url\(['\"]?(?:https?:)?//[^)]*", styles) == []


def test_every_page_is_reached_from_the_front_page(site: Path, read: dict[Path, HtmlPage]) -> None:
    reached, ahead = set[Path](), [site / "index.html"]
    while ahead:
        path = ahead.pop()
        if path in read and path not in reached:
            reached.add(path)
            ahead += [(path.parent / urldefrag(it).url).resolve() for it in read[path].links]
    lost = {str(path.relative_to(site)) for path in read} - {
        str(path.relative_to(site)) for path in reached
    }
    assert lost - {"adr/template.html"} == set(), "add them to nav in zensical.toml"


def test_the_reference_has_everything_that_the_code_has(site: Path) -> None:
    made = reference()
    operations = json.loads((ROOT / "openapi" / "openapi.json").read_text())["paths"]
    for path, methods in operations.items():
        assert all(f"`{it.upper()} {path}`" in made["http"] for it in methods)
    assert [it for it in DATA_OF if f"## `{it}`" not in made["events"]] == []
    assert [it for it in variables() if f"| `{it}` |" not in made["settings"]] == []
    assert [it for it in STRATEGIES if not (site / "strategies" / f"{it}.html").exists()] == []
    for method in ("refine", "submit", "wait", "events", "review", "batch"):
        assert f"### {method}\n" in made["python"]
        assert f"### {method}\n" in made["typescript"]


def test_the_pages_of_the_clients_have_what_a_program_can_import() -> None:
    made = reference()
    python, typescript = (
        {*re.findall(r"(?m)^## (\w+)", made[name])} for name in ("python", "typescript")
    )
    in_objects = {"AsyncHone", "Batch", "Snapshot", "RefinementRequest"}
    assert python == {*hone.__all__} - in_objects
    assert {"Hone", "Result", "Snapshot", "isTerminal", "verifyWebhook", "NotPassed"} < typescript
    assert {"Message", "messages", "readEvent", "resultOf"} & typescript == set()


def test_a_parameter_has_its_default_and_its_range() -> None:
    said = "Refinements, or batches, per page. Default: `20`. At least 1, at most 100."
    assert f"| `limit` | query | integer | {said} |" in reference()["http"]


def test_the_page_of_settings_does_not_depend_on_who_writes_it() -> None:
    code = "from documentation.__main__ import settings; print(settings())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"HONE_PORT": "none"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "| `HONE_PORT` | `8080` |" in done.stdout
    assert "| `HONE_WORKERS` |  |" in done.stdout


def test_every_failure_has_a_cause_and_says_what_to_do() -> None:
    assert set(FIXES) == set(ERRORS)


def test_blocks_in_different_languages_become_tabs_and_others_stay() -> None:
    both = "```sh\ncurl /\n```\n\n```python\nget()\n```\n"
    assert with_tabs(both).splitlines()[:4] == ['=== "curl"', "", "    ```sh", "    curl /"]
    same = both.replace("python", "sh")
    assert with_tabs(same) == same


def test_links_out_of_docs_keep_their_words() -> None:
    text = "[a](../app/main.py), [b](x.md#y), [c](../SECURITY.md#z), ![d](board.png), [e](#f)"
    page = PurePosixPath("docs/page.md")
    assert with_links(text, page) == (
        "a, [b](x.md#y), [c](reference/security.md#z), ![d](board.png), [e](#f)"
    )
    assert with_links("[g](docs/x.md), [h](LICENSE)", PurePosixPath("SECURITY.md")) == (
        "[g](../x.md), h"
    )
