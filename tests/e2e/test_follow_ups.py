"""What is asked for once the result stands, over real HTTP."""

from pathlib import Path

from benchmarks.model_replies import Asked, Reply, chat
from tests.e2e.models import answering
from tests.e2e.town import open_town
from tests.engine.saying import preference


def later(key: str, asked: Asked) -> Reply | None:
    """Prefer the result wherever it stands."""
    replies = {"compare/1": preference("B"), "compare/2": preference("A")}
    return chat(replies[key]) if key in replies else None


async def test_the_result_is_compared_with_the_draft_it_started_from(tmp_path: Path) -> None:
    async with open_town(tmp_path, answering(later)) as town:
        refinement_id = await town.submit(compare=True)
        ended = await town.ended(refinement_id)
        told = ended["result"]["comparison"]
        assert (told["against"], told["verdict"]) == ("iterations/1", "better")
        assert [it["first"] for it in told["orders"]] == ["earlier", "result"]
        assert (ended["stop_reason"], ended["usage"]["calls"]) == ("threshold_met", 10)
        events = await town.events(refinement_id)
        keys = [event["data"].get("key") for event in events]
        assert {"compare/1", "compare/2"} <= set(keys)
        assert events[-1]["data"] == ended
