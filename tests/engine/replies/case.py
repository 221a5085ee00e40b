"""One reply and what is read from it, and how a reply is read."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.contract.judgement import Criterion, Critique
from workers.engine.asking import text_in
from workers.engine.drafting import edits_in
from workers.engine.judging import critique_reader
from workers.engine.pipeline import criteria_in, preference_in
from workers.engine.prompts import Judge, PromptRequest, Revise, Task, Write
from workers.engine.replies.reader import Doubtful, Refused, ReplyReader, Unreadable
from workers.engine.strategies.plan_execute import plan_reader
from workers.engine.strategies.reasoning_revision import first_faulty_in
from workers.engine.strategies.self_consistency import groups_in
from workers.engine.verification import contradictions_in, questions_in

NONCE = "4f0c2e"
TASK = "Explain our refund policy to customers."
DRAFT = "Refunds take 14 days. Send the goods back soon, unopened."
CRITERIA = (Criterion(name="clarity", description="Is it clear?"), Criterion(name="tone"))
ANSWERED = (("How long?", "30 days."), ("What?", "Unopened goods."))


@dataclass(frozen=True)
class Again:
    """The reply is asked for again, with this in the reason."""

    reason: str = ""


@dataclass(frozen=True)
class Refuses:
    """The reply is a refusal: asked for again once, then the step fails as `model_refused`."""


@dataclass(frozen=True)
class Doubted:
    """The reply is asked for again once, and read like this if it comes again."""

    read: Any


@dataclass(frozen=True)
class Dropped:
    """The reply is read, and so many items of it are dropped."""

    read: Any
    items: int


@dataclass(frozen=True)
class Case:
    """A reply to a request of a kind, and what must come of it.

    `task` and `base` are what a request for a text was about; without `base` it is a first draft.
    """

    family: str
    kind: str
    name: str
    raw: str
    expected: Any
    task: str = TASK
    base: str | None = None

    @property
    def asked(self) -> PromptRequest:
        """The request that the reply answers."""
        task = Task(self.task, None, CRITERIA, nonce=NONCE)
        if self.kind == "text" and self.base is None:
            return Write(task)
        if self.kind == "text":
            return Revise(task, self.base or "", (), Critique(scores=()), ())
        return Judge(task, DRAFT)


def _scores(reply: ReplyReader) -> tuple[float | None, ...]:
    return tuple(it.score for it in critique_reader(CRITERIA, DRAFT)(reply).scores)


def _faulty(reply: ReplyReader) -> int | None:
    step = first_faulty_in(2)(reply)
    return None if step is None else step.step


READERS: Mapping[str, Callable[[ReplyReader], Any]] = {
    "text": text_in,
    "critique": _scores,
    "questions": questions_in(DRAFT, 5),
    "contradictions": lambda it: tuple(f.quote for f in contradictions_in(DRAFT, ANSWERED)(it)),
    "checklist": lambda it: tuple(criterion.name for criterion in criteria_in(it)),
    "edits": lambda it: tuple(edit.search for edit in edits_in(it)),
    "vote": groups_in(3),
    "preference": lambda it: preference_in(it).better,
    "steps": _faulty,
    "plan": lambda it: tuple(s.instruction for s in plan_reader(["look_up"])(it).steps),
}


def outcome_of(case: Case) -> Any:
    """Return what is read from a reply, in the form of what is expected of a case."""
    reply = ReplyReader(case.raw, case.asked)
    try:
        read = READERS[case.kind](reply)
    except Refused:
        return Refuses()
    except Doubtful:
        return Doubted(READERS[case.kind](replace(reply, is_again=True)))
    except Unreadable as error:
        return Again(str(error))
    return Dropped(read, len(reply.dropped)) if reply.dropped else read


def is_as_expected(case: Case, outcome: Any) -> bool:
    """Return whether the outcome is the expected one; of a reason, a part is expected.

    What is content may be doubted, as it is read in the end.
    """
    if isinstance(outcome, Doubted) and case.family == "content":
        outcome = outcome.read
    if isinstance(case.expected, Again):
        return isinstance(outcome, Again) and bool(re.search(case.expected.reason, outcome.reason))
    return bool(outcome == case.expected)
