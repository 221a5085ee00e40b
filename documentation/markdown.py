"""A Markdown extension: what reads well on GitHub is shown by the site in its own way.

- Blocks in sh, python and ts that follow each other directly become tabs.
- A link to a file of the repository that is no page loses its target and keeps its words.
"""

import re
import textwrap
from typing import Any
from xml.etree.ElementTree import Element

from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor
from markdown.treeprocessors import Treeprocessor

TITLES = {"sh": "curl", "python": "Python", "ts": "TypeScript"}
BLOCK = re.compile(r"^```(sh|python|ts)\n.*?^```$", re.MULTILINE | re.DOTALL)
SERIES = re.compile(rf"(?:{BLOCK.pattern}\n\n?)+", re.MULTILINE | re.DOTALL)
OUTSIDE = re.compile(r"(\.\./)+(app|benchmarks|clients|deploy|examples|openapi|tests|workers)\b")


class TabsOfLanguages(Preprocessor):
    """Turns blocks that follow each other into tabs of pymdownx.tabbed."""

    def run(self, lines: list[str]) -> list[str]:
        """Return the lines of a page with its tabs."""
        return SERIES.sub(lambda found: tabs(found[0]), "\n".join(lines) + "\n").split("\n")


def tabs(series: str) -> str:
    """Return a series of blocks as tabs, or as it is unless each has another language."""
    blocks = [(it[1], it[0]) for it in BLOCK.finditer(series)]
    if len({language for language, _ in blocks}) < max(2, len(blocks)):
        return series
    return "".join(
        f'=== "{TITLES[language]}"\n\n{textwrap.indent(block, "    ")}\n\n'
        for language, block in blocks
    )


class WordsOfLinks(Treeprocessor):
    """Removes the targets that the site does not have."""

    def run(self, root: Element) -> None:
        """Change the elements of a page."""
        for link in root.iter("a"):
            if OUTSIDE.match(link.get("href", "")):
                link.tag = "span"
                del link.attrib["href"]


class SiteMarkdown(Extension):
    """Registers both, before what takes blocks out of the text and what resolves links."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - the name in Markdown
        md.preprocessors.register(TabsOfLanguages(md), "tabs_of_languages", 40)
        md.treeprocessors.register(WordsOfLinks(md), "words_of_links", 15)


def makeExtension(**options: Any) -> SiteMarkdown:  # noqa: N802 - the name that Markdown looks for
    """Return the extension."""
    return SiteMarkdown(**options)
