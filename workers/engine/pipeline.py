"""Plays a whole request: checklist, strategy, review, comparison and further outputs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from inspect import iscoroutinefunction
from types import ModuleType
from typing import Any, Literal, Protocol

from pydantic import Field

from app.contract import plugins
from app.contract.drafts import locked_in_order
from app.contract.judgement import (
    AUTO,
    FEWEST_LISTED,
    LONGEST_NAME,
    LONGEST_QUESTION,
    MOST_LISTED,
    Comparison,
    Criterion,
    CriterionScore,
    Critique,
    Finding,
    Order,
    Side,
    Verdict,
)
from app.contract.limits import Limits
from app.contract.object_drafts import ObjectText
from app.contract.requests import Output, RefinementRequest
from app.contract.reviews import ReviewPlan
from app.contract.statistics import Learnt
from app.contract.status import Caveat, StopReason
from app.contract.strategies import STRATEGIES, Strategy
from app.contract.values import value
from app.contract.versions import ENGINE_VERSION, PLAYABLE
from workers.engine import strategies
from workers.engine.asking import ask, question, text_in
from workers.engine.drafting import RevisionBase
from workers.engine.judging import measures_of
from workers.engine.moves import (
    Ask,
    Draft,
    Heard,
    Judged,
    Move,
    MoveCoroutine,
    Refusal,
    Rejected,
    Scored,
    StepError,
    Stopped,
    Together,
    play_parts,
    relayed,
)
from workers.engine.prompts import (
    Compare,
    Derive,
    JsonDocument,
    Judge,
    ListCriteria,
    Prompt,
    Revise,
    Task,
)
from workers.engine.replies.reader import ReplyModel, ReplyReader, Unreadable, listed_in
from workers.engine.reviewing import ReviewPolicy, signed_off
from workers.engine.search import LimitOverrides, Outcome
from workers.engine.strict_schema import strict
from workers.engine.sub_search import below, given_up, informed, ruled

QUESTION_MARKS = ("?", "\uff1f", "\u061f", "\u037e")
"""Latin, full width, Arabic and Greek."""


class _Listed(ReplyModel):
    name: str = Field(min_length=1, max_length=LONGEST_NAME)
    description: str = Field(min_length=1, max_length=LONGEST_QUESTION)


async def with_checklist(task: Task) -> Task:
    """Return the task with 3 to 8 questions as criteria, listed by a critic before it judges.

    TICK (arXiv:2410.03608): a model that answers questions written for the task agrees with people
    more often than one that scores directly. Raises `StepError` (`unreadable_criteria`).
    """
    asked = question("criteria", "critic", ListCriteria(replace(task, criteria=())))
    return replace(task, criteria=await ask(asked, criteria_in, "unreadable_criteria"))


def criteria_in(reply: ReplyReader) -> tuple[Criterion, ...]:
    """Return the criteria of a reply. Raises `Unreadable` with what is wrong with it."""
    listed = listed_in(reply, "criteria", _Listed, "criterion")
    names: set[str] = set()
    criteria: list[Criterion] = []
    for item in listed:
        name = item.name.strip()
        if not name or name.casefold() in names:
            reply.drop("criterion", "every criterion needs a unique name")
        elif not item.description.rstrip().endswith(QUESTION_MARKS):
            reply.drop("criterion", f"the description of {item.name} is not a question")
        else:
            names.add(name.casefold())
            criteria.append(Criterion(name=name, description=item.description.strip()))
    if not FEWEST_LISTED <= len(criteria) <= MOST_LISTED:
        reasons = "; ".join(["", *(item.reason for item in reply.dropped)])
        raise Unreadable(
            f"criteria: it has {len(criteria)} of them, expected at least {FEWEST_LISTED}"
            f" and at most {MOST_LISTED}{reasons}"
        )
    return tuple(criteria)


UNREADABLE = "unreadable_comparison"


class _Preference(ReplyModel):
    reason: str
    better: Literal["A", "B", "tie"]


class _Preferred(ReplyModel):
    reason: str
    better: str


def preference_in(reply: ReplyReader) -> _Preference:
    """Return a preference, also of "Text A" or "a"."""
    said = reply.read_as(_Preferred)
    word = said.better.strip(" *_.`\"'").casefold().removeprefix("text ").removeprefix("draft ")
    better = {"a": "A", "b": "B", "tie": "tie"}.get(word)
    if better is None:
        raise Unreadable(f"better is {said.better[:80]!r}: expected A, B or tie")
    return _Preference.model_validate({"reason": said.reason, "better": better})


@value(slots=True)
class Earlier:
    """The draft that a result is compared with."""

    path: str
    text: str


async def compared_with_draft(task: Task, strategy: MoveCoroutine[Outcome]) -> Outcome:
    """Play a strategy and compare its result with the client's draft.

    Without a client's draft, the result is compared with the first draft that the outermost search
    judged. Equal texts are a tie. There is no comparison if the critic cannot be asked, or if its
    reply stays unreadable.
    """
    seen = [Earlier("iterations/0", task.draft)] if task.draft is not None else []
    outcome = await relayed(strategy, _noting(seen))
    result = outcome.best.scored.draft.text
    earlier = seen[0] if seen else Earlier(outcome.best.path, result)
    task = informed(task, outcome.observed)
    comparison = await _comparison(task, earlier, result)
    if comparison is None:
        missing = Caveat(code="item_dropped", path="compare", detail="there is no comparison")
        outcome = replace(outcome, caveats=(*outcome.caveats, missing))
    return replace(outcome, comparison=comparison)


async def _comparison(task: Task, earlier: Earlier, result: str) -> Comparison | None:
    if earlier.text == result:
        return Comparison(against=earlier.path, verdict="tie", orders=())
    parts = (
        _asked(task, "compare/1", "earlier", earlier.text, result),
        _asked(task, "compare/2", "result", result, earlier.text),
    )
    try:
        one, other = (await play_parts("compare", parts)).replies
    except (Stopped, StepError):
        return None
    if one is None or other is None:
        return None
    return Comparison(against=earlier.path, verdict=_verdict(one, other), orders=(one, other))


def _noting(seen: list[Earlier]) -> Callable[[Move[Any]], Move[Any]]:
    """Return a relay function that records the first draft judged in the outermost search."""

    def outward(move: Move[Any]) -> Move[Any]:
        if isinstance(move, Judged) and not seen and move.path == move.judgement.path:
            seen.append(Earlier(move.path, move.judgement.scored.draft.text))
        return move

    return outward


async def _asked(task: Task, path: str, first: Side, a: str, b: str) -> Order:
    """Ask which of two texts is better; the critic does not see which one is the result."""
    asked = question(path, "critic", Compare(task, a, b))
    said = await ask(asked, preference_in, UNREADABLE)
    second: Side = "result" if first == "earlier" else "earlier"
    sides: dict[str, Side | Literal["tie"]] = {"A": first, "B": second, "tie": "tie"}
    return Order(first=first, better=sides[said.better], reason=said.reason)


def _verdict(one: Order, other: Order) -> Verdict:
    if one.better != other.better:
        return "undecided"
    verdicts: dict[str, Verdict] = {"result": "better", "earlier": "worse", "tie": "tie"}
    return verdicts[one.better]


async def with_outputs(task: Task, outputs: Sequence[Output], outcome: Outcome) -> Outcome:
    """Return the outcome with every further text; texts that fail are listed as missing."""
    text = outcome.best.scored.draft.text
    try:
        parts = [_derived(task, text, output) for output in outputs]
        made = (await play_parts("outputs", parts)).replies
    except (Stopped, StepError):
        made = (None,) * len(outputs)
    texts = {
        output.name: text for output, text in zip(outputs, made, strict=True) if text is not None
    }
    missing = tuple(f"outputs/{output.name}" for output in outputs if output.name not in texts)
    return replace(outcome, outputs=texts, missing=(*outcome.missing, *missing))


async def _derived(task: Task, text: str, output: Output) -> str:
    prompt_request = Derive(task, text, output.instructions)
    return await ask(
        question(f"outputs/{output.name}", "generator", prompt_request), text_in, "empty_text"
    )


StrategyFunction = Callable[[Task, Limits, Any], MoveCoroutine[Outcome]]


async def whole(
    request: RefinementRequest,
    task: Task,
    limits: Limits,
    strategy: StrategyFunction,
    policy: ReviewPolicy,
) -> Outcome:
    """Play a request from its checklist to its outputs, and return the outcome."""
    if request.criteria == AUTO:
        task = await with_checklist(task)
    if request.review and request.review.when == "each_iteration":
        task = replace(task, is_reviewed=True)
    played = _played(request, task, limits, strategy, policy)
    outcome = await (compared_with_draft(task, played) if request.compare else played)
    if request.outputs:
        outcome = await with_outputs(informed(task, outcome.observed), request.outputs, outcome)
    return outcome


async def _played(
    request: RefinementRequest,
    task: Task,
    limits: Limits,
    strategy: StrategyFunction,
    policy: ReviewPolicy,
) -> Outcome:
    """Play the strategy, and have its outcome reviewed if the request asks for that."""
    outcome = _returned(request.strategy, await strategy(task, limits, request.strategy))
    if request.review and request.review.when == "before_completion":
        outcome = await signed_off(request.strategy, policy, task, limits, outcome)
    return outcome.claiming(task.accepted)


def _returned(strategy: Strategy, found: Any) -> Outcome:
    """Return what a strategy returned. Raises TypeError if that is no outcome."""
    if not isinstance(found, Outcome):
        name = type(found).__name__
        raise TypeError(f"a strategy must return an Outcome: {strategy.kind} returned {name}")
    return found


def function_of(kind: str) -> StrategyFunction:
    """Return the function that plays a strategy.

    The function takes the task, the limits at the start, and the strategy's own parameters. Raises
    ImportError if the strategy is declared and not implemented.
    """
    module = _module(kind)
    function: StrategyFunction | None = getattr(module, kind, None)
    if not iscoroutinefunction(function):
        raise ImportError(f"{module.__name__} has no coroutine function {kind}")
    return function


def load_strategies() -> None:
    """Import every declared strategy. Raises ImportError if one is not implemented."""
    for kind in STRATEGIES:
        function_of(kind)


def review_policy_of(strategy: Strategy) -> ReviewPolicy:
    """Return how a draft that a reviewer asked for is judged and revised.

    Critics judge it unless the strategy's module defines `review_policy`.
    """
    own = getattr(_module(strategy.kind), "review_policy", None)
    policy: ReviewPolicy = ReviewPolicy() if own is None else own(strategy)
    return policy


@cache
def _module(kind: str) -> ModuleType:
    return plugins.playing_module(strategies.__name__, "strategies", kind)


def task_of(
    request: RefinementRequest,
    nonce: str,
    engine_version: int = ENGINE_VERSION,
    *,
    learnt: Learnt | None = None,
    is_exact: bool = False,
) -> Task:
    """Return what a request asks for; `nonce` stands in the tags around texts."""
    return Task(
        learnt=learnt,
        is_exact=is_exact,
        engine_version=engine_version,
        instruction=request.task,
        draft=request.draft,
        feedback=request.feedback,
        spans=request.marked(),
        criteria=request.judged_on(),
        context=request.context,
        critics=request.critics,
        tools=request.tools,
        edits=request.edits,
        locked=locked_in_order(request.draft, request.locked_texts),
        has_validators=bool(request.validators),
        demanding=sum(validator.counts_as() is None for validator in request.demanding()),
        measures=measures_of(request.validators),
        schemas=tuple(
            schema
            for validator in request.validators
            for schema in validator.json_schemas().values()
        ),
        nonce=nonce,
        grounding=request.grounding,
        instructions=request.instructions,
        checks=request.in_words(),
        accepted=frozenset(request.accept),
        whole=document_of(request),
        is_object=isinstance(request.draft, ObjectText),
        generators=1 + len(request.models.later_generators()),
        escalate_after=request.models.escalate_after,
    )


def document_of(request: RefinementRequest) -> JsonDocument | None:
    """Return what one validator demands of the whole text, if the format of a reply can say it."""
    demanding = request.demanding()
    schemas = [
        (demand, schema) for demand in demanding for schema in demand.json_schemas().values()
    ]
    if len(schemas) != 1:
        return None
    ((validator, schema),) = schemas
    found = strict(schema)
    others = (demand.in_words() for demand in demanding if demand is not validator)
    return None if found is None else JsonDocument(found, tuple(filter(None, others)))


def strategy_for(
    request: RefinementRequest,
    nonce: str,
    engine_version: int = ENGINE_VERSION,
    *,
    learnt: Learnt | None = None,
    is_exact: bool = False,
) -> MoveCoroutine[Outcome]:
    """Return a fresh coroutine that plays a request under its own limits, as that version did.

    `learnt` is what ended refinements of this kind taught, `is_exact` whether the critic measures
    without noise; both must be the same in every replay.
    """
    task = task_of(request, nonce, engine_version, learnt=learnt, is_exact=is_exact)
    function, policy = function_of(request.strategy.kind), review_policy_of(request.strategy)
    return whole(request, task, request.limits(), function, policy)


SAMPLE = "This is the draft."
"""Stands for a draft where only the words of prompts are shown."""


def sample_prompts(request: RefinementRequest, nonce: str) -> tuple[Prompt, ...]:
    """Return the first prompt of a request, and how its drafts are judged and revised.

    Nothing is asked. The critique and, unless the client gives one, the draft are samples.
    """
    task = task_of(request, nonce)
    text = next(iter(request.strategy.read_in_parts(request.draft)), request.draft or SAMPLE)
    critique = Critique(
        scores=tuple(
            CriterionScore(criterion=criterion.name, score=0.5, reason="It meets about half.")
            for criterion in task.criteria
        ),
        findings=(
            Finding(
                source="critic", kind=task.criteria[0].name, message="Too vague.", quote=text[:20]
            ),
        ),
    )
    scored = Scored(Draft(text), 0.5, critique.scores, critique=critique)
    failing = RevisionBase(scored, "", request.threshold).failing(task)
    judged = [Judge(task, text).prompt()] if request.strategy.judges_criteria else []
    revised = Revise(task, text, failing, critique, ()).prompt()
    first = _first_prompt(strategy_for(request, nonce))
    prompts = (*([] if first is None else [first]), *judged, revised)
    return tuple({prompt.name: prompt for prompt in reversed(prompts)}.values())[::-1]


def _first_prompt(strategy: MoveCoroutine[Any]) -> Prompt | None:
    """Return the prompt of the first move; None if it asks no model."""
    try:
        move = strategy.send(None)
        while isinstance(move, Heard):
            move = strategy.send(None)
        if isinstance(move, Together):
            prompts = [_first_prompt(part) for part in move.parts]
            return prompts[0]
        return move.prompt if isinstance(move, Ask) else None
    finally:
        strategy.close()


class StrategyFactory(Protocol):
    """Returns a fresh coroutine that plays a request with what its record says."""

    def __call__(
        self,
        request: RefinementRequest,
        nonce: str,
        *,
        learnt: Learnt | None = None,
        is_exact: bool = False,
    ) -> MoveCoroutine[Outcome]: ...


ENGINES_BY_VERSION: Mapping[int, StrategyFactory] = {
    version: partial(strategy_for, engine_version=version) for version in sorted(PLAYABLE)
}
"""The function that creates a refinement's coroutine, by the engine version of the refinement."""


async def refined(
    path: str,
    task: Task,
    limits: Limits,
    own: LimitOverrides,
    body: Strategy,
    review: ReviewPlan | None = None,
) -> Outcome:
    """Write or improve a text below `path` with a strategy, under limits of its own.

    The threshold and the stop rules that `own` does not name are those of `limits`. The text is
    reviewed by its own plan alone. Raises `Stopped` or `StepError` when nothing was judged there,
    and `Rejected` if a reviewer rejected it.
    """
    task = replace(task, is_reviewed=review is not None and review.when == "each_iteration")
    part = _played_body(task, own.instead_of(limits), body, review)
    try:
        done = await below(path, ruled(own, part, path, review))
        if done.reason is StopReason.REJECTED:
            raise Rejected
    except Refusal as refusal:
        refusal.caveats = refusal.caveats or (given_up(path, refusal),)
        raise
    verdict = done.best.scored.caveats  # the whole is judged, and not verified, once more
    unverified = (caveat.under(done.best.path) for caveat in verdict if caveat.code == "unverified")
    return replace(done, caveats=(*done.caveats, *unverified)).claiming(task.accepted)


async def _played_body(
    task: Task, limits: Limits, body: Strategy, review: ReviewPlan | None
) -> Outcome:
    outcome = _returned(body, await function_of(body.kind)(task, limits, body))
    if review is not None and review.when == "before_completion":
        policy = review_policy_of(body)
        outcome = await signed_off(body, policy, task, limits, outcome, is_part=True)
    return outcome
