"""A draft that validators correct is the one that is judged, journaled, revised and returned."""

from app.contract.events import IterationCompleted
from app.contract.requests import RefinementRequest
from app.contract.status import Status
from app.service.iterations import iterations_of
from tests.workers.refinement_harness import RefinementHarness, ScriptedAnswers, verdict
from workers.engine.prompts import Judge
from workers.models.port import ModelCall

SPELLING = {"kind": "spelling", "on_fail": "fix"}


async def test_the_corrected_draft_is_judged_and_returned(harness: RefinementHarness) -> None:
    judged: list[str] = []

    async def answer(key: str, call: ModelCall) -> str:
        if isinstance(call.prompt_request, Judge):
            judged.append(call.prompt_request.draft)
            return verdict(0.9, call)
        return "You will recieve it."

    refinement_id = await harness.submit(validators=[SPELLING])
    ended = await harness.play(refinement_id, ScriptedAnswers(answer))
    assert (ended.status, ended.outcome) == (Status.SUCCEEDED, "passed")
    assert ended.result is not None
    assert ended.result.draft == "You will receive it."
    assert judged == ["You will receive it."]
    events = await harness.events(refinement_id)
    (entry,) = [it.data for it in events if isinstance(it.data, IterationCompleted)]
    assert [(it.before, it.after) for it in entry.fixes[0].changes] == [("recieve", "receive")]
    asked = RefinementRequest.model_validate({"task": "Explain refunds.", "validators": [SPELLING]})
    (shown,) = iterations_of(events, asked)
    assert (shown.draft, shown.fixes) == ("You will receive it.", entry.fixes)
    assert shown.sha256 == ended.result.sha256


async def test_a_clients_own_draft_is_corrected_before_it_is_judged(
    harness: RefinementHarness,
) -> None:
    async def answer(key: str, call: ModelCall) -> str:
        return verdict(0.9, call)

    refinement_id = await harness.submit(draft="You will recieve it.", validators=[SPELLING])
    ended = await harness.play(refinement_id, ScriptedAnswers(answer))
    assert ended.result is not None
    assert (ended.result.draft, ended.result.iteration) == ("You will receive it.", 0)
