"""Reading a reply that must be one JSON object of a given shape."""

from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from app.contract.drafts import draft_of
from workers.engine.asking import Unreadable


def text_in(reply: str) -> str:
    """Return the text of a reply, or raise `Unreadable` when it is empty."""
    text = draft_of(reply)
    if not text:
        raise Unreadable("it is empty")
    return text


class Said(BaseModel):
    """What a model says; fields that nobody asked for are ignored."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


Shape = TypeVar("Shape", bound=Said)


def read_as(shape: type[Shape], reply: str) -> Shape:
    """Return the JSON object in a reply, or raise `Unreadable` with what is wrong with it."""
    text = draft_of(reply)
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        raise Unreadable("it holds no JSON object")
    try:
        return shape.model_validate_json(text[start : end + 1])
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = "/".join(str(part) for part in first["loc"]) or "the object"
        raise Unreadable(f"{where}: {first['msg']}") from None
