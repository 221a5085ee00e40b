"""Validators of document formats other than JSON."""

from typing import Annotated, Literal

from pydantic import Field

from app.contract import patterns
from app.contract.validators import Validator, quoted_list


class YamlValidator(Validator):
    """The draft is YAML: one or more documents, each a mapping or sequence, without duplicate keys.

    Parsed as YAML 1.1 by libyaml, without the tags that create objects of a programming language.
    """

    kind: Literal["yaml"]

    def in_words(self) -> str:
        return "as a whole is YAML 1.1: mappings or sequences without duplicate keys and own tags"


class TomlValidator(Validator):
    """The draft is one TOML document (1.0)."""

    kind: Literal["toml"]

    def in_words(self) -> str:
        return "as a whole is one TOML document"


class XmlValidator(Validator):
    """The draft is one well-formed XML document, namespaces included, without a DTD."""

    kind: Literal["xml"]

    def in_words(self) -> str:
        return "as a whole is one well-formed XML document without a DTD"


class MarkdownValidator(Validator):
    """The draft has these headings, and its Markdown is complete.

    Complete: every code block is closed, headings go down one level at a time, every row of a table
    has as many cells as its header, and every link has a text and a destination.
    """

    kind: Literal["markdown"]
    headings: tuple[Annotated[str, Field(pattern=patterns.HEADING.regex, max_length=200)], ...] = (
        Field(
            (),
            max_length=50,
            description="Required headings: `## Usage` at that level, `Usage` at any level. Case is"
            " ignored.",
        )
    )

    def in_words(self) -> str:
        words = (
            "is Markdown: code blocks are closed, headings go down one level at a time, every row"
            " of a table has as many cells as its header"
        )
        return (
            f"{words}; it has the headings {quoted_list(self.headings)}" if self.headings else words
        )

    def can_fix(self) -> bool:
        """Code blocks are closed and table rows filled up: both look as before."""
        return True
