"""Strategies that only a language model can play, over real HTTP with a real worker."""

from pathlib import Path

from benchmarks.model_replies import Asked, Reply, chat
from tests.e2e.models import key_of
from tests.e2e.town import open_town
from tests.engine.player import verdict
from tests.engine.saying import contradictions, questions

WRONG = "Refunds take 30 days."
RIGHT = "Refunds take 14 days."


def answer(asked: Asked) -> Reply:
    """A model that answers by the step's key."""
    text = SAID.get(key_of(asked))
    assert text is not None, key_of(asked)
    return chat(text)


SAID = {
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


async def test_a_contradicted_draft_is_mended(tmp_path: Path) -> None:
    async with open_town(tmp_path, answer) as town:
        strategy = {"kind": "chain_of_verification"}
        ended = await town.ended(await town.submit(strategy=strategy))
        assert (ended["stop_reason"], ended["passed"]) == ("threshold_met", True)
        assert ended["result"]["draft"] == RIGHT
        assert ended["usage"]["calls"] == len(SAID)
        first, _ = (await town.get(ended["id"], "/iterations"))["data"]
        (finding,) = first["findings"]
        assert (finding["source"], finding["quote"]) == ("verification", "take 30 days")
