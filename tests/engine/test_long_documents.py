"""A draft that is too long for one prompt: its parts, the facts they share, and the whole."""

import json
from collections.abc import Iterator
from pydoc_data.topics import topics

import pytest

from app.contract.drafts import MAX_TEXT
from app.contract.sections import LONGEST_PART, parts_of
from app.contract.status import StopReason
from tests.engine.engine_driver import EngineDriver, Refusal, judged_by, request
from workers.engine.long_documents import LANES, SHEET, Digest, FactSheet, ReadPart
from workers.engine.moves import Ask, StepError, Stopped, Together
from workers.engine.pipeline import strategy_for
from workers.engine.prompts import Judge, Revise

HELP = "\n\n".join(topics.values())[: MAX_TEXT + 50_000]
PARTS = parts_of(HELP).texts
NESTED = {"kind": "nested", "max_iterations": 1}


def read(*facts: tuple[str, str], contradicts: str = "") -> str:
    """What a model reads of a part."""
    wrong = [{"fact": contradicts, "quote": "Python", "fix": "Say it as before."}]
    said = [{"term": term, "says": says} for term, says in facts]
    return json.dumps(
        {"summary": "It says.", "facts": said, "contradictions": wrong if contradicts else []}
    )


def reading(
    reads: dict[str, str | Refusal],
    before: float = 0.4,
    after: float = 0.9,
    whole: float | None = None,
) -> EngineDriver:
    """A writer that puts a word into each part, and reads parts as said, by their paths."""

    def writer() -> Iterator[str | Refusal]:
        while True:
            asked = model.moves[-1]
            assert isinstance(asked, Ask)
            if isinstance(given := asked.prompt_request, ReadPart):
                yield reads.get(asked.path, read())
            else:
                assert isinstance(given, Revise)
                yield given.draft.replace(" a ", " one ")

    def score(path: str, _: str) -> float:
        if whole is not None and path.startswith("iterations/"):
            return whole
        return before if "iterations/0" in path else after

    model = judged_by(score, writer())
    return model


def prompts(model: EngineDriver, kind: type) -> dict[str, str]:
    asked = (move for move in model.moves if isinstance(move, Ask))
    return {it.path: it.prompt.user for it in asked if isinstance(it.prompt_request, kind)}


def test_evidence_is_words_of_the_draft_and_not_of_the_summaries() -> None:
    model, words = reading({}), HELP[-60:].strip()
    score = {"criterion": "quality", "score": 0.9, "evidence": ["It says.", words]}
    found = {"kind": "quality", "message": "It is vague.", "quote": "It says."}
    model.critic = iter([json.dumps({"scores": [score], "findings": [found]})])
    scored = model.play(request(draft=HELP, strategy=NESTED)).best.scored
    (quoted,) = scored.scores[0].evidence
    assert HELP[quoted.span.start : quoted.span.end] == quoted.quote == words
    assert (scored.scores[0].unsupported, scored.critique.findings[0].span) == (1, None)


def test_every_part_is_read_and_refined_and_no_prompt_holds_the_whole() -> None:
    model = reading({})
    outcome = model.play(request(draft=HELP, strategy=NESTED, threshold=0.8))
    assert (outcome.reason, outcome.passed) == (StopReason.THRESHOLD_MET, True)
    assert outcome.best.scored.draft.text == parts_of(HELP).joined(
        [part.replace(" a ", " one ") for part in PARTS]
    )
    sizes = [len(it.prompt.user) for it in model.moves if isinstance(it, Ask)]
    assert max(sizes) < 2 * LONGEST_PART + 10_000 < MAX_TEXT
    assert len(prompts(model, ReadPart)) == 2 * len(PARTS)
    assert set(model.together) == {min(LANES, len(PARTS))}


def test_the_whole_is_judged_by_summaries_and_a_caveat_says_so() -> None:
    model = reading({})
    outcome = model.play(request(draft=HELP, strategy=NESTED, threshold=0.8))
    shown = prompts(model, Judge)["iterations/1/critique"]
    assert shown.count("It says.") == len(PARTS)
    assert f"{len(outcome.best.scored.draft.text)} characters" in shown
    (caveat,) = outcome.best.scored.caveats
    assert (caveat.code, caveat.path) == ("summarized", "critique")
    assert f"{len(PARTS)} parts" in caveat.detail


def test_a_long_draft_that_passes_is_not_revised() -> None:
    model = reading({}, before=0.9)
    outcome = model.play(request(draft=HELP, strategy=NESTED, threshold=0.8))
    assert (outcome.best.path, outcome.best.scored.draft.text) == ("iterations/0", HELP)
    assert not prompts(model, Revise)


@pytest.mark.parametrize("is_exact", [True, False])
def test_of_equal_verdicts_on_the_whole_the_one_with_revised_parts_is_returned(
    is_exact: bool,
) -> None:
    model, asked = reading({}, whole=0.6), request(draft=HELP, strategy=NESTED, threshold=0.8)
    strategy = strategy_for(asked, "482913", is_exact=is_exact)
    outcome = model.run(strategy, asked.limits())
    assert (outcome.best.path, outcome.lesson) == ("iterations/1", None)


def test_a_part_is_shown_the_facts_that_concern_it_and_no_others() -> None:
    first = "iterations/0/parts/section-1/read"
    known = read(("AssertionError", "raised by assert"), ("zeppelin", "flies"))
    model = reading({first: known})
    model.play(request(draft=HELP, strategy=NESTED, threshold=0.8))
    shown = prompts(model, Revise)
    told = [
        path
        for path, prompt in shown.items()
        if "AssertionError: raised by assert (part 1)" in prompt
    ]
    assert told == [
        f"parts/section-{number}/iterations/1/revise"
        for number, part in enumerate(PARTS, 1)
        if "assertionerror" in part.casefold()
    ]
    assert SHEET in shown[told[0]]
    assert not any("zeppelin: flies" in prompt for prompt in shown.values())
    assert "zeppelin: flies" in prompts(model, Judge)["iterations/0/critique"]


def test_a_contradiction_is_a_finding_that_names_the_part_and_keeps_the_whole_from_passing() -> (
    None
):
    model = reading({"parts/section-3/read": read(contradicts="Python: a language (part 1)")})
    outcome = model.play(request(draft=HELP, strategy=NESTED, threshold=0.8))
    (finding,) = outcome.best.scored.critique.findings
    assert (finding.source, finding.quote) == ("facts", "Python")
    assert finding.message.startswith("parts/section-3 contradicts")
    (caveat,) = outcome.caveats
    assert (caveat.code, caveat.path) == ("goal_not_met", "parts/section-3")
    assert (outcome.passed, outcome.reason) == (False, StopReason.INCOMPLETE)


def test_a_part_that_cannot_be_read_is_judged_by_its_beginning() -> None:
    path = "iterations/0/parts/section-2/read"
    model = reading({path: StepError("model_unavailable", "gone")}, before=0.9)
    outcome = model.play(request(draft=HELP, strategy=NESTED, threshold=0.8))
    assert PARTS[1][:200] in prompts(model, Judge)["iterations/0/critique"]
    codes = {it.code: it.path for it in outcome.best.scored.caveats}
    assert codes == {"summarized": "critique", "item_dropped": "parts/section-2"}


def test_a_stop_keeps_what_was_judged_and_revised_before() -> None:
    model = reading({"parts/section-4/read": Stopped()})
    outcome = model.play(request(draft=HELP, strategy=NESTED, threshold=0.8))
    assert outcome.best.path == "iterations/1"


def test_what_parts_say_of_one_term_stands_together_and_shared_terms_first() -> None:
    sheet = FactSheet(
        [
            Digest("", (("moon", "far"), ("Refund Period", "14 days"))),
            Digest("", (("refund period", "30 days"), ("refund period", "14 days"))),
        ]
    )
    assert sheet.shared() == (
        "Refund Period: 14 days (part 1, 2); 30 days (part 2)",
        "moon: far (part 1)",
    )
    assert sheet.concerning("The REFUND takes a period.") == sheet.shared()[:1]


@pytest.mark.parametrize("confidence", [None, 0.95])
def test_a_long_whole_is_judged_once_and_nobody_is_heard_about_it(confidence: float | None) -> None:
    model = reading({})
    stop = {} if confidence is None else {"confidence": confidence}
    model.play(request(draft=HELP, strategy=NESTED, threshold=0.8, stop=stop))
    whole = [path for path in prompts(model, Judge) if path.startswith("iterations/")]
    assert whole == ["iterations/0/critique", "iterations/1/critique"]
    assert not any(isinstance(move, Together) for move in model.moves)


def test_a_locked_text_that_begins_with_white_space_is_locked_in_its_part() -> None:
    start = HELP.index("\n\n", 50_000)
    locked = HELP[start : start + LONGEST_PART - 10].rstrip()
    model = reading({})
    model.play(request(draft=HELP, locked=[locked], strategy=NESTED))
    asked = [it.prompt_request for it in model.asked("generator")]
    kept = {words for it in asked if isinstance(it, Revise) for words in it.task.locked}
    assert kept == {locked.lstrip()}
