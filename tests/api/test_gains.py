"""What each draft added to the score, from journals of whole refinements."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.contract.drafts import Escape
from app.contract.events import (
    Event,
    EventData,
    EventType,
    IterationCompleted,
    Queued,
    StepCompleted,
    TextReply,
    unvoided,
)
from app.contract.judgement import CriterionScore, QualityEstimate, ScoreFrom, Usage
from app.contract.limits import Limits
from app.contract.requests import RefinementRequest
from app.contract.snapshot import Best, Result
from app.contract.statistics import Gains, gains_of
from app.contract.status import Caveat
from app.service.report import Story, gains_in
from app.store.redis.codec import decoded_event
from tests.api.test_report_sections import QUEUED, sections, snapshot

JOURNALS = Path(__file__).parent / "journals"
"""The summary, the request and the stream of refinements, as Redis had them at the end."""
LIMITS = Limits(threshold=0.85, max_iterations=3)
AT = datetime(2026, 5, 4, 6, 30, tzinfo=UTC)
ASKED = Usage(calls=1, input_tokens=90, output_tokens=10, cost_usd=0.002, seconds=1.5)


def of_journal(name: str) -> tuple[Gains, list[Event]]:
    """Return the gains of a refinement whose journal was kept, and its events."""
    stored = json.loads((JOURNALS / f"{name}.json").read_text())
    entries = [
        decoded_event(at.encode(), {k.encode(): v.encode() for k, v in entry.items()}, b"")
        for at, entry in stored["journal"][:-1]
    ]
    events = [entry for entry in entries if entry is not None]
    judged = [
        event.data for event in unvoided(events) if isinstance(event.data, IterationCompleted)
    ]
    steps = [event.data for event in events if isinstance(event.data, StepCompleted)]
    result = Result.model_validate_json(stored["summary"]["result"])
    return gains_of(judged, steps, result.path, result.missing), events


WHAT_ADDED = {
    "iterative": ("revision +0.30", "revision -0.10 not kept"),
    "best-of-n": (
        "sample +0.20",
        "sample +0.10 not kept",
        "revision +0.10",
        "revision -0.05 not kept",
    ),
    "edits": ("edits +0.10", "edits +0.10", "revision +0.10"),
    "self-correction": ("revision +0.50", "revision +0.50"),
    "multi-pass": (
        "passes/structure/revision +0.05",
        "passes/style/revision +0.05",
        "joined +0.05",
    ),
    "multi-pass-before-completion": (
        "passes/style/revision +0.05",
        "joined +0.05",
        "reviews/revision +0.00",
        "reviews/reviewer +0.00",
    ),
    "nested-each-draft-of-the-whole": (
        "reviewer +0.05",
        *("parts/revision +0.05",) * 4,
        "joined +0.05",
        "revision +0.05",
    ),
    "stepwise": ("stages/revision +0.10", "stages/revision +0.10"),
    "self-consistency": (),
    "critique": (),
}


@pytest.mark.parametrize("name", WHAT_ADDED)
def test_every_draft_is_compared_with_the_one_that_it_came_of(name: str) -> None:
    found, _ = of_journal(name)
    shown = (
        f"{draft.step} {draft.change:+.2f}{'' if draft.is_kept else ' not kept'}"
        for draft in found.drafts
    )
    assert tuple(shown) == WHAT_ADDED[name]


@pytest.mark.parametrize("name", WHAT_ADDED)
def test_the_gains_of_a_line_of_drafts_add_up_to_the_change_of_the_whole(name: str) -> None:
    found, _ = of_journal(name)
    whole = [
        draft.gain for draft in found.drafts if draft.search == "" or "reviews" in draft.search
    ]
    if found.change is not None:
        assert sum(whole) == pytest.approx(found.change)


def test_what_drafts_cost_adds_up_to_the_steps_of_their_iterations() -> None:
    found, _ = of_journal("multi-pass")
    *passes, whole = found.drafts
    assert [draft.usage.calls for draft in found.drafts] == [2, 2, 1]
    assert [draft.parts.calls for draft in passes] == [0, 0]
    assert whole.parts.calls == 6  # two drafts given to a pass are judged there as well


@dataclass
class JournalByHand:
    """A journal that is written down draft by draft."""

    events: list[Event]
    paths: list[str]

    @classmethod
    def empty(cls) -> "JournalByHand":
        return cls([], []).with_(QUEUED, EventType.QUEUED)

    def with_(self, data: EventData, kind: EventType) -> "JournalByHand":
        self.events.append(Event(event=len(self.events) + 1, type=kind, at=AT, data=data))
        return self

    def asked(self, key: str, model: str, usage: Usage = ASKED) -> "JournalByHand":
        step = StepCompleted(
            about="0" * 16,
            key=key,
            kind="ask",
            reply=TextReply(text="x"),
            model=model,
            usage=usage,
            seconds=1.5,
            next=(),
        )
        return self.with_(step, EventType.STEP_COMPLETED)

    def judged(
        self,
        path: str,
        parent: str | None,
        *scores: float | None,
        best: str = "",
        score_from: ScoreFrom = "critique",
        spread: float | None = None,
        escape: Escape | None = None,
        sha256: str = "",
    ) -> "JournalByHand":
        known = [value for value in scores if value is not None]
        number = int(path.rpartition("/")[2])
        score = sum(known) / len(known) if known else None
        given = tuple(
            CriterionScore(criterion=f"criterion {n}", score=value, spread=spread)
            for n, value in enumerate(scores)
        )
        data = IterationCompleted(
            iteration=number,
            path=path,
            sha256=sha256 or path,
            parent=parent,
            score=score,
            score_from=score_from,
            scores=given,
            passed=False,
            findings=(),
            strengths=(),
            weaknesses=(),
            suggestions=(),
            asked=(),
            escape=escape,
            best=Best(iteration=number, path=best or path, score=score, sha256="0"),
            limits=LIMITS,
        )
        self.paths.append(path)
        return self.with_(data, EventType.ITERATION_COMPLETED)

    def told(self, result: str = "", missing: Sequence[str] = ()) -> Story:
        """Return the story that ends with the draft at `result`, by default the last one."""
        path = result or self.paths[-1]
        detail = "no text was written for it"
        caveats = tuple(Caveat(code="text_missing", path=at, detail=detail) for at in missing)
        ended = Result(draft="x", iteration=1, path=path, score=0.5, sha256="0", caveats=caveats)
        queued = self.events[0].data
        assert isinstance(queued, Queued)
        return Story(snapshot(result=ended), RefinementRequest(draft="x"), tuple(self.events), ())


def ending_with(story: Story, **fields: object) -> Story:
    """Return the story with these fields of its result."""
    assert story.snapshot.result is not None
    result = story.snapshot.result.model_copy(update=fields)
    return replace(story, snapshot=story.snapshot.model_copy(update={"result": result}))


def two_revisions() -> JournalByHand:
    """Return a journal of a draft and two revisions of it; the first revision is the result."""
    journal = JournalByHand.empty()
    for number, (parent, *scores) in enumerate(
        ((None, 0.2, 0.6), ("iterations/1", 0.6, 0.6), ("iterations/2", 0.5, 0.3)), 1
    ):
        path = f"iterations/{number}"
        journal.asked(f"{path}/{'revise' if parent else 'draft'}", f"openai:m{number}")
        journal.asked(f"{path}/critique", "openai:judge")
        journal.judged(path, parent, *scores, best="iterations/2" if number > 1 else "")
    return journal


def gains_shown(story: Story) -> str:
    """Return the section of a report on what raised the score."""
    return sections(story, "## What raised the score")


def test_a_report_says_what_raised_the_score_and_what_was_spent_in_vain() -> None:
    shown = gains_shown(two_revisions().asked("outputs/subject", "openai:m1").told("iterations/2"))
    assert shown.startswith(
        "## What raised the score\n\nThe score went from 0.40 at `iterations/1` to 0.60 at"
        " `iterations/2`: **+0.20**. Of 2 drafts with an earlier one to compare with, 1 went into"
        " the result.\n\nA difference of two scores is not yet a difference in quality"
    )
    assert "| `iterations/2` | `iterations/1` | revision | openai:m2 | +0.20 | +0.20 | 2 |" in shown
    assert "| `iterations/3` | `iterations/2` | revision | openai:m3 | -0.20 | not kept |" in shown
    cost = ("100", "0.0020", "1.5")
    assert "| criterion 0 | 0.20 | 0.60 | +0.40 |" in shown
    assert "| criterion 1 | 0.60 | 0.60 | 0.00 |" in shown
    assert "| drafts without gain: not kept | 2 | 200 | 0.0040 | 3.0 |" in shown
    assert f"| everything else | 1 | {' | '.join(cost)} |" in shown


def test_a_report_compares_the_models_by_what_their_drafts_added_on_average() -> None:
    shown = gains_shown(two_revisions().told("iterations/2"))
    _, _, by_model = shown.partition("### By model\n\n")
    rows = by_model.splitlines()[2:4]
    assert rows == [
        "| openai:m2 | 1 | 1 | +0.20 | 2 | 200 | 0.0040 | 3.0 |",
        "| openai:m3 | 1 | 0 | 0.00 | 2 | 200 | 0.0040 | 3.0 |",
    ]


def test_scores_of_the_editor_are_exact_and_others_are_said_to_be_noisy() -> None:
    def judged_by(critic: str) -> str:
        journal = JournalByHand.empty().judged("iterations/0", None, 0.2)
        journal.asked("iterations/1/revise", "m").asked("iterations/1/critique", critic)
        return gains_shown(journal.judged("iterations/1", "iterations/0", 0.4).told())

    assert "difference in quality" not in judged_by("offline:editor")
    assert "difference in quality" in judged_by("openai:gpt")


def test_an_estimate_of_the_result_is_shown_beside_its_score() -> None:
    story = two_revisions().told("iterations/2")
    assert "probably" not in gains_shown(story)
    estimate = QualityEstimate(value=0.55, error=0.06, chance=0.123)
    story = ending_with(story, estimate=estimate)
    assert "is probably 0.55, with a standard error of 0.06; the threshold" in gains_shown(story)
    assert "with a probability of 12 %." in gains_shown(story)


def test_scores_that_measure_something_else_are_not_compared() -> None:
    journal = JournalByHand.empty().judged("iterations/0", None, 0.2)
    journal.judged("iterations/1", "iterations/0", 0.4, score_from="review")
    journal.judged("iterations/2", "iterations/1", 0.4, 0.4)
    journal.judged("iterations/3", "iterations/2", None, None)
    assert gains_in(journal.told()).drafts == ()
    assert gains_shown(journal.told()) == ""


def test_a_criterion_that_was_not_measured_has_no_gain() -> None:
    journal = JournalByHand.empty().judged("iterations/0", None, 0.2, None)
    journal.judged("iterations/1", "iterations/0", 0.4, 0.4)
    (draft,) = gains_in(journal.told()).drafts
    assert draft.criteria == {"criterion 0": 0.2}


def test_a_critics_score_counts_and_not_the_reviewers_instead() -> None:
    journal = JournalByHand.empty().judged("iterations/0", None, 0.2)
    journal.judged("iterations/1", "iterations/0", 0.4)
    journal.judged("iterations/1", "iterations/0", 0.9, score_from="review")
    (draft,) = gains_in(journal.told()).drafts
    assert draft.change == pytest.approx(0.2)


def test_a_part_that_is_missing_from_the_result_brought_nothing() -> None:
    journal = JournalByHand.empty()
    for part in ("parts/a", "parts/b"):
        journal.judged(f"{part}/iterations/0", None, 0.2)
        journal.judged(f"{part}/iterations/1", f"{part}/iterations/0", 0.4)
    journal.judged("iterations/1", None, 0.4)
    kept = {draft.path: draft.gain for draft in gains_in(journal.told(missing=["parts/b"])).drafts}
    assert kept == {"parts/a/iterations/1": pytest.approx(0.2), "parts/b/iterations/1": 0}


def test_a_stage_that_was_given_up_brought_nothing_unless_its_text_is_the_result() -> None:
    journal = JournalByHand.empty()
    for stage in ("stages/a", "stages/b"):
        journal.judged(f"{stage}/iterations/0", None, 0.2)
        journal.judged(f"{stage}/iterations/1", f"{stage}/iterations/0", 0.4)
    story = journal.told(result="stages/a/iterations/1")
    given_up = Caveat(code="stage_given_up", path="stages/b", detail="did not pass")
    found = gains_in(ending_with(story, caveats=(given_up,)))
    assert [draft.is_kept for draft in found.drafts] == [True, False]
    story = journal.judged("iterations/1", None, 0.4, sha256="stages/b/iterations/1").told()
    found = gains_in(ending_with(story, caveats=(given_up,)))
    assert [draft.is_kept for draft in found.drafts] == [True, True]


def test_what_was_tried_in_a_standstill_is_a_step_of_its_own() -> None:
    journal = (
        JournalByHand.empty().asked("iterations/1/draft", "m").judged("iterations/1", None, 0.2)
    )
    journal.asked("iterations/2/draft", "m")
    journal.judged("iterations/2", None, 0.4, escape="fresh_draft")
    (draft,) = gains_in(journal.told()).drafts
    assert (draft.step, draft.base) == ("fresh_draft", "iterations/1")


def test_a_draft_that_a_reviewer_went_back_behind_brought_nothing() -> None:
    journal = JournalByHand.empty().judged("iterations/0", None, 0.2)
    journal.judged("iterations/1", "iterations/0", 0.4)
    journal.judged("reviews/1/iterations/1", "iterations/0", 0.3)
    kept = {draft.path: draft.is_kept for draft in gains_in(journal.told()).drafts}
    assert kept == {"iterations/1": False, "reviews/1/iterations/1": True}


def test_of_several_models_that_wrote_a_draft_the_last_one_counts() -> None:
    journal = JournalByHand.empty().judged("iterations/0", None, 0.2)
    journal.asked("iterations/1/revise", "openai:cut-off")
    journal.asked("iterations/1/revise/again/1", "openai:other")
    journal.judged("iterations/1", "iterations/0", 0.4)
    (draft,) = gains_in(journal.told()).drafts
    assert (draft.writer, draft.usage.calls) == ("openai:other", 2)


def test_before_the_end_the_best_draft_counts_as_the_result() -> None:
    unended = two_revisions().events
    story = Story(snapshot(result=None), RefinementRequest(draft="x"), tuple(unended), ())
    assert [draft.is_kept for draft in gains_in(story).drafts] == [True, False]
