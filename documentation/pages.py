"""The pages of docs as the site has them; on GitHub they are read as they are.

- Blocks in sh, python and ts that follow each other directly become tabs.
- A link out of docs keeps its words, and its target if the site has that page elsewhere.
"""

import re
import textwrap
from pathlib import PurePosixPath
from posixpath import normpath

TITLES = {"sh": "curl", "python": "Python", "ts": "TypeScript"}
BLOCK = re.compile(r"^```(sh|python|ts)\n.*?^```$", re.MULTILINE | re.DOTALL)
SERIES = re.compile(rf"(?:{BLOCK.pattern}\n\n?)+", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!\w+:|#)([^)#\s]+)(#[^)]*)?\)")
MOVED = {"SECURITY.md": "reference/security.md", "CHANGELOG.md": "reference/changelog.md"}
"""Pages beside docs, and where the site has them."""


def shown(text: str, source: PurePosixPath) -> str:
    """Return a page for the site; `source` is its path in the repository."""
    return with_links(with_tabs(text), source)


def with_tabs(text: str) -> str:
    """Return a page with tabs where the same is shown in several languages."""
    return SERIES.sub(lambda found: _tabs(found[0]), text)


def _tabs(series: str) -> str:
    blocks = [(it[1], it[0]) for it in BLOCK.finditer(series)]
    if len({language for language, _ in blocks}) < max(2, len(blocks)):
        return series
    return "".join(
        f'=== "{TITLES[language]}"\n\n{textwrap.indent(block, "    ")}\n\n'
        for language, block in blocks
    )


def with_links(text: str, source: PurePosixPath) -> str:
    """Return a page whose links stay on the site."""

    def link(found: re.Match[str]) -> str:
        words, target, anchor = found.groups(default="")
        path = normpath(source.parent / target)
        up = "../" * (len(source.parts) - 2)
        if path in MOVED:
            return f"[{words}]({up}{MOVED[path]}{anchor})"
        if path.startswith("docs/"):
            return found[0] if source.parts[0] == "docs" else f"[{words}](../{path[5:]}{anchor})"
        return words

    return LINK.sub(link, text)
