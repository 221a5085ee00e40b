"""Replies from people who had not read the reader.

`in_public.json` has the shapes that public bug reports describe, `written_anew.json` replies about
four articles in four languages, replies with misused marks, and texts that a reader must not touch.
`first_drafts.toml` has first drafts of long articles, and texts that a reader must not touch either.
"""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from tests.engine.replies.articles import ArticleReply, quoted


class PublicReply(BaseModel):
    """A reply in the shape that a public bug report describes.

    `text` is what a careful person takes from it as the new draft; null if it has no usable text.
    `is_cut` says that the reply breaks off.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    shape: str = Field(pattern=r"^\S.*\.$")
    source: str = Field(pattern=r"^[^:]+$")
    base: str | None = Field(min_length=1)
    task: str = Field(min_length=1)
    reply: str
    text: str | None = Field(min_length=1)
    is_cut: bool = False


def _read(name: str) -> Any:
    return json.loads(Path(__file__).with_name(name).read_text("utf-8"))


PUBLIC = TypeAdapter(list[PublicReply]).validate_python(_read("in_public.json"))
ANEW = _read("written_anew.json")
FIRST_DRAFTS = tomllib.loads(Path(__file__).with_name("first_drafts.toml").read_text("utf-8"))


def public() -> Iterator[ArticleReply]:
    """Yield the replies in the shapes of public bug reports."""
    for it in PUBLIC:
        family = "no text" if it.text is None else "public"
        yield ArticleReply(family, it.name, it.reply, it.text, it.base, it.task, it.is_cut)


def anew(kind: str = "replies") -> Iterator[ArticleReply]:
    """Yield the replies about four articles, or with `marks` those that misuse their marks."""
    for it in ANEW[kind]:
        article = ANEW["articles"][it["article"]]

        def filled(template: str | None, article: dict[str, str] = article) -> str | None:
            if template is None:
                return None
            with_text = template.replace("{T}", article["revised"])
            return with_text.replace("{B}", article["base"])

        text, said = filled(it["text"]), filled(it["reply"]) or ""
        made = ArticleReply(kind, it["name"], said, text, article["base"], article["task"])
        yield made.with_its_marks() if kind == "marks" else made


def texts() -> Iterator[ArticleReply]:
    """Yield replies that are texts as they stand."""
    for it in ANEW["texts"]:
        yield ArticleReply("texts", it["name"], it["text"], it["text"], it["base"], it["task"])


def first_drafts(kind: str = "replies") -> Iterator[ArticleReply]:
    """Yield first drafts of long articles, or with `texts` those that are texts as they stand."""
    for it in FIRST_DRAFTS[kind]:
        article = FIRST_DRAFTS["articles"][it["article"]]
        text = article["text"].strip("\n")
        forms = {"T": text, "J": json.dumps(text), "I": indent(text, "  "), "Q": quoted(text)}
        said = it["reply"].strip("\n")
        for name, form in forms.items():
            said = said.replace(f"{{{name}}}", form)
        text = said if kind == "texts" else text
        yield ArticleReply("first draft", it["name"], said, text, None, article["task"])
