"""What is asked for once the result stands, over real HTTP."""

from pathlib import Path

from benchmarks.model_replies import Asked, Reply, chat, refusal
from tests.e2e.models import answering
from tests.e2e.town import open_town
from tests.engine.saying import preference


def later(key: str, asked: Asked) -> Reply | None:
    """Prefer the result wherever it stands, and write all that is ordered but the summary."""
    replies = {
        "compare/1": preference("B"),
        "compare/2": preference("A"),
        "outputs/subject": "Your refund",
    }
    if key == "outputs/summary":
        return refusal(400, "no")
    return chat(replies[key]) if key in replies else None


async def test_the_result_is_compared_and_further_texts_are_made_of_it(tmp_path: Path) -> None:
    async with open_town(tmp_path, answering(later)) as town:
        names = ("subject", "summary")
        ordered = [{"name": name, "instructions": f"A {name}."} for name in names]
        refinement_id = await town.submit(compare=True, outputs=ordered)
        ended = await town.ended(refinement_id)
        result, told = ended["result"], ended["result"]["comparison"]
        assert (told["against"], told["verdict"]) == ("iterations/1", "better")
        assert [it["first"] for it in told["orders"]] == ["earlier", "result"]
        assert (result["outputs"], result["missing"]) == (
            {"subject": "Your refund"},
            ["outputs/summary"],
        )
        assert (ended["stop_reason"], ended["passed"]) == ("threshold_met", True)
        events = await town.events(refinement_id)
        keys = {event["data"].get("key") for event in events}
        assert keys >= {"compare/1", "compare/2", "outputs/subject", "outputs/summary"}
        assert events[-1]["data"] == ended
