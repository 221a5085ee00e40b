"""A text stays in its language: models that obey the prompt, with texts of three languages."""

import json
import re

import pytest

from app.contract.requests import RefinementRequest
from benchmarks.playing import StrategyPlayer
from workers.engine.prompts import FRAGMENTS
from workers.models.port import ModelCall
from workers.models.scripted import Scripted

GERMAN = "Wir erstatten den Kaufpreis und freuen uns auf Sie."
FRENCH = "Nous vous remboursons le prix de la commande sous quatorze jours."
JAPANESE = "\u8fd4\u91d1\u306f\u5341\u56db\u65e5\u4ee5\u5185\u306b\u884c\u3044\u307e\u3059\u3002"
BETTER = {
    "de": "Wir zahlen und gut.",
    "fr": "Nous payons le prix.",
    "ja": "\u8fd4\u91d1\u3057\u307e\u3059\u3002",
}
MARKS = {"ja": r"[\u3040-\u30ff]", "de": r"\bund\b", "fr": r"\b(le|la)\b"}


def language_of(text: str) -> str:
    return next((name for name, mark in MARKS.items() if re.search(mark, text)), "en")


def within(label: str, user: str) -> str | None:
    found = re.search(rf"<{label} (\w+)>\n(.*?)\n</{label} \1>", user, re.DOTALL)
    return found[2] if found else None


def obeying(call: ModelCall) -> str:
    """Write in the language that the rule names: of the draft, else of the task; else English."""
    user = call.prompt.user
    text = within("draft", user) or within("task", user) or ""
    name = language_of(text) if FRAGMENTS["language"] in call.prompt.system else "en"
    written = BETTER.get(name, "We pay.")
    if call.prompt.name != "critique":
        return written
    score = {"criterion": "quality", "score": 0.5, "reason": written}
    return json.dumps({"scores": [score], "findings": [{"kind": "quality", "message": written}]})


async def prompts_of(request: RefinementRequest) -> tuple[str, list[str], Scripted]:
    model = Scripted(obeying)
    outcome = await StrategyPlayer(request, model).play()
    scored = outcome.best.scored
    said = [scored.scores[0].reason, scored.critique.findings[0].message]
    return outcome.best.scored.draft.text, said, model


@pytest.mark.parametrize("text", [GERMAN, FRENCH, JAPANESE])
@pytest.mark.parametrize("has_draft", [True, False])
@pytest.mark.parametrize("edits", ["full", "auto"])
async def test_a_text_is_written_and_judged_in_its_own_language(
    text: str, has_draft: bool, edits: str
) -> None:
    given = {"draft": text} if has_draft else {"task": text}
    request = RefinementRequest.model_validate({**given, "edits": edits, "max_iterations": 1})
    written, said, model = await prompts_of(request)
    assert {language_of(it) for it in (written, *said)} == {language_of(text)}
    assert language_of(text) != "en"
    names = [it.prompt.name for it in model.calls]
    assert names == (["critique", "revise", "critique"] if has_draft else ["write", "critique"])


async def test_a_draft_without_a_task_is_given_no_task_in_another_language() -> None:
    request = RefinementRequest.model_validate({"draft": GERMAN, "max_iterations": 1})
    _, _, model = await prompts_of(request)
    for call in model.calls:
        assert within("task", call.prompt.user) is None
        assert "make the draft better, and keep what it says" in call.prompt.user


async def test_an_english_task_does_not_change_the_language_of_a_draft() -> None:
    request = RefinementRequest.model_validate(
        {"task": "Make it shorter.", "draft": GERMAN, "max_iterations": 1}
    )
    written, _, _ = await prompts_of(request)
    assert language_of(written) == "de"
