"""A loop whose body is another strategy."""

from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from app.contract.judgement import Finding
from app.contract.requests import RefinementRequest
from app.contract.status import StopReason
from tests.engine.engine_driver import EngineDriver, Refusal, judged_by, request
from workers.engine.moves import Ask, Judged, ReviewerReply, StepError, Stopped

ONE: dict[str, object] = {"name": "one", "instructions": "The first chapter."}
TWO: dict[str, object] = {"name": "two", "instructions": "The second chapter."}
BRIEFLY = {"kind": "nested", "parts": [ONE, TWO], "max_iterations": 1}
GONE = StepError("model_unavailable", "gone")
CHAPTERS = "# One\n\nShops pay.\n\n# Two\n\nSoon."


def chapters(*parts: dict[str, object], **fields: object) -> RefinementRequest:
    strategy = {"kind": "nested", "parts": list(parts) or [ONE, TWO]}
    return request(**{"strategy": strategy, "threshold": 0.8, **fields})


def good(path: str, _: str) -> float:
    return 0.9


def refused_from(path: str, model: EngineDriver) -> EngineDriver:
    """The same models, refused from a step on."""
    answer = model.critic

    def critic() -> Iterator[str | Refusal]:
        while True:
            asked = [it.path for it in model.moves if isinstance(it, Ask)]
            yield Stopped() if path in asked else next(answer)

    model.critic = critic()
    return model


def judged(model: EngineDriver) -> list[str]:
    return [move.path for move in model.moves if isinstance(move, Judged)]


def test_every_part_is_refined_and_the_whole_is_judged_as_a_whole() -> None:
    model = judged_by(good, ["Chapter one.", "Chapter two."])
    outcome = model.play(chapters())
    assert judged(model) == ["parts/one/iterations/1", "parts/two/iterations/1", "iterations/1"]
    assert outcome.best.scored.draft.text == "Chapter one.\n\nChapter two."
    assert (outcome.reason, outcome.passed) == (StopReason.THRESHOLD_MET, True)
    assert (outcome.score_from, outcome.missing) == ("critique", ())


def test_each_part_goes_on_to_its_own_threshold() -> None:
    model = judged_by(lambda path, _: 0.6 if "iterations/1" in path else 0.9, ["a", "b", "c"])
    model.play(chapters({**ONE, "threshold": 0.5}, TWO))
    assert judged(model) == [
        "parts/one/iterations/1",
        "parts/two/iterations/1",
        "parts/two/iterations/2",
        "iterations/1",
    ]
    told = [move.threshold for move in model.moves if isinstance(move, Judged)]
    assert told == [0.5, 0.8, 0.8, None]


def test_a_change_from_outside_reaches_the_whole_and_no_part() -> None:
    model = judged_by(lambda path, _: 0.3, [f"text {n}" for n in range(9)])
    model.change = lambda move, limits: limits.model_copy(
        update={"max_iterations": 50, "patience": 50, "threshold": 0.2}
    )
    outcome = model.play(chapters(ONE))
    assert judged(model)[-2:] == ["parts/one/iterations/3", "iterations/1"]
    assert outcome.reason is StopReason.THRESHOLD_MET


def test_the_body_is_any_strategy() -> None:
    body = {"kind": "best_of_n", "n": 2}
    strategy = {"kind": "nested", "parts": [ONE], "body": body}
    model = judged_by(lambda path, _: 0.7 if "/2/" in path else 0.6, ["worse", "better"])
    outcome = model.play(request(strategy=strategy))
    assert outcome.best.scored.draft.text == "better"
    assert judged(model)[:2] == ["parts/one/iterations/1", "parts/one/iterations/2"]


def test_without_parts_the_sections_of_the_draft_are_refined_in_their_places() -> None:
    draft = "# A\n\nrough\n\n# B\n\nrough too"
    model = judged_by(lambda path, _: 0.4 if "iterations/0" in path else 0.9, ["# A\n\nfine", GONE])
    outcome = model.play(request(draft=draft, strategy={"kind": "nested"}))
    assert outcome.best.scored.draft.text == "# A\n\nfine\n\n# B\n\nrough too"
    assert outcome.missing == ()


CONTRACT = """\
---
title: Contract
---

Contract
========

## 1. Scope

- loose

- list

```sh

# no heading
```

### 1.1 Exceptions

    none


## 2. Price

rough"""


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_sections_that_pass_stay_byte_for_byte_around_one_that_is_revised(line_end: str) -> None:
    draft = CONTRACT.replace("\n", line_end)
    rough = "parts/section-2/iterations/0"
    model = judged_by(
        lambda path, _: 0.4 if path.startswith((rough, "iterations/0")) else 0.9,
        ["## 2. Price\n\nfine"],
    )
    outcome = model.play(request(draft=draft, strategy={"kind": "nested"}))
    assert outcome.best.scored.draft.text == draft.replace("rough", "fine")
    assert len(model.asked("generator")) == 1


def test_a_locked_text_is_not_split_between_two_sections() -> None:
    draft = "# A\n\nrough\n\n# B\n\nrough\n\n# C\n\nrough"
    revised = ["# A\n\nrough\n\n# B\n\nfine", "# C\n\nfine"]
    model = judged_by(lambda path, _: 0.4 if "iterations/0" in path else 0.9, revised)
    locked = ["rough\n\n# B"]
    outcome = model.play(request(draft=draft, locked=locked, strategy={"kind": "nested"}))
    parts = {path.split("/")[1] for path in model.paths if path.startswith("parts/")}
    assert parts == {"section-1", "section-2"}
    assert outcome.best.scored.draft.text == "\n\n".join(revised)


def test_a_part_that_could_not_be_made_is_named_and_nothing_passes_without_it() -> None:
    model = judged_by(good, ["Chapter one.", GONE])
    outcome = model.play(chapters())
    assert (outcome.missing, outcome.passed) == (("parts/two",), False)
    assert outcome.best.scored.draft.text == "Chapter one."


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [(GONE, StopReason.INCOMPLETE), (Stopped(), None)],
    ids=["failed", "stopped"],
)
@pytest.mark.parametrize("score", [0.5, 0.9])
def test_a_whole_with_a_part_that_could_not_be_made_is_not_completed(
    refusal: Stopped | StepError, reason: StopReason | None, score: float
) -> None:
    model = judged_by(lambda path, _: score, ["Chapter one.", refusal])
    outcome = model.play(chapters(strategy=BRIEFLY))
    assert (outcome.reason, outcome.passed) == (reason, False)


def test_a_part_that_was_cut_short_keeps_the_reason_of_the_stop() -> None:
    model = judged_by(lambda path, _: 0.5, ["One.", Stopped(), "Two.", "Two again.", "More."])
    outcome = model.play(chapters(stop={"tolerance": 0}))
    assert (outcome.best.scored.draft.text, outcome.reason) == ("One.\n\nTwo.", None)


def test_without_any_part_the_first_failure_is_told() -> None:
    with pytest.raises(StepError) as failed:
        judged_by(good, [GONE, Stopped()]).play(chapters())
    assert failed.value.code == "model_unavailable"


def test_a_whole_that_cannot_be_judged_any_more_has_the_score_of_its_lowest_part() -> None:
    model = judged_by(lambda path, _: 0.95 if "one" in path else 0.85, ["One.", "Two."])
    outcome = refused_from("iterations/1/critique", model).play(chapters())
    assert (outcome.score_from, outcome.best.scored.score) == ("parts", 0.85)
    assert outcome.best.scored.draft.text == "One.\n\nTwo."
    assert (outcome.reason, outcome.passed) == (None, False)
    assert judged(model)[-1] == "iterations/1"


def test_validators_are_for_the_whole_even_when_no_critic_is_left() -> None:
    long = Finding(source="validators/0", kind="length", message="too long")
    model = judged_by(good, ["One.", "Two."])
    model.check = lambda draft: (long,)
    asked = chapters(validators=[{"kind": "length", "max_words": 1}])
    outcome = refused_from("iterations/1/critique", model).play(asked)
    assert outcome.best.scored.findings == (long,)
    assert not [path for path in model.paths if path.startswith("parts") and "check" in path]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"draft": "given"}, "requires either a `draft`"),
        ({"strategy": {"kind": "nested"}}, "requires either a `draft`"),
        ({"strategy": {"kind": "nested", "parts": [ONE, ONE]}}, "same name"),
        (
            {"strategy": {"kind": "nested", "parts": [ONE], "body": {"kind": "best_of_n", "n": 4}}},
            "max_iterations must be at least",
        ),
        ({"strategy": {"kind": "nested", "parts": [ONE], "body": {"kind": "nested"}}}, "body"),
    ],
)
def test_what_cannot_be_nested_is_refused(fields: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        chapters(**fields)


def test_no_two_drafts_have_one_path_when_the_joined_one_cannot_be_judged() -> None:
    model = judged_by(lambda path, _: 0.6 if path.endswith("1/critique") else 0.5, ["A.", "B."])
    model.reviewer = iter(
        [ReviewerReply("replace", draft=CHAPTERS.upper()), ReviewerReply("rate", score=0.7)]
    )
    refused_from("iterations/2/critique", model)
    fields = {"review": {"when": "each_iteration"}, "draft": CHAPTERS}
    outcome = model.play(request(strategy={"kind": "nested", "max_iterations": 1}, **fields))
    assert (outcome.best.path, outcome.score_from) == ("iterations/2", "parts")
    assert [path for path in judged(model) if path.startswith("iterations/")] == [
        "iterations/0",
        "iterations/1",
        "iterations/1",
        "iterations/2",
    ]  # 1 is told again with the reviewer's score
