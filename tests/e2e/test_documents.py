"""JSON drafts over real HTTP, from servers with and without constrained decoding."""

import json
from typing import Any

import pytest

from benchmarks.model_replies import AskedPrompt, ModelServerReply, chat, refusal
from tests.e2e.running_service import RunningService
from tests.e2e.scripted_models import DRAFT, answering

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Summary",
    "type": "object",
    "properties": {"total": {"$ref": "#/$defs/count"}, "note": {"type": "string"}},
    "required": ["note", "total"],
    "additionalProperties": False,
    "$defs": {"count": {"type": "integer", "description": "Of all orders.", "minimum": 1}},
}
SENT = {
    "type": "object",
    "properties": {
        "total": {"type": "integer", "description": "Of all orders.", "minimum": 1},
        "note": {"type": "string"},
    },
    "required": ["total", "note"],
    "additionalProperties": False,
}
CHECK = {"kind": "json_schema", "schema": SCHEMA}


def satisfying(schema: dict[str, Any], number: int) -> dict[str, Any]:
    """Return what constrained decoding would end in."""
    values = {"integer": number, "string": f"Draft number {number}."}
    return {name: values[it["type"]] for name, it in schema["properties"].items()}


def is_draft(key: str) -> bool:
    """Return whether a call is for a draft; the key of a second try says what it is without."""
    return key.partition(";")[0].endswith(("/draft", "/revise"))


def constrained(key: str, asked: AskedPrompt) -> ModelServerReply | None:
    """Answer in the format that is asked for, and with prose where none is."""
    if not is_draft(key):
        return None
    number = 1 + max((int(it) for it in DRAFT.findall(asked.body)), default=0)
    wanted = asked.json.get("response_format")
    if wanted is None:
        return chat(f"Draft number {number} is prose.")
    assert wanted["json_schema"]["strict"]
    return chat(json.dumps(satisfying(wanted["json_schema"]["schema"], number), indent=2))


def unconstrained(key: str, asked: AskedPrompt) -> ModelServerReply | None:
    """Reject every format of a draft, and answer as a model does that was told it in words."""
    if not is_draft(key):
        return None
    if "response_format" in asked.json:
        return refusal(400, "response_format: unknown field")
    number = 1 + max((int(it) for it in DRAFT.findall(asked.body)), default=0)
    said = json.dumps(satisfying(SENT, number), indent=2)
    return chat(f"Sure! Here is the JSON:\n\n```json\n{said}\n```\n\nLet me know if it helps!")


@pytest.mark.parametrize("model", [constrained, unconstrained], ids=lambda it: it.__name__)
async def test_every_draft_is_a_document_of_the_schema(service: RunningService, model: Any) -> None:
    sent: list[Any] = []

    def answer(key: str, asked: AskedPrompt) -> ModelServerReply | None:
        if is_draft(key):
            sent.append(asked.json.get("response_format"))
        return model(key, asked)  # type: ignore[no-any-return]

    service.models.behaviour = answering(answer)
    refinement_id = await service.submit(task="Sum up.", validators=[CHECK])
    ended = await service.ended(refinement_id)
    assert (ended["status"], ended["stop_reason"]) == ("succeeded", "threshold_met")
    judged = (await service.get(refinement_id, "/iterations"))["data"]
    drafts = [it["draft"] for it in judged]
    assert drafts == [json.dumps(satisfying(SENT, n), indent=2) for n in range(1, 5)]
    assert ended["result"]["draft"] == drafts[-1]
    assert not any(it["findings"] for it in judged)
    first = {"name": "write", "schema": SENT, "strict": True}
    assert sent[0] == {"type": "json_schema", "json_schema": first}
