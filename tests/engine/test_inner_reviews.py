"""Reviews of stages, passes and parts: what each decision does to what follows."""

from typing import Any

import pytest

from app.contract.status import StopReason
from tests.engine.engine_driver import (
    EngineDriver,
    drafts,
    driver_scoring,
    judged_by,
    request,
    verdict,
)
from workers.engine.moves import Rejected, Review, ReviewerReply, Stopped, first_of
from workers.engine.search import Outcome

EACH, BEFORE = {"when": "each_iteration"}, {"when": "before_completion"}
APPROVE, REJECT = ReviewerReply("approve"), ReviewerReply("reject")
OURS = ReviewerReply("replace", draft="We refund within 14 days.")
MORE = ReviewerReply("revise", feedback="Name the deadline.")
STAGES = [{"name": "outline", "review": BEFORE, "max_iterations": 1}, {"name": "text"}]


def played(strategy: dict[str, Any], *words: ReviewerReply) -> tuple[Outcome, EngineDriver]:
    model = judged_by(lambda path, _: 0.5, drafts())
    model.reviewer = iter(words)
    return model.play(request(strategy=strategy, threshold=0.9, max_iterations=1)), model


def reviews(model: EngineDriver) -> list[tuple[str, str]]:
    """Return the key of each review with the path of its draft."""
    return [(it.path, it.draft_path) for it in model.moves if isinstance(it, Review)]


def test_an_outline_that_is_approved_is_written_out_though_it_misses_the_threshold() -> None:
    outcome, model = played({"kind": "stepwise", "stages": STAGES}, MORE, APPROVE)
    assert reviews(model) == [
        ("stages/outline/reviews/1", "stages/outline/iterations/1"),
        ("stages/outline/reviews/2", "stages/outline/reviews/1/iterations/1"),
    ]
    assert "stages/text/iterations/1/draft" in model.paths
    assert [(it.code, it.path) for it in outcome.caveats] == [("stage_given_up", "stages/text")]


def test_what_a_reviewer_puts_in_the_place_of_an_outline_is_what_the_next_stage_is_given() -> None:
    _, model = played({"kind": "stepwise", "stages": STAGES}, OURS, APPROVE)
    written, *_ = [it for it in model.asked("generator") if it.path.startswith("stages/text/")]
    (outline,) = [it for it in written.prompt_request.task.context if it.name == "outline"]
    assert outline.text == OURS.draft


def test_a_first_stage_that_is_rejected_ends_the_work() -> None:
    with pytest.raises(Rejected):
        played({"kind": "stepwise", "stages": STAGES}, REJECT)


def test_a_later_stage_that_is_rejected_leaves_the_text_before_it() -> None:
    last = {"name": "polish", "mode": "revise", "review": EACH}
    stages = [{"name": "text", "threshold": 0.1}, last]
    outcome, model = played({"kind": "stepwise", "stages": stages}, REJECT)
    assert [it.detail for it in outcome.caveats] == ["a reviewer rejected it"]
    assert outcome.missing == ("stages/polish",)
    assert outcome.best.scored.draft.text == next(drafts())
    assert reviews(model) == [("stages/polish/iterations/0/review", "stages/polish/iterations/0")]


def test_a_pass_that_is_rejected_leaves_the_text_before_it() -> None:
    passes = [{"focus": "style", "review": BEFORE}, {"focus": "format"}]
    model = judged_by(lambda path, _: 0.5, drafts())
    model.reviewer = iter([REJECT])
    given = request(draft="As it was.", strategy={"kind": "multi_pass", "passes": passes})
    outcome = model.play(given)
    (revised,) = [it for it in model.asked("generator") if it.path.startswith("passes/format/")]
    assert "As it was." in revised.prompt.user
    assert outcome.missing == ("passes/style",)


def test_a_part_that_is_rejected_is_missing_and_the_others_are_joined() -> None:
    parts = [{"name": it, "instructions": "Some."} for it in ("one", "two")]
    strategy = {"kind": "nested", "parts": parts, "max_iterations": 1, "review": EACH}
    outcome, model = played(strategy, APPROVE, REJECT)
    assert [it for it, _ in reviews(model)] == [
        f"parts/{it}/iterations/1/review" for it in ("one", "two")
    ]
    assert (outcome.missing, outcome.passed) == (("parts/two",), False)
    assert outcome.reason is StopReason.INCOMPLETE


def test_a_review_has_the_plan_of_the_innermost_item_and_none_is_handed_down() -> None:
    inner = {"kind": "stepwise", "stages": [{"name": "a", "threshold": 0.1, "review": BEFORE}]}
    parts = [{"name": "one", "instructions": "Some."}]
    outer = {"when": "before_completion", "reviewers": ["ann"]}
    strategy = {"kind": "nested", "parts": parts, "body": inner, "review": outer}
    _, model = played(strategy, APPROVE, APPROVE)
    plans = {it.path: it.plan for it in model.moves if isinstance(it, Review)}
    assert [*plans] == ["parts/one/stages/a/reviews/1", "parts/one/reviews/1"]
    assert [it.reviewers for it in plans.values() if it] == [(), ("ann",)]


def test_the_first_of_several_rejections_is_one() -> None:
    assert isinstance(first_of([Rejected(), Rejected()]), Rejected)


def staged(threshold: float, **outline: Any) -> dict[str, Any]:
    """Three stages, of which the first is reviewed; its body may say more."""
    first = {"name": "a", "review": BEFORE, "max_iterations": 1, "threshold": threshold, **outline}
    return {"kind": "stepwise", "stages": [first, {"name": "b"}, {"name": "c"}]}


def parted(**body: Any) -> dict[str, Any]:
    parts = [{"name": it, "instructions": "Some."} for it in ("one", "two")]
    return {"kind": "nested", "parts": parts, "max_iterations": 1, **body}


LATER = ("stages/b", "stages/c")


@pytest.mark.parametrize(
    ("strategy", "missing"),
    [
        (staged(0.9), LATER),
        (staged(0.1), LATER),
        (
            parted(body=staged(0.9)),
            ("parts/two", *(f"parts/one/{it}" for it in LATER)),
        ),
        (staged(0.9, body=parted()), ("stages/a/parts/two", *LATER)),
        (staged(0.9, body=staged(0.1)), (*(f"stages/a/{it}" for it in LATER), *LATER)),
        (
            {
                "kind": "multi_pass",
                "passes": [{"focus": "style", "review": BEFORE}, {"focus": "facts"}],
            },
            ("passes/facts",),
        ),
        (
            {
                "kind": "multi_pass",
                "passes": [{"focus": "style", "body": staged(0.9)}, {"focus": "facts"}],
            },
            (*(f"passes/style/{it}" for it in LATER), "passes/facts"),
        ),
    ],
)
def test_a_finish_during_a_review_leaves_out_what_never_began(
    strategy: dict[str, Any], missing: tuple[str, ...]
) -> None:
    model = driver_scoring()
    gone = [Stopped() for _ in range(9)]
    names = ["style"] if strategy["kind"] == "multi_pass" else ["quality"]
    model.critic = iter([verdict(0.3, names=names), *gone])
    model.writer = iter([next(drafts()), *gone])
    model.reviewer = iter(gone)
    outcome = model.play(request(strategy=strategy, threshold=0.9, max_iterations=1))
    assert (outcome.missing, outcome.reason, outcome.passed) == (missing, None, False)


def test_a_finish_while_a_later_stage_is_written_leaves_out_those_after_it_too() -> None:
    gone = [Stopped() for _ in range(4)]
    model = driver_scoring(0.3, *gone, writer=[next(drafts()), *gone])
    strategy = staged(0.1, review=None)
    outcome = model.play(request(strategy=strategy, threshold=0.9, max_iterations=1))
    assert (outcome.missing, outcome.reason) == (LATER, None)


@pytest.mark.parametrize(
    ("strategy", "given_up"),
    [
        (staged(0.9), ["stages/a"]),
        (parted(review=BEFORE), ["parts/one", "parts/two"]),
        (parted(body=staged(0.9)), ["parts/one/stages/a", "parts/two/stages/a"]),
    ],
)
def test_a_rejection_that_ends_it_says_what_was_given_up(
    strategy: dict[str, Any], given_up: list[str]
) -> None:
    with pytest.raises(Rejected) as ended:
        played(strategy, REJECT, REJECT)
    told = [(it.code, it.path) for it in ended.value.caveats]
    assert told == [("stage_given_up", it) for it in given_up]
