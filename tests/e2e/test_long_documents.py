"""Drafts that are too long for one prompt, with `offline:editor`, and everything that shows them.

The texts are Python's own help and docstrings.
"""

from pydoc_data.topics import topics
from typing import Any

import pytest

from app.contract.drafts import MAX_TEXT
from app.contract.sections import parts_of
from benchmarks.long_documents import beginning, documents
from tests.e2e.running_service import RunningService
from tests.waiting import TIMEOUT_S

HELP = "\n\n".join(topics.values())
EDITOR = {"generator": "offline:editor", "critic": "offline:editor"}


def body(draft: str, **fields: Any) -> dict[str, Any]:
    return {
        "task": None,
        "draft": draft,
        "criteria": [{"name": "clarity"}],
        "strategy": {"kind": "nested", "max_iterations": 1},
        "models": EDITOR,
        "threshold": 1,
        **fields,
    }


async def shown_everywhere(service: RunningService, refinement_id: str, draft: str) -> None:
    """Check what every view of an ended refinement says of it."""
    ended = await service.ended(refinement_id, 20 * TIMEOUT_S)
    assert (ended["status"], ended["outcome"]) == ("succeeded", "best_effort")
    result = ended["result"]["draft"]
    assert result != draft
    assert len(parts_of(result).texts) >= len(parts_of(draft).texts) - 1
    assert "summarized" in {caveat["code"] for caveat in ended["result"]["caveats"]}
    found = await service.get(refinement_id, "/diff?from=0&to=1")
    assert "".join(it["from_text"] for it in found["operations"]) == draft
    assert "".join(it["to_text"] for it in found["operations"]) == result
    assert len(found["operations"]) > 10
    judged = (await service.get(refinement_id, "/iterations?path="))["data"]
    assert [it["draft"] for it in judged] == [draft, result]
    events = await service.events(refinement_id)
    assert events[-1]["type"] == "refinement.completed"
    report = await service.client.get(f"/v1/refinements/{refinement_id}/report")
    assert "By summaries" in report.text
    steps = await service.get(refinement_id, "/steps?limit=100")
    assert max(len(it["prompt"]["user"]) for it in steps["data"]) < MAX_TEXT
    assert len(steps["data"]) > len(parts_of(draft).texts)


async def test_a_long_draft_is_refined_by_parts_and_shown_everywhere(
    service: RunningService,
) -> None:
    draft = HELP[: MAX_TEXT + 20_000]
    refinement_id = await service.submit(**body(draft))
    await shown_everywhere(service, refinement_id, draft)


@pytest.mark.long
async def test_a_draft_of_another_script_is_counted_by_characters(service: RunningService) -> None:
    draft = "\u6587\u5b57\u306f\u6587\u3067\u3059\u3002\U0001f600\n\n" * 25_000
    check = {"kind": "length", "max_characters": 9}
    refinement_id = await service.submit(**body(draft, validators=[check]))
    ended = await service.ended(refinement_id)
    assert (ended["status"], ended["outcome"]) == ("succeeded", "best_effort")
    (judged,) = (await service.get(refinement_id, "/iterations?path="))["data"]
    assert judged["draft"] == draft
    assert f"{len(draft)} characters" in judged["findings"][0]["message"]


@pytest.mark.long
async def test_a_million_characters(service: RunningService) -> None:
    draft = beginning(documents(()), 1_000_000)
    refinement_id = await service.submit(**body(draft))
    await shown_everywhere(service, refinement_id, draft)
