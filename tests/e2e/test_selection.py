"""A generator that is drawn: it writes every draft, and the next draw knows how it went."""

from benchmarks.model_replies import AskedPrompt, ModelServerReply, improving
from tests.e2e.running_service import RunningService

CANDIDATES = ["openai:gpt-5-mini", "openai:gpt-6-luna"]
AUTO = {"select": "auto", "candidates": CANDIDATES, "critic": "openai:judge"}


async def test_the_drawn_model_writes_every_draft_and_the_next_draw_knows(
    service: RunningService,
) -> None:
    writers: list[str] = []

    def remembering(asked: AskedPrompt) -> ModelServerReply:
        if b"judge" not in asked.body:
            writers.append(asked.json["model"])
        return improving(asked)

    service.models.behaviour = remembering
    refinement_id = await service.submit(models=AUTO)
    assert (await service.ended(refinement_id))["passed"]
    queued = (await service.events(refinement_id))[0]["data"]
    picked = queued["draw"]["picked"]
    assert [it["ended"] for it in queued["draw"]["candidates"]] == [0, 0]
    assert queued["models"]["generator"] == picked
    assert writers == [picked.removeprefix("openai:")] * 4
    later = (await service.events(await service.submit(models=AUTO)))[0]["data"]["draw"]
    known = {it["model"]: (it["ended"], it["passed"]) for it in later["candidates"]}
    assert known == {model: (1, 1) if model == picked else (0, 0) for model in CANDIDATES}
