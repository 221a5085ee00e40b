"""The form of `replies_in_public.json`: replies in the shapes that public bug reports describe.

Each entry holds the draft that was to be revised (`base`, null for a first draft), the `task`, the
`reply` of the model and the `text` that a careful person takes from it as the new draft. A null
`text` means that the reply holds no usable text and that the model should be asked again.
"""

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter


class PublicReply(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    shape: str = Field(pattern=r"^\S.*\.$")
    source: str = Field(pattern=r"^[^:]+$")
    base: str | None = Field(min_length=1)
    task: str = Field(min_length=1)
    reply: str
    text: str | None = Field(min_length=1)


ENTRIES = json.loads(Path(__file__).with_name("replies_in_public.json").read_text("utf-8"))
REPLIES = TypeAdapter(list[PublicReply]).validate_python(ENTRIES)


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_the_corpus_holds_at_least_a_hundred_replies_with_names_of_their_own() -> None:
    assert len(REPLIES) >= 100
    assert len({reply.name for reply in REPLIES}) == len(REPLIES)


def test_every_expected_text_occurs_in_its_reply() -> None:
    texts = [(reply, reply.text) for reply in REPLIES if reply.text is not None]
    absent = [reply.name for reply, text in texts if one_line(text) not in one_line(reply.reply)]
    assert absent == []
