"""Write docs/reference from the code: `python -m documentation`.

The pages are not committed: they are written before the site is built.
"""

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from app.cli.server_commands import shown
from app.settings import Settings
from documentation import clients, codes, http
from documentation.schemas import cell

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SETTINGS = (
    "Environment variables, or lines of a file `.env` in the folder where Hone is started."
    " `hone config` prints each with its value, `hone doctor` says what is wrong with them."
)


def pages() -> Mapping[str, str]:
    """Return every page of the reference by its name."""
    document = json.loads((ROOT / "openapi" / "openapi.json").read_text(encoding="utf-8"))
    return {
        "http": http.operations(document),
        "objects": http.objects(document),
        "events": codes.events(),
        "codes": codes.endings(),
        "settings": settings(),
        "python": clients.python(ROOT / "clients" / "python" / "hone"),
        "typescript": clients.typescript(ROOT / "clients" / "typescript" / "src"),
        "decisions": decisions(DOCS / "adr"),
        "security": from_root("SECURITY.md"),
        "changelog": from_root("CHANGELOG.md"),
    }


def settings() -> str:
    """Return the page of all settings."""
    lines = [
        "# Settings",
        "",
        SETTINGS,
        "",
        "| variable | default | |",
        "|---|---|---|",
    ]
    for it in shown(Settings()):
        default = f"`{it.default}`" if it.default else ""
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


def from_root(name: str) -> str:
    """Return a page that the repository has beside docs: links to other files keep their words."""
    text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](../")
    return re.sub(r"\[([^\]]+)\]\((?!\.\./|https?:|#)[^)]*\)", r"\1", text)


def main() -> None:
    """Write what has changed."""
    folder = DOCS / "reference"
    folder.mkdir(exist_ok=True)
    for name, text in pages().items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"written: {path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
