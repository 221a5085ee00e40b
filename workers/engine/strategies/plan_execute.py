"""Plan, carry out steps, observe, revise the plan, and write from what was observed."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any

from pydantic import Field

from app.contract.limits import Limits
from app.contract.requests import ContextDocument
from app.contract.reviews import PlannedCall
from app.contract.status import Caveat
from app.contract.strategies.reasoning import PlanExecuteStrategy
from app.contract.tools import MAX_RESULT
from app.contract.values import value
from workers.engine.asking import ask, question, require_arguments_that_fit, text_in
from workers.engine.drafting import improve
from workers.engine.moves import (
    Approval,
    Ask,
    Call,
    PartResults,
    ReviewerReply,
    StepError,
    Stopped,
    first_of,
    play_parts,
)
from workers.engine.prompts import (
    IN_WORDS,
    Prompt,
    PromptRequest,
    Task,
    at_least,
    canonical,
    closed,
    described,
    tagged_text,
    worded,
)
from workers.engine.replies.likeness import SIGNS, Source, even
from workers.engine.replies.reader import Arguments, ReplyModel, ReplyReader, Unreadable
from workers.engine.search import Outcome, Search
from workers.engine.sub_search import going_on, informed, passes_as_it_is


@value(slots=True)
class PlannedStep:
    """One step of a plan; without a tool, a model carries out the instruction."""

    instruction: str
    name: str = ""
    tool: str | None = None
    arguments: Mapping[str, Any] | None = None
    needs: tuple[int, ...] = ()
    """Positions, from 0, of the remaining steps of the same plan whose results it needs."""

    @property
    def is_open(self) -> bool:
        """Whether it calls a tool with arguments that its needs have to be observed for."""
        return self.tool is not None and self.arguments is None

    @property
    def title(self) -> str:
        """The name of the step, else its instruction, at most 80 characters."""
        return (self.name or self.instruction)[:80]

    @property
    def call(self) -> str | None:
        """The call in canonical form: equal calls have equal texts.

        None without a tool, and while the arguments are open.
        """
        has_call = self.tool is not None and self.arguments is not None
        return f"{self.tool} {canonical(self.arguments)}" if has_call else None


@value(slots=True)
class Observation:
    """The result of the step with that number; `ok` is false when its tool failed."""

    number: int
    step: PlannedStep
    ok: bool
    text: str


@value(slots=True)
class Revision:
    """A revised plan: the steps that remain, and whether the goal is met already.

    `unproven` says why a claim that it is met does not count.
    """

    steps: tuple[PlannedStep, ...]
    is_met: bool = False
    unproven: str | None = None


STEP: dict[str, object] = {
    "name": {"type": "string"},
    "instruction": {"type": "string"},
    "tool": {"type": ["string", "null"]},
    "arguments": {"type": ["string", "null"]},
    "needs": {"type": "array", "items": {"type": "string"}},
}


@value(slots=True)
class Plan(PromptRequest):
    """Plan how to reach the task's goal; at most `most` steps are carried out."""

    most: int

    def prompt(self) -> Prompt:
        most = f"At most {self.most} steps are carried out."
        schema = closed({"steps": at_least(("first",), closed(STEP))})
        return worded(self.task, "plan", *plan_material(self.task), most, schema=schema)


def plan_material(task: Task) -> list[str]:
    """Return what a plan is made from besides the task: the tools, and the draft if any."""
    tools = [described(task, tool) for tool in task.tools]
    return tools if task.draft is None else [*tools, tagged_text(task, "draft", task.draft)]


def step_text(step: PlannedStep) -> str:
    """Return a step in words."""
    lines = [step.name, step.instruction]
    if step.tool is not None:
        arguments = "to be found out" if step.is_open else canonical(step.arguments)
        lines.append(f"tool: {step.tool}, arguments: {arguments}")
    return "\n".join(line for line in lines if line)


@value(slots=True)
class Replan(PromptRequest):
    """Say whether the goal is met, and what remains to be done after the last observation."""

    remaining: tuple[PlannedStep, ...]
    observations: tuple[Observation, ...]
    most: int
    since: int = field(default=0, metadata={IN_WORDS: True})
    """How many observations the plan was made from."""

    def prompt(self) -> Prompt:
        remaining = [_with_needs(step, self.remaining) for step in self.remaining]
        return worded(
            self.task,
            "replan",
            *plan_material(self.task),
            *(observed(self.task, observation) for observation in self.observations),
            tagged_text(self.task, "remaining plan", "\n\n".join(remaining or ["no step"])),
            _what_happened(self.observations[self.since :]),
            f"At most {self.most} more steps are carried out.",
            schema=_schema(),
        )


def observed(task: Task, observation: Observation) -> str:
    """Return a step and its result, in words."""
    outcome = "observed" if observation.ok else "FAILED"
    step = tagged_text(task, f"step {observation.number}", step_text(observation.step))
    return f"{step}\n{tagged_text(task, f'step {observation.number} {outcome}', observation.text)}"


def _with_needs(step: PlannedStep, plan: Sequence[PlannedStep]) -> str:
    if not step.needs:
        return step_text(step)
    return f"{step_text(step)}\nneeds: {', '.join(plan[place].title for place in step.needs)}"


def _what_happened(seen: Sequence[Observation]) -> str:
    if failed := [observation.number for observation in seen if not observation.ok]:
        which = _steps_in_words(failed)
        return f"{which} failed; what went wrong stands above. The plan has to change."
    done = [observation.number for observation in seen]
    return f"{_steps_in_words(done)} {'was' if len(done) == 1 else 'were'} carried out."


def _steps_in_words(numbers: Sequence[int]) -> str:
    return f"Step{'s'[: len(numbers) - 1]} {', '.join(map(str, numbers))}"


def _schema() -> dict[str, object]:
    evidence = closed({"step": {"type": "integer"}, "quote": {"type": "string"}})
    verdict: dict[str, object] = {
        "met": {"type": "boolean"},
        "evidence": {"type": "array", "items": evidence},
    }
    return closed({"goal_met": closed(verdict), "steps": {"type": "array", "items": closed(STEP)}})


@value(slots=True)
class Do(PromptRequest):
    """Carry out one step that names no tool."""

    step: PlannedStep
    observations: tuple[Observation, ...]

    def prompt(self) -> Prompt:
        task = self.task
        return worded(
            task,
            "do",
            *([] if task.draft is None else [tagged_text(task, "draft", task.draft)]),
            *(observed(task, observation) for observation in self.observations),
            tagged_text(task, "step to carry out", step_text(self.step)),
        )


MOST_STEPS = 30
"""Steps that one plan may have; the strategy limits how many are carried out."""


class _Step(ReplyModel):
    instruction: str = Field(min_length=1, max_length=8_000)
    name: str | None = Field(None, max_length=200)
    tool: str | None = None
    arguments: Arguments = None
    needs: list[str] | None = None

    @property
    def title(self) -> str:
        return (self.name or "").strip()


class _Plan(ReplyModel):
    steps: list[_Step] = Field(min_length=1, max_length=MOST_STEPS)


class _Evidence(ReplyModel):
    step: int
    quote: str


class _Verdict(ReplyModel):
    met: bool
    evidence: tuple[_Evidence, ...] = ()


class _Revision(ReplyModel):
    goal_met: _Verdict
    steps: list[_Step] = Field(max_length=MOST_STEPS)


def plan_reader(tools: Collection[str]) -> Callable[[ReplyReader], Revision]:
    """Return a function that reads a first plan; it raises `Unreadable` with the reason."""
    return lambda reply: Revision(_steps(reply, reply.read_as(_Plan).steps, tools, ()))


def revision_reader(
    tools: Collection[str], observations: Sequence[Observation]
) -> Callable[[ReplyReader], Revision]:
    """Return a function that reads a revised plan; it raises `Unreadable` with the reason."""

    def read(reply: ReplyReader) -> Revision:
        said = reply.read_as(_Revision)
        steps = _steps(reply, said.steps, tools, observations)
        if not said.goal_met.met:
            return Revision(steps)
        unproven = _unproven(said.goal_met.evidence, observations)
        return Revision(steps, is_met=unproven is None, unproven=unproven)

    return read


def repeated(steps: Sequence[PlannedStep], observations: Sequence[Observation]) -> str | None:
    """Return an error for the first step that repeats a failed call; None when none does."""
    for step in steps:
        if failed_before(step, observations):
            return (
                f"the call of {step.tool} with the arguments of step {step.title!r} has failed"
                " before: plan another way"
            )
    return None


def failed_before(step: PlannedStep, observations: Sequence[Observation]) -> bool:
    """Return whether the same call, arguments included, has failed."""
    failed = {observation.step.call for observation in observations if not observation.ok}
    return step.call is not None and step.call in failed


def _unproven(evidence: Sequence[_Evidence], observations: Sequence[Observation]) -> str | None:
    seen = {observation.number: observation.text for observation in observations if observation.ok}
    if any(
        evidence_given.step in seen and _proves(evidence_given.quote, seen[evidence_given.step])
        for evidence_given in evidence
    ):
        return None
    return (
        "goal_met.met needs evidence: at least one quote that stands, character for character,"
        " in what was observed in the step it names; it has three words or more, of which a figure"
        " counts as two, or is a whole line"
    )


def _proves(quote: str, text: str) -> bool:
    """Return whether a quotation stands in the text and is long enough to have been looked up.

    Such a quotation has at least `EVIDENT` words, or is all that a line says. Words such as "of
    the" and single letters stand in nearly every text.
    """
    whole = _bare(quote)
    is_line = bool(whole) and any(_bare(line) == whole for line in (text, *text.splitlines()))
    return is_line or (_words(quote) >= EVIDENT and Source(text).quotation(quote) is not None)


def _bare(text: str) -> str:
    return re.sub(r"\A[\W_]+|[\W_]+\Z", "", even(text))


def _words(quote: str) -> int:
    """Return how many words a quotation has; a figure counts as two."""
    return sum(2 if any(map(str.isdigit, word)) else 1 for word in WORD.findall(quote))


def _steps(
    reply: ReplyReader,
    said: Sequence[_Step],
    tools: Collection[str],
    observations: Sequence[Observation],
) -> tuple[PlannedStep, ...]:
    for number, step in enumerate(said, 1):
        if step.tool is not None and step.tool not in tools:
            known = ", ".join(tools) or "none"
            raise Unreadable(f"step {number}: unknown tool {step.tool!r}; known tools: {known}")
        if step.tool is None and step.arguments:
            raise Unreadable(f"step {number} has arguments but no tool")
    needs = _needs(said, {observation.step.name for observation in observations})
    return tuple(map(_planned, said, needs))


def _planned(said: _Step, needs: tuple[int, ...]) -> PlannedStep:
    """Return a step as it was read. Null arguments are open only if it says what it needs."""
    arguments = said.arguments
    if said.tool is not None and arguments is None and not (said.needs and needs):
        arguments = {}
    return PlannedStep(
        instruction=said.instruction,
        name=said.title,
        tool=said.tool,
        arguments=None if said.tool is None else arguments,
        needs=needs,
    )


def _needs(said: Sequence[_Step], done: Collection[str]) -> list[tuple[int, ...]]:
    """Return the positions of what each step needs; one that does not say needs all before it.

    `done` are the names of steps that were carried out: what needs them waits for nothing. Raises
    `Unreadable` for a need that is no step of the plan, or two, and for steps that need each other.
    """
    titles = [planned.title for planned in said]
    found = [
        tuple(range(place))
        if planned.needs is None
        else _places(place, planned.needs, titles, done)
        for place, planned in enumerate(said)
    ]
    try:
        TopologicalSorter(dict(enumerate(found))).prepare()
    except CycleError as error:
        circle = " needs ".join(repr(titles[place]) for place in reversed(error.args[1]))
        raise Unreadable(f"steps must not need each other: {circle}") from None
    return found


def _places(
    place: int, needs: Sequence[str], titles: Sequence[str], done: Collection[str]
) -> tuple[int, ...]:
    found = set[int]()
    for need in map(str.strip, needs):
        places = [number for number, title in enumerate(titles) if title and title == need]
        if len(places) > 1:
            raise Unreadable(f"step {place + 1} needs {need!r}, the name of {len(places)} steps")
        if not places and need not in done:
            known = ", ".join(repr(title) for title in titles if title) or "none has a name"
            raise Unreadable(
                f"step {place + 1} needs {need!r}, which is no step of the plan: {known}"
            )
        found.update(places)
    return tuple(sorted(found))


def without(steps: Sequence[PlannedStep], gone: Collection[int]) -> tuple[PlannedStep, ...]:
    """Return what remains of a plan without the steps at these positions; none needs them more."""
    left = {
        old: new
        for new, old in enumerate(place for place in range(len(steps)) if place not in gone)
    }
    return tuple(
        replace(
            steps[place], needs=tuple(left[need] for need in steps[place].needs if need in left)
        )
        for place in left
    )


UNREADABLE = "unreadable_plan"

MOST_APPROVALS = 10
"""How often a reviewer is asked about one call: again while their arguments cannot be sent."""


EVIDENT = 3
"""Words of a quotation that is evidence."""

WORD = re.compile(rf"[{SIGNS}]{{1,2}}|[^\W{SIGNS}]+(?:[.,:/-]\d+)*")
"""A word; where there are no spaces, two characters."""


@value(slots=True)
class Pursuit:
    """What was observed, in order, and why the goal is not shown to be met; None if it is."""

    observations: tuple[Observation, ...]
    shortfall: str | None = None

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """The failed steps, and the goal if it is not met."""
        failed = (
            Caveat(
                code="item_dropped",
                path=f"steps/{observation.number}",
                detail=f"it failed: {observation.text}",
            )
            for observation in self.observations
            if not observation.ok
        )
        if self.shortfall is None:
            return tuple(failed)
        return (Caveat(code="goal_not_met", path="plan", detail=self.shortfall), *failed)


async def pursued(task: Task, plan: PlanExecuteStrategy) -> Pursuit:
    """Plan, carry out at most `max_steps` steps, and return what was observed.

    The pursuit ends when quotations prove that the goal is met, when no step remains, after
    `max_steps` steps, and when it is stopped: the rest of the budget is for the text.
    """
    most = plan.max_steps
    observations: list[Observation] = []
    shortfall: str | None = "no step remained, and no quotation proved that the goal is met"
    try:
        steps = (await _plan(task, most)).steps
        while steps:
            since = len(observations)
            steps = await _until_revision(task, plan, steps, observations)
            is_last = len(observations) == most
            if is_last:
                shortfall = f"no quotation proved that the goal is met after {most} steps"
            try:
                revision = await _revision(task, steps, observations, since, most)
            except StepError:
                if is_last:  # nothing but the verdict is lost
                    break
                raise
            if revision.is_met:
                shortfall = None
            steps = () if revision.is_met or is_last else revision.steps
    except Stopped:
        shortfall = "it was stopped before the goal was shown to be met"
    return Pursuit(tuple(observations), shortfall)


async def _until_revision(
    task: Task,
    plan: PlanExecuteStrategy,
    steps: tuple[PlannedStep, ...],
    observations: list[Observation],
) -> tuple[PlannedStep, ...]:
    """Carry out steps until the plan is to be revised; return those that remain.

    A plan is revised when a step failed, when a reviewer changed the arguments of one, when no step
    can be carried out as it stands, before a call that was planned before the last observation,
    and after `max_steps` steps.
    """
    before = len(observations)
    while due := _due(
        task, steps, plan.max_steps - len(observations), with_calls=len(observations) == before
    ):
        chosen, since = [steps[place] for place in due], len(observations)
        await _carried_out(task, plan, chosen, observations)
        steps = without(steps, due)
        done = observations[since:]
        is_learnt = [observation.step for observation in done] != chosen or not all(
            observation.ok for observation in done
        )
        if is_learnt or plan.revise == "each_step":
            break
    return steps


def _due(task: Task, steps: Sequence[PlannedStep], most: int, *, with_calls: bool) -> Sequence[int]:
    """Return the positions of the steps to carry out now, at most so many, side by side.

    A call with effects comes alone and after the others, so that the plan may change before it.
    Of equal calls one is made first: one that fails is not made again.
    """
    with_effects = _with_effects(task)
    ready = [
        place
        for place, planned in enumerate(steps)
        if not planned.needs and not planned.is_open and (with_calls or not planned.tool)
    ]
    harmless = [place for place in ready if steps[place].tool not in with_effects]
    first = {steps[place].call or place: place for place in reversed(harmless)}
    return (sorted(first.values()) or ready[:1])[:most]


def _with_effects(task: Task) -> set[str]:
    return {tool.name for tool in task.tools if tool.effects}


def as_documents(task: Task, observations: Sequence[Observation]) -> tuple[ContextDocument, ...]:
    """Return observations as context documents of the text.

    Failed calls are left out unless they were to have effects: a text must not say that what was
    refused was done.
    """
    with_effects = _with_effects(task)
    return tuple(
        ContextDocument(
            name=f"Step {observation.number}{'' if observation.ok else ', failed'}: "
            f"{observation.step.title}",
            text=observation.text,
        )
        for observation in observations
        if observation.ok or observation.step.tool in with_effects
    )


async def _carried_out(
    task: Task,
    plan: PlanExecuteStrategy,
    steps: Sequence[PlannedStep],
    observations: list[Observation],
) -> None:
    """Carry out steps side by side, and add what was observed in the order of the plan.

    Results of calls are cut to `MAX_RESULT` characters together. What was observed of some is kept
    when others are refused; then raises why, a stop first.
    """
    before = tuple(observations)
    parts = [
        _observation(task, plan, number, step, before)
        for number, step in enumerate(steps, len(before) + 1)
    ]
    if len(parts) == 1:
        done = PartResults((await parts[0],), (None,))
    else:
        done = await play_parts("steps", parts)
    observations.extend(_cut([reply for reply in done.replies if reply is not None]))
    if refusals := [refusal for refusal in done.refusals if refusal is not None]:
        raise first_of(
            [refusal for refusal in refusals if isinstance(refusal, Stopped)] or refusals
        )


def _cut(seen: Sequence[Observation]) -> list[Observation]:
    """Return observations with results of calls of at most `MAX_RESULT` characters together.

    Short ones stay whole, long ones are cut alike, with a note.
    """
    found, room = list(seen), MAX_RESULT
    calls = sorted(
        (place for place, observation in enumerate(seen) if observation.step.tool),
        key=lambda place_seen: len(seen[place_seen].text),
    )
    for left, place in zip(range(len(calls), 0, -1), calls, strict=True):
        text, most = seen[place].text, room // left
        if len(text) > most:
            note = f"\n[cut off here, after {max(0, most - NOTE)} characters]"
            text = text[: max(0, most - NOTE)] + note
            found[place] = replace(seen[place], text=text)
        room -= len(text)
    return found


NOTE = 50
"""Characters that the note on what was cut off takes at most."""


async def _observation(
    task: Task,
    plan: PlanExecuteStrategy,
    number: int,
    step: PlannedStep,
    before: tuple[Observation, ...],
) -> Observation:
    """Carry out a step; return a tool's result or failure, or a writer's text."""
    tool = next((offered for offered in task.tools if offered.name == step.tool), None)
    if tool is not None:
        if tool.effects and plan.approval == "before_call":
            step, refused = await _approved(step, number, plan.approval_timeout_s)
            if refused is not None:
                return Observation(number, step, False, refused)
        at, arguments = f"steps/{number}/call", step.arguments or {}
        result = await Call(at, tool.name, arguments, tool.is_repeatable)
        return Observation(number, step, result.ok, result.text)
    asked = _question(f"steps/{number}/do", Do(task, step, before))
    return Observation(number, step, True, await ask(asked, text_in, "empty_step"))


async def _approved(
    step: PlannedStep, number: int, timeout_s: float
) -> tuple[PlannedStep, str | None]:
    """Return a step as a reviewer lets it be carried out, and why not if they refuse it.

    Arguments of theirs that the schema of the tool rejects are returned with the error.
    """
    error = ""
    for attempt in range(MOST_APPROVALS):
        path = f"steps/{number}/approval" + (f"/again/{attempt}" if attempt else "")
        call = PlannedCall(
            tool=step.tool or "", arguments=dict(step.arguments or {}), why=step.instruction
        )
        reply = await Approval(path, call, timeout_s, error)
        if reply.action == "approve":
            return step, None
        if reply.arguments is None:
            return step, _refused(reply)
        given = replace(step, arguments=reply.arguments)
        try:
            await _require_arguments_that_fit(path, [given])
        except Unreadable as unreadable:
            error = str(unreadable)
        else:
            return given, None
    return step, f"not called: the reviewer's arguments could not be sent: {error}"


def _refused(reply: ReviewerReply) -> str:
    if reply.is_timeout:
        return "not called: it needs an approval, and nobody answered in time"
    return f"not called: a reviewer refused it. {reply.feedback or 'No reason was given.'}"


async def _plan(task: Task, most: int) -> Revision:
    names = [tool.name for tool in task.tools]
    return await _asked(_question("plan", Plan(task, most)), plan_reader(names), ())


async def _revision(
    task: Task,
    remaining: tuple[PlannedStep, ...],
    seen: Sequence[Observation],
    since: int,
    most: int,
) -> Revision:
    names = [tool.name for tool in task.tools]
    prompt_request = Replan(task, remaining, tuple(seen), most - len(seen), since)
    asked = _question(f"steps/{len(seen)}/replan", prompt_request)
    return await _asked(asked, revision_reader(names, seen), seen)


async def _asked(
    question: Ask, read: Callable[[ReplyReader], Revision], seen: Sequence[Observation]
) -> Revision:
    """Return a valid plan; ask again with the error for any other.

    If the last reply still does not prove that the goal is met, or repeats a failed call, the goal
    counts as not met and that step is dropped. Raises `StepError` if the last reply is unreadable.
    """
    readable: list[Revision] = []
    """The last reply, if it could be read."""

    def read_anew(reply: ReplyReader) -> Revision:
        readable.clear()
        return read(reply)

    async def check(path: str, revision: Revision) -> None:
        if revision.is_met:
            return
        await _require_arguments_that_fit(path, revision.steps)
        if error := revision.unproven or repeated(revision.steps, seen):
            readable[:] = [revision]
            raise Unreadable(error)

    try:
        return await ask(question, read_anew, UNREADABLE, check=check)
    except StepError as failure:
        if failure.code != UNREADABLE or not readable:
            raise
    steps = readable[0].steps
    failed = [number for number, planned in enumerate(steps) if failed_before(planned, seen)]
    return Revision(without(steps, failed))


async def _require_arguments_that_fit(path: str, steps: Sequence[PlannedStep]) -> None:
    """Raise `Unreadable` for arguments that a schema rejects; open ones are checked when given."""
    calls = ((step.tool or "", step.arguments or {}) for step in steps if step.call is not None)
    await require_arguments_that_fit(path, calls)


def _question(path: str, prompt_request: PromptRequest) -> Ask:
    return replace(question(path, "generator", prompt_request), prepares=True)


async def plan_execute(task: Task, limits: Limits, plan: PlanExecuteStrategy) -> Outcome:
    """Plan, carry out steps, observe, revise the plan; then write from what was observed.

    Plan-and-Solve (arXiv:2305.04091) with the observations of ReAct (arXiv:2210.03629); a step that
    fails changes the plan, as in ADaPT (arXiv:2311.05772). The text is judged and revised as in
    `iterative`, with the observations added to its context. A client's own draft is judged first,
    informs the plan, and is revised afterwards.
    """
    found = Pursuit(())
    observed: tuple[ContextDocument, ...] = ()
    with Search.of(task, limits) as search:
        if await passes_as_it_is(task, search) or search.reason is not None:
            return search.outcome()  # nothing would be written from a plan
        found = await pursued(going_on(task, search), plan)
        observed = as_documents(task, found.observations)
        search.task = knowing = informed(task, observed)
        await improve(knowing, search)
    return replace(search.outcome(), observed=observed, caveats=found.caveats)
