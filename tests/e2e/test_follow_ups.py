"""What is asked for once the result stands, over real HTTP."""

from benchmarks.model_replies import AskedPrompt, ModelServerReply, chat, refusal
from tests.e2e.running_service import RunningService
from tests.e2e.scripted_models import answering
from tests.engine.scripted_replies import preference


def later(key: str, asked: AskedPrompt) -> ModelServerReply | None:
    """Prefer the result wherever it stands, and write all that is ordered but the summary."""
    replies = {
        "compare/1": preference("B"),
        "compare/2": preference("A"),
        "outputs/subject": "Your refund",
    }
    if key == "outputs/summary":
        return refusal(400, "no")
    return chat(replies[key]) if key in replies else None


async def test_the_result_is_compared_and_further_texts_are_made_of_it(
    service: RunningService,
) -> None:
    service.models.behaviour = answering(later)
    names = ("subject", "summary")
    ordered = [{"name": name, "instructions": f"A {name}."} for name in names]
    refinement_id = await service.submit(compare=True, outputs=ordered)
    ended = await service.ended(refinement_id)
    result, told = ended["result"], ended["result"]["comparison"]
    assert (told["against"], told["verdict"]) == ("iterations/1", "better")
    assert [it["first"] for it in told["orders"]] == ["earlier", "result"]
    missing = [it["path"] for it in result["caveats"] if it["code"] == "text_missing"]
    assert (result["outputs"], missing) == ({"subject": "Your refund"}, ["outputs/summary"])
    assert (ended["stop_reason"], ended["outcome"]) == ("threshold_met", "passed")
    events = await service.events(refinement_id)
    keys = {event["data"].get("key") for event in events}
    assert keys >= {"compare/1", "compare/2", "outputs/subject", "outputs/summary"}
    assert events[-1]["data"] == ended
