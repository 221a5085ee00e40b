"""Strategies that only a language model can play, over real HTTP with a real worker."""

import json
from collections.abc import Mapping

from benchmarks.model_replies import AskedPrompt, Behaviour, ModelServerReply, chat
from tests.e2e.running_service import RunningService
from tests.e2e.scripted_models import key_of
from tests.engine.engine_driver import verdict
from tests.engine.scripted_replies import contradictions, look_ups, questions, steps
from tests.local_endpoint import answering_with, endpoint

WRONG = "Refunds take 30 days."
RIGHT = "Refunds take 14 days."

FIND_ORDER = {
    "name": "find_order",
    "description": "Returns one order.",
    "parameters": {"required": ["order"], "properties": {"order": {"type": "integer"}}},
    "timeout_s": 60,
}


def replying(said: Mapping[str, str]) -> Behaviour:
    """A model that answers by the step's key."""

    def answer(asked: AskedPrompt) -> ModelServerReply:
        return chat(said[key_of(asked)])

    return answer


VERIFIED = {
    "iterations/1/draft": WRONG,
    "iterations/1/critique": verdict(0.9),
    "iterations/1/verify/questions": questions(("take 30 days", "How long does it take?")),
    "iterations/1/verify/answers/1": "14 days.",
    "iterations/1/verify/contradictions": contradictions(("take 30 days", 1)),
    "iterations/2/revise": RIGHT,
    "iterations/2/critique": verdict(0.9),
    "iterations/2/verify/questions": questions(("take 14 days", "How long does it take?")),
    "iterations/2/verify/answers/1": "14 days.",
    "iterations/2/verify/contradictions": contradictions(),
}


async def test_a_contradicted_draft_is_mended(service: RunningService) -> None:
    service.models.behaviour = replying(VERIFIED)
    strategy = {"kind": "chain_of_verification"}
    ended = await service.ended(await service.submit(strategy=strategy))
    assert (ended["stop_reason"], ended["outcome"]) == ("threshold_met", "passed")
    assert ended["result"]["draft"] == RIGHT
    assert ended["usage"]["calls"] == len(VERIFIED)
    first, _ = (await service.get(ended["id"], "/iterations"))["data"]
    (finding,) = first["findings"]
    assert (finding["source"], finding["quote"]) == ("verification", "take 30 days")


async def test_a_draft_is_contradicted_by_what_a_tool_says(service: RunningService) -> None:
    picked = look_ups(("find_order", {"order": 4711}))
    said = {
        **VERIFIED,
        **{f"iterations/{number}/verify/lookups": picked for number in (1, 2)},
    }

    def answer(asked: AskedPrompt) -> ModelServerReply:
        key = key_of(asked)
        is_known = b"sent within 14 days" in asked.body
        return chat("unknown" if "/answers/" in key and not is_known else said[key])

    service.models.behaviour = answer
    strategy = {"kind": "chain_of_verification"}
    async with endpoint(answering_with("4711: sent within 14 days")) as (url, asked, _):
        tools = [{**FIND_ORDER, "url": url}]
        ended = await service.ended(await service.submit(strategy=strategy, tools=tools))
        bodies = [json.loads(await it.text()) for it in asked]
        keys = [it.headers["Idempotency-Key"] for it in asked]
    assert (ended["stop_reason"], ended["outcome"]) == ("threshold_met", "passed")
    assert (ended["result"]["draft"], ended["result"]["caveats"]) == (RIGHT, [])
    assert ended["usage"]["calls"] == len(said)
    assert bodies == [{"tool": "find_order", "arguments": {"order": 4711}}] * 2
    assert keys == [f"{ended['id']}/iterations/{number}/verify/answers/1/call" for number in (1, 2)]
    first, _ = (await service.get(ended["id"], "/iterations"))["data"]
    assert "looked up: find_order" in first["findings"][0]["message"]


async def test_the_answer_that_most_samples_give_is_returned(service: RunningService) -> None:
    drawn = {
        "iterations/1/draft": "So: 42? No. <answer>So: 41</answer>",
        "iterations/2/draft": "6 times 7 is 42.\n<answer>\nSo: 42.0\n</answer>\n",
        "iterations/3/draft": "<answer>Because I say so: 42</answer>",
    }
    service.models.behaviour = replying(drawn)
    strategy = {"kind": "self_consistency", "n": 3, "answer": r"(?i)so: ([\d.]+)"}
    ended = await service.ended(await service.submit(strategy=strategy, threshold=0.6))
    assert (ended["stop_reason"], ended["outcome"]) == ("threshold_met", "passed")
    result = ended["result"]
    assert (result["path"], result["score_from"]) == ("iterations/2", "agreement")
    assert (result["score"], ended["usage"]["calls"]) == (0.666667, 3)
    judged = (await service.get(ended["id"], "/iterations"))["data"]
    assert [it["scores"][0]["reason"] for it in judged] == [
        "1 of 3 samples: 41",
        "2 of 3 samples: 42.0",
        "2 of 3 samples: 42",
    ]


async def test_a_faulty_step_is_done_anew_and_those_before_it_stay(service: RunningService) -> None:
    said = {
        "iterations/1/draft": "1. Two and two are four.\n2. So it is five.",
        "iterations/1/critique": verdict(0.9),
        "iterations/1/verify": steps(True, False),
        "iterations/2/revise": "2. So it is four.",
        "iterations/2/critique": verdict(0.9),
        "iterations/2/verify": steps(True, True),
    }
    service.models.behaviour = replying(said)
    ended = await service.ended(await service.submit(strategy={"kind": "reasoning_revision"}))
    assert (ended["stop_reason"], ended["usage"]["calls"]) == ("threshold_met", len(said))
    assert ended["result"]["draft"] == "1. Two and two are four.\n2. So it is four."
    diff = await service.get(ended["id"], "/diff?from=1&to=2")
    assert [it["op"] for it in diff["operations"]] == ["equal", "replace"]


async def test_a_wrong_calculation_in_the_third_step_is_found_and_redone(
    service: RunningService,
) -> None:
    """The critic finds no fault: the calculator does."""
    kept = "1. One weighs 9 / 12 = 0.75 kg.\n2. Seven weigh 7 x 0.75 = 5.25 kg.\n"
    said = {
        "iterations/1/draft": f"{kept}3. They cost 5.25 x 2.40 = 13.60 euros.",
        "iterations/1/critique": verdict(0.9),
        "iterations/1/verify": steps(True, True, True),
        "iterations/2/revise": "3. They cost 5.25 x 2.40 = 12.60 euros.",
        "iterations/2/critique": verdict(0.9),
        "iterations/2/verify": steps(True, True, True),
    }
    service.models.behaviour = replying(said)
    ended = await service.ended(await service.submit(strategy={"kind": "reasoning_revision"}))
    assert ended["stop_reason"] == "threshold_met"
    assert ended["result"]["draft"] == f"{kept}{said['iterations/2/revise']}"
    judged = (await service.get(ended["id"], "/iterations"))["data"]
    (finding,) = judged[0]["findings"]
    assert (finding["source"], finding["kind"]) == ("calculator", "step 3")
    assert finding["message"] == "5.25 * 2.40 is 12.6, not 13.60"
