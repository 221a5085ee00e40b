"""Reading what a server says; what only a newer one knows is left out."""

import json

import httpx
from pydantic import ValidationError

from app.cli.sse import Message
from app.contract.errors import Problem
from app.contract.events import DATA_OF, Event, EventType


def event_of(message: Message) -> Event | None:
    """Return the event, or None if its type is not known here; ValueError for what is none."""
    stored = json.loads(message.data)
    if not isinstance(stored, dict) or stored.get("type") not in set(EventType):
        return None
    data = DATA_OF[EventType(stored["type"])].model_validate(stored["data"], extra="ignore")
    return Event.model_validate({**stored, "data": data}, extra="ignore")


def problem_of(response: httpx.Response) -> Problem:
    """Return the problem, or for an answer that is none what its status says."""
    try:
        return Problem.model_validate_json(response.content, extra="ignore")
    except ValidationError:
        return Problem(
            type="about:blank",
            title=f"{response.status_code} {response.reason_phrase}",
            status=response.status_code,
            detail=f"{response.request.url} answered something that is not Hone's",
            instance=response.request.url.path,
            code="unknown",
        )
