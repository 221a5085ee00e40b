"""Pairs of what reviewers and the blind comparison said, as a trainer downloads them."""

import json
from pathlib import Path

from benchmarks.model_replies import AskedPrompt, ModelServerReply, chat, draft
from tests.e2e.running_service import RunningService, running_service
from tests.e2e.scripted_models import answering
from tests.e2e.test_reviews import MORE, say, until_asked


async def test_reviews_make_pairs_of_what_was_sent_back_replaced_and_approved(
    service: RunningService,
) -> None:
    refinement_id = await service.submit(review={"when": "each_iteration"})
    await until_asked(service, refinement_id, "iterations/1/review")
    await say(service, refinement_id, **MORE)
    await until_asked(service, refinement_id, "iterations/2/review")
    own = "Draft number 3, by hand."
    await say(service, refinement_id, action="replace", draft=own, reviewer="Ann")
    await until_asked(service, refinement_id, "iterations/3/review")
    await say(service, refinement_id, action="approve", reviewer="Ann")
    await service.ended(refinement_id)
    answer = await service.client.get("/v1/pairs", params={"source": "review"})
    found = [json.loads(line) for line in answer.text.splitlines()]
    mine = [it for it in found if it["refinement"] == refinement_id]
    assert [(it["by"], it["chosen"], it["rejected"]) for it in mine] == [
        ("Ann", own, draft(2)),
        ("Ann", own, draft(1)),
    ]


def prefers_the_result(key: str, _asked: AskedPrompt) -> ModelServerReply | None:
    better = {"compare/1": "B", "compare/2": "A"}.get(key)
    return chat(json.dumps({"reason": "It is clearer.", "better": better})) if better else None


async def test_a_blind_comparison_makes_a_pair_by_the_model_that_compared(tmp_path: Path) -> None:
    async with running_service(tmp_path, answering(prefers_the_result)) as service:
        refinement_id = await service.submit(draft=draft(1), compare=True)
        assert (await service.ended(refinement_id))["result"]["comparison"]["verdict"] == "better"
        (pair,) = (await service.client.get("/v1/pairs?form=conversational")).text.splitlines()
        found = json.loads(pair)
        assert (found["source"], found["by"]) == ("comparison", "openai:bench")
        assert found["rejected"] == [{"role": "assistant", "content": draft(1)}]
        assert found["chosen"] == [{"role": "assistant", "content": draft(4)}]
