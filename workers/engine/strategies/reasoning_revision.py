"""Reason in numbered steps; redo the first faulty step and those after it."""

from collections.abc import Callable
from functools import partial

from app.contract.judgement import Finding, OnFail, Span
from app.contract.limits import Limits
from app.contract.strategies.reasoning import (
    STEP,
    Chain,
    NotAChain,
    ReasoningRevisionStrategy,
    chain_of,
    steps_from,
)
from workers.engine.asking import ask, question, text_in
from workers.engine.calculator import Calculation, calculations_in
from workers.engine.drafting import (
    RevisionBase,
    WrittenText,
    in_place_of,
    kept_locked,
    usual_line_end,
)
from workers.engine.judging import judge
from workers.engine.moves import Draft, Scored
from workers.engine.prompts import Reason, Redo, Task
from workers.engine.replies.reader import ReplyModel, ReplyReader, Unreadable
from workers.engine.reviewing import ReviewPolicy
from workers.engine.search import Outcome
from workers.engine.verification import (
    SOURCE,
    UNREADABLE,
    CheckSteps,
    Verification,
    verified,
    verified_search,
)

UNREADABLE_STEPS = "unreadable_steps"
CALCULATOR = "calculator"
MOST_RESULTS = 100
"""Equations whose calculated results a critic reads."""


class _Step(ReplyModel):
    step: int
    why: str
    correct: bool


class _Checked(ReplyModel):
    why: str
    correct: bool


class _EachStep(ReplyModel):
    """A verdict by step, `s1` and so on, or a list of them."""

    steps: dict[str, _Checked] | list[_Step]


async def reasoned(task: Task) -> Draft:
    """Write a first chain of steps."""
    asked = question("draft", "generator", Reason(task))
    written = await ask(asked, _chained, UNREADABLE_STEPS)
    return Draft(written.text, is_reply=written.is_reply)


async def judge_and_check(plan: ReasoningRevisionStrategy, task: Task, draft: Draft) -> Scored:
    """Return a chain with its verdict and with its first faulty step as a finding."""
    scored = await judge(task, draft)
    check = faults(task, scored.draft.text, calculates=plan.calculator)
    return await verified(task, scored, check, "verify")


async def faults(task: Task, text: str, *, calculates: bool = False) -> Verification:
    """Return the first faulty step of a chain as a finding; none when every step is correct.

    The critic finds it, or a calculator does, if it `calculates`, in an earlier step with a wrong
    equation. A text that is not a chain is one finding. Raises `StepError` when the verdict stays
    unreadable.
    """
    try:
        chain = chain_of(text)
    except NotAChain as error:
        fix = "number the steps 1, 2, 3 ... at the start of lines"
        return Verification((_fault("steps", str(error), fix),))
    count = len(chain.starts)
    calculated = _calculated(chain) if calculates else ()
    results = "\n".join(
        f"step {step}: {calculation}" for step, calculation in calculated[:MOST_RESULTS]
    )
    asked = question("verify", "critic", CheckSteps(task, text, count, results))
    faulty = await ask(asked, first_faulty_in(count), UNREADABLE)
    last = count if faulty is None else faulty.step
    wrong = [each for each in calculated if not each[1].is_right and each[0] <= last]
    if wrong:
        step, calculation = wrong[0]
        fix = f"calculate anew from {calculation.left} = {calculation.value}"
        found = _fault(f"step {step}", str(calculation), fix, _span(chain, step), CALCULATOR)
    elif faulty is not None:
        found = _fault(f"step {faulty.step}", faulty.why, None, _span(chain, faulty.step))
    else:
        return Verification()
    return Verification((found,))


def _calculated(chain: Chain) -> tuple[tuple[int, Calculation], ...]:
    """Return the equations in the steps, each with the number of its step."""
    return tuple(
        (step, calculation)
        for step, start in enumerate(chain.starts, 1)
        for calculation in calculations_in(
            STEP.sub("", chain.text[start : chain.ends(step)], count=1)
        )
    )


def _span(chain: Chain, step: int) -> Span:
    return Span(start=chain.starts[step - 1], end=chain.ends(step))


async def redone(task: Task, base: RevisionBase) -> Draft:
    """Return the chain with its first faulty step and all later steps redone.

    Without a faulty step, nothing says which steps to keep: then all are redone.
    """
    text, critique, failing = base.text, base.scored.critique, base.failing(task)
    first, kept = _kept(base.scored)
    prompt_request = Redo(task, kept, text[len(kept) :], first, failing, critique, base.tried)
    asked = question("revise", "generator", prompt_request)
    steps = await ask(asked, _steps_from(first), UNREADABLE_STEPS)
    new = kept + in_place_of(text[len(kept) :], steps, usual_line_end(text))
    draft = Draft(new, base.path, failing)
    return kept_locked(task, text, draft)


def _kept(scored: Scored) -> tuple[int, str]:
    """Return the number of the first step to redo, and the text before it."""
    try:
        chain = chain_of(scored.draft.text)
    except NotAChain:
        return 1, ""
    first = _first_fault(chain, scored.findings)
    return first, chain.before(first)


def _first_fault(chain: Chain, findings: tuple[Finding, ...]) -> int:
    sources = (SOURCE, CALCULATOR)
    spans = [
        finding.span
        for finding in findings
        if finding.source in sources and finding.span is not None
    ]
    return chain.step_at(spans[0].start) if spans else 1


def _fault(
    kind: str,
    message: str,
    fix: str | None,
    span: Span | None = None,
    source: str = SOURCE,
) -> Finding:
    return Finding(
        source=source, kind=kind, message=message, fix=fix, span=span, on_fail=OnFail.VETO
    )


def _chained(reply: ReplyReader) -> WrittenText:
    text = text_in(reply)
    try:
        chain_of(text)
    except NotAChain as error:
        raise Unreadable(str(error)) from None
    return WrittenText.of(text, reply)


def _steps_from(first: int) -> Callable[[ReplyReader], str]:
    def read(reply: ReplyReader) -> str:
        try:
            return steps_from(text_in(reply), first)
        except NotAChain as error:
            raise Unreadable(str(error)) from None

    return read


def first_faulty_in(count: int) -> Callable[[ReplyReader], _Step | None]:
    """Return a function that reads a verdict on every step up to the first faulty one."""

    def read(reply: ReplyReader) -> _Step | None:
        said = _verdicts(reply)
        faulty = next((verdict for verdict in said if not verdict.correct), None)
        last = count if faulty is None else faulty.step
        numbers = [verdict.step for verdict in (said if faulty is None else said[: max(last, 0)])]
        if not 1 <= last <= count or numbers != list(range(1, last + 1)):
            raise Unreadable(
                f"say of each step from 1 to {count} in order whether it is correct, or"
                " stop after the first that is not"
            )
        return faulty

    return read


def _verdicts(reply: ReplyReader) -> list[_Step]:
    said = reply.read_as(_EachStep).steps
    if isinstance(said, list):
        return said
    return [
        _Step(step=number, why=verdict.why, correct=verdict.correct)
        for number, (name, verdict) in enumerate(said.items(), 1)
        if name == f"s{number}"
    ]


async def reasoning_revision(
    task: Task, limits: Limits, plan: ReasoningRevisionStrategy
) -> Outcome:
    """Reason in numbered steps, find the first faulty one, and redo only it and what follows.

    Models miss their own errors, but correct an error whose place is given (arXiv:2311.08516); step
    by step: StepCo (arXiv:2410.12934), process supervision (arXiv:2305.20050). The steps before the
    faulty one stay byte for byte. Equations are calculated, which needs no model. If no step is
    faulty and the chain fails for another reason, nothing says which steps to keep: all are redone.
    An iteration costs 3 calls.
    """
    return await verified_search(task, limits, review_policy(plan))


def review_policy(plan: ReasoningRevisionStrategy) -> ReviewPolicy:
    """Check the steps of drafts that a reviewer asks for; redo them from the first faulty one."""
    return ReviewPolicy(partial(judge_and_check, plan), first=reasoned, revised=redone)
