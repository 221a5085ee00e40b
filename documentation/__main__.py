"""Write what the site is built from: the pages of docs, and a reference from the code.

`python -m documentation` writes build/docs, of which zensical makes the site.
"""

import json
import re
import shutil
from pathlib import Path, PurePosixPath

from app.cli.server_commands import setting_rows
from app.settings import Settings
from documentation import clients, codes, commands, http
from documentation.pages import MOVED
from documentation.pages import shown as on_the_site
from documentation.schemas import cell

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SETTINGS = (
    "Environment variables, or lines of a file `.env` in the folder where Hone is started."
    " `hone config` prints each with its value, `hone doctor` says what is wrong with them."
)


def reference() -> dict[str, str]:
    """Return every page of the reference by its name."""
    document = json.loads((ROOT / "openapi" / "openapi.json").read_text(encoding="utf-8"))
    return {
        "http": http.operations(document),
        "objects": http.objects(document),
        "events": codes.events(),
        "codes": codes.endings(),
        "errors": codes.errors(),
        "cli": commands.commands(),
        "settings": settings(),
        "python": clients.python(ROOT / "clients" / "python" / "hone"),
        "typescript": clients.typescript(ROOT / "clients" / "typescript" / "src"),
        "decisions": decisions(DOCS / "adr"),
    }


def settings() -> str:
    """Return the page of all settings."""
    lines = ["# Settings", "", SETTINGS, "", "| variable | default | |", "|---|---|---|"]
    # One that is made when a process starts, such as the number of cores, is another elsewhere.
    rows = zip(
        setting_rows(Settings.model_construct()), Settings.model_fields.values(), strict=True
    )
    for it, field in rows:
        default = f"`{it.default}`" if it.default and not field.default_factory else ""
        lines.append(f"| `{it.variable}` | {cell(default)} | {cell(it.meaning)} |")
    return "\n".join([*lines, "", "How to choose them: [operations](../operations.md).", ""])


def decisions(folder: Path) -> str:
    """Return the page that lists the decisions in a folder."""
    lines = ["# Decisions", "", "Why Hone is built as it is, a page for each decision.", ""]
    for path in sorted(folder.glob("[0-9]*.md")):
        title = path.read_text(encoding="utf-8").partition("\n")[0]
        number, said = re.findall(r"# (\d+): (.*)", title)[0]
        lines.append(f"- {number}: [{said}](../adr/{path.name})")
    return "\n".join([*lines, ""])


def write(folder: Path) -> None:
    """Write the pages of the site to a folder, and nothing else into it."""
    shutil.rmtree(folder, ignore_errors=True)
    for path in DOCS.rglob("*.*"):
        target = folder / path.relative_to(DOCS)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            target.write_text(_page(path), encoding="utf-8")
        else:
            shutil.copy(path, target)
    (folder / "reference").mkdir()
    for name, text in reference().items():
        (folder / "reference" / f"{name}.md").write_text(text, encoding="utf-8")
    for source, moved in MOVED.items():
        (folder / moved).write_text(_page(ROOT / source), encoding="utf-8")


def _page(path: Path) -> str:
    return on_the_site(
        path.read_text(encoding="utf-8"), PurePosixPath(path.relative_to(ROOT).as_posix())
    )


if __name__ == "__main__":
    write(ROOT / "build" / "docs")
