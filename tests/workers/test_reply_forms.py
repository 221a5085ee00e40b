"""In whatever form models reply, a draft is read from the journal as it was judged."""

from collections.abc import Callable

import pytest

from app.contract.drafts import marks
from app.contract.strategies import STRATEGIES
from app.service.iterations import iterations_of
from tests.workers.refinement_harness import TENANT, RefinementHarness, ScriptedAnswers
from tests.workers.replay_cases import CASES, ReplayCase
from tests.workers.test_kills import submitted
from workers.models.port import ModelCall

FORMS: dict[str, Callable[[str], str]] = {
    "line ends of Windows": lambda text: text.replace("\n", "\r\n"),
    "a byte order mark": lambda text: f"\ufeff{text}",
    "thinking": lambda text: f"<think>1. Hm.\n2. Hm.</think>\n{text}",
    "a fence": lambda text: f"```markdown\n{text}\n```",
    "words around it": lambda text: f"Sure, here is it:\n\n{text}\n\nLet me know if you need more.",
}


def replying(case: ReplayCase, form: Callable[[str], str], *, is_marked: bool) -> ScriptedAnswers:
    """Return the models of a case, whose texts have two paragraphs and stand in a form."""
    models = case.models()

    async def answer(key: str, call: ModelCall) -> str:
        mark = call.prompt.mark
        if call.role != "generator" or (mark is None and call.prompt.schema is not None):
            return await models.answer(key, call)
        text = await models.answer(key.partition("/again/")[0], call)
        text = text if text.startswith("{") else f"{text}\n\nThat is all of it."
        opens, closes = marks(mark or "")
        return form(f"{opens}\n{text}\n{closes}" if is_marked and mark else text)

    return ScriptedAnswers(answer, outside=models.outside)


@pytest.mark.parametrize("is_marked", [True, pytest.param(False, marks=pytest.mark.long)])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", STRATEGIES)
async def test_what_was_judged_is_what_the_journal_shows(
    harness: RefinementHarness, kind: str, form: str, *, is_marked: bool
) -> None:
    case = CASES[kind]
    refinement_id = await submitted(harness, kind, case)
    worker = harness.worker(replying(case, FORMS[form], is_marked=is_marked))
    await harness.play_on(worker, refinement_id, case.words)
    request = await harness.store.request(TENANT, refinement_id)
    found = iterations_of(await harness.events(refinement_id), request)
    assert found
    for sign in ("\r", "\ufeff", "<think>", "```", "<text-", "Sure"):
        assert not any(sign in iteration.draft for iteration in found)
