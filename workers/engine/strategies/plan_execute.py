"""Plan, carry out the next step, observe, revise the plan, and write from what was observed."""

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from pydantic import Field

from app.contract.calls import AGAIN
from app.contract.caveats import Caveat
from app.contract.limits import Limits
from app.contract.requests import ContextDocument
from app.contract.reviews import PlannedCall
from app.contract.strategies.planning import PlanExecuteStrategy
from workers.engine.asking import (
    again,
    ask,
    is_cut_off,
    is_declined,
    question,
    text_in,
    with_more_room,
)
from workers.engine.drafting import propose
from workers.engine.judging import judge
from workers.engine.matching import Source, even
from workers.engine.moves import (
    Approval,
    Ask,
    Call,
    Check,
    ReviewerReply,
    StepError,
    Stopped,
    within,
)
from workers.engine.prompt_requests import (
    Observation,
    PlannedStep,
    Prompt,
    PromptRequest,
    Revision,
    Task,
    canonical,
)
from workers.engine.prompts import assembled, at_least, closed, described, fenced, grounded
from workers.engine.replies import Arguments, ReplyModel, ReplyReader, Unreadable
from workers.engine.search import Outcome, Search
from workers.engine.sub_search import going_on, informed, passes_as_it_is

PLAN_VERSION = 2
STEPS_RULE = """A step names a tool and gives the arguments that its parameters ask for, or it
names no tool: then its instruction is carried out by a writer who sees the goal, the context
documents and everything observed before. Plan a step only for what the text needs and nobody knows
yet; the text itself is written after the plan and is not a step of it. Arguments hold what is known
now: a call that needs what is yet to be observed is planned afterwards, when the plan is revised.
Write `arguments` as the text of a JSON object, null without a tool."""
PLAN = f"""\
You plan how to reach the goal that the task states. {STEPS_RULE}
Answer with one JSON object and nothing else:
{{"steps": {{"first": {{"name": "<short name>", "instruction": "<what to do, and what for>",
 "tool": null, "arguments": null}}, "more": [...]}}}}"""

STEP = closed(
    {
        "name": {"type": "string"},
        "instruction": {"type": "string"},
        "tool": {"type": ["string", "null"]},
        "arguments": {"type": ["string", "null"]},
    }
)


@dataclass(frozen=True, slots=True)
class Plan(PromptRequest):
    """Plan how to reach the task's goal; at most `most` steps are carried out."""

    most: int

    def prompt(self) -> Prompt:
        most = f"At most {self.most} steps are carried out."
        schema = closed({"steps": at_least(("first",), STEP)})
        return assembled(
            self.task, "plan", PLAN_VERSION, PLAN, *material(self.task), most, schema=schema
        )


def material(task: Task) -> list[str]:
    """Return what a plan is made from besides the task: the tools, and the draft if any."""
    tools = [described(task, tool) for tool in task.tools]
    return tools if task.draft is None else [*tools, fenced(task, "draft", task.draft)]


def written(step: PlannedStep) -> str:
    """Return a step in words."""
    lines = [step.name, step.instruction]
    if step.tool is not None:
        lines.append(f"tool: {step.tool}, arguments: {canonical(step.arguments)}")
    return "\n".join(line for line in lines if line)


REPLAN_VERSION = 4
REPLAN = f"""\
You revise a plan after a step of it. {STEPS_RULE}
First say whether the goal is met: whether what was observed is all the text needs. If it is, prove
it with evidence: the number of a step and words quoted from what was observed there, character for
character: three words or more, of which a figure counts as two, or a whole line. Then give every
step that remains, in order; none when nothing remains.
When a step failed, change the plan: another tool, other arguments, or a way without it. A call that
failed is not made again with the same arguments. A call that a reviewer refused is not made in
another way either, unless what they said allows it.
Answer with one JSON object and nothing else:
{{"goal_met": {{"met": false, "evidence": [{{"step": 1, "quote": "<words>"}}]}},
 "steps": [{{"name": "<short name>", "instruction": "<what to do, and what for>",
 "tool": null, "arguments": null}}]}}"""


@dataclass(frozen=True, slots=True)
class Replan(PromptRequest):
    """Say whether the goal is met, and what remains to be done after the last observation."""

    remaining: tuple[PlannedStep, ...]
    observations: tuple[Observation, ...]
    most: int

    def prompt(self) -> Prompt:
        remaining = [written(step) for step in self.remaining] or ["no step"]
        return assembled(
            self.task,
            "replan",
            REPLAN_VERSION,
            REPLAN,
            *material(self.task),
            *(observed(self.task, it) for it in self.observations),
            fenced(self.task, "remaining plan", "\n\n".join(remaining)),
            _what_happened(self.observations[-1]),
            f"At most {self.most} more steps are carried out.",
            schema=_schema(),
        )


def observed(task: Task, it: Observation) -> str:
    """Return a step and its result, in words."""
    outcome = "observed" if it.ok else "FAILED"
    step = fenced(task, f"step {it.number}", written(it.step))
    return f"{step}\n{fenced(task, f'step {it.number} {outcome}', it.text)}"


def _what_happened(last: Observation) -> str:
    if last.ok:
        return f"Step {last.number} was carried out."
    return f"Step {last.number} failed; what went wrong stands above. The plan has to change."


def _schema() -> dict[str, object]:
    evidence = closed({"step": {"type": "integer"}, "quote": {"type": "string"}})
    verdict: dict[str, object] = {
        "met": {"type": "boolean"},
        "evidence": {"type": "array", "items": evidence},
    }
    return closed({"goal_met": closed(verdict), "steps": {"type": "array", "items": STEP}})


DO_VERSION = 2
DO = """\
You carry out one step of a plan. The goal that the task states is reached by others:
do only what the step says. {grounded}
Say which facts are missing.
Answer with the result of the step alone: no preamble, no comment."""


@dataclass(frozen=True, slots=True)
class Do(PromptRequest):
    """Carry out one step that names no tool."""

    step: PlannedStep
    observations: tuple[Observation, ...]

    def prompt(self) -> Prompt:
        task = self.task
        return assembled(
            task,
            "do",
            DO_VERSION,
            DO.format(grounded=grounded(task, "what was observed")),
            *([] if task.draft is None else [fenced(task, "draft", task.draft)]),
            *(observed(task, it) for it in self.observations),
            fenced(task, "step to carry out", written(self.step)),
        )


MOST_STEPS = 30
"""Steps that one plan may have; the strategy limits how many are carried out."""


class _Step(ReplyModel):
    instruction: str = Field(min_length=1, max_length=8_000)
    name: str | None = Field(None, max_length=200)
    tool: str | None = None
    arguments: Arguments = None


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
    return lambda reply: Revision(_steps(reply.read_as(_Plan).steps, tools))


def revision_reader(
    tools: Collection[str], observations: Sequence[Observation]
) -> Callable[[ReplyReader], Revision]:
    """Return a function that reads a revised plan; it raises `Unreadable` with the reason."""

    def read(reply: ReplyReader) -> Revision:
        said = reply.read_as(_Revision)
        steps = _steps(said.steps, tools)
        if not said.goal_met.met:
            return Revision(steps)
        enough = _proves if reply.asked.task.engine_version >= ASKS_AT_THE_END else _stands
        unproven = _unproven(said.goal_met.evidence, observations, enough)
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
    failed = {it.step.call for it in observations if not it.ok}
    return step.call is not None and step.call in failed


Enough = Callable[[str, str], bool]


def _unproven(
    evidence: Sequence[_Evidence], observations: Sequence[Observation], enough: Enough
) -> str | None:
    seen = {it.number: it.text for it in observations if it.ok}
    if any(it.step in seen and enough(it.quote, seen[it.step]) for it in evidence):
        return None
    return (
        "goal_met.met needs evidence: at least one quote that stands, character for character,"
        " in what was observed in the step it names; it has three words or more, of which a figure"
        " counts as two, or is a whole line"
    )


def _stands(quote: str, text: str) -> bool:
    return Source(text).quotation(quote) is not None


def _proves(quote: str, text: str) -> bool:
    """Return whether a quotation stands in the text and is long enough to have been looked up.

    It has at least `EVIDENT` words, or is all that a line says. Words such as "of the" and single
    letters stand in nearly every text.
    """
    whole = _bare(quote)
    is_line = bool(whole) and any(_bare(line) == whole for line in (text, *text.splitlines()))
    return is_line or (_words(quote) >= EVIDENT and _stands(quote, text))


def _bare(text: str) -> str:
    return re.sub(r"\A[\W_]+|[\W_]+\Z", "", even(text))


def _words(quote: str) -> int:
    """Return how many words a quotation has; a figure counts as two."""
    return sum(2 if any(map(str.isdigit, it)) else 1 for it in WORD.findall(quote))


def _steps(said: Sequence[_Step], tools: Collection[str]) -> tuple[PlannedStep, ...]:
    for number, step in enumerate(said, 1):
        if step.tool is not None and step.tool not in tools:
            known = ", ".join(tools) or "none"
            raise Unreadable(f"step {number}: unknown tool {step.tool!r}; known tools: {known}")
        if step.tool is None and step.arguments:
            raise Unreadable(f"step {number} has arguments but no tool")
    return tuple(
        PlannedStep(
            instruction=it.instruction,
            name=(it.name or "").strip(),
            tool=it.tool,
            arguments=None if it.tool is None else it.arguments or {},
        )
        for it in said
    )


UNREADABLE = "unreadable_plan"

MOST_APPROVALS = 10
"""How often a reviewer is asked about one call: again while their arguments cannot be sent."""


ASKS_AT_THE_END = 3
"""The version of the engine from which the last step allowed is followed by a verdict, too, and
from which evidence has enough words."""

EVIDENT = 3
"""Words of a quotation that is evidence."""

UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
"""Thai, Lao, Burmese, Khmer, Japanese and Chinese, written without spaces between words."""

WORD = re.compile(rf"[{UNSPACED}]{{1,2}}|[^\W{UNSPACED}]+(?:[.,:/-]\d+)*")
"""A word; where there are no spaces, two characters."""


@dataclass(frozen=True, slots=True)
class Pursuit:
    """What was observed, in order, and why the goal is not shown to be met; None if it is."""

    observations: tuple[Observation, ...]
    shortfall: str | None = None

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """The failed steps, and the goal if it is not met."""
        failed = (
            Caveat(code="item_dropped", path=f"steps/{it.number}", detail=f"it failed: {it.text}")
            for it in self.observations
            if not it.ok
        )
        if self.shortfall is None:
            return tuple(failed)
        return (Caveat(code="goal_not_met", path="plan", detail=self.shortfall), *failed)


async def pursued(task: Task, plan: PlanExecuteStrategy) -> Pursuit:
    """Plan, carry out at most `max_steps` steps, and return what was observed.

    It ends when quotations prove that the goal is met, when no step remains, when `max_steps` steps
    were carried out, and when it is stopped: the rest of the budget is for the text.
    """
    most = plan.max_steps
    observations: list[Observation] = []
    shortfall: str | None = "no step remained, and no quotation proved that the goal is met"
    try:
        steps = (await _plan(task, most)).steps
        while steps:
            observations.append(await _carried_out(task, plan, steps[0], observations))
            is_last = len(observations) == most
            if is_last:
                shortfall = f"no quotation proved that the goal is met after {most} steps"
            if is_last and task.engine_version < ASKS_AT_THE_END:
                break
            try:
                revision = await _revision(task, steps[1:], observations, most)
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


def as_documents(task: Task, observations: Sequence[Observation]) -> tuple[ContextDocument, ...]:
    """Return observations as context documents of the text.

    Failed calls are left out unless they were to have effects: a text must not say that what was
    refused was done.
    """
    with_effects = {tool.name for tool in task.tools if tool.effects}
    return tuple(
        ContextDocument(
            name=f"Step {it.number}{'' if it.ok else ', failed'}: {it.step.title}", text=it.text
        )
        for it in observations
        if it.ok or it.step.tool in with_effects
    )


async def _carried_out(
    task: Task, plan: PlanExecuteStrategy, step: PlannedStep, before: Sequence[Observation]
) -> Observation:
    """Carry out a step; return a tool's result or failure, or a writer's text."""
    number = len(before) + 1
    tool = next((it for it in task.tools if it.name == step.tool), None)
    if tool is not None:
        if tool.effects and plan.approval == "before_call":
            step, refused = await _approved(step, number, plan.approval_timeout_s)
            if refused is not None:
                return Observation(number, step, False, refused)
        at, arguments = f"steps/{number}/call", step.arguments or {}
        result = await Call(at, tool.name, arguments, tool.is_repeatable)
        return Observation(number, step, result.ok, result.text)
    asked = _question(f"steps/{number}/do", Do(task, step, tuple(before)))
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
        word = await Approval(path, call, timeout_s, error)
        if word.action == "approve":
            return step, None
        if word.arguments is None:
            return step, _refused(word)
        given = replace(step, arguments=word.arguments)
        try:
            await _require_arguments_that_fit(path, [given])
        except Unreadable as unreadable:
            error = str(unreadable)
        else:
            return given, None
    return step, f"not called: the reviewer's arguments could not be sent: {error}"


def _refused(word: ReviewerReply) -> str:
    if word.is_timeout:
        return "not called: it needs an approval, and nobody answered in time"
    return f"not called: a reviewer refused it. {word.feedback or 'No reason was given.'}"


async def _plan(task: Task, most: int) -> Revision:
    names = [tool.name for tool in task.tools]
    return await _asked(_question("plan", Plan(task, most)), plan_reader(names), ())


async def _revision(
    task: Task, remaining: tuple[PlannedStep, ...], seen: Sequence[Observation], most: int
) -> Revision:
    names = [tool.name for tool in task.tools]
    prompt_request = Replan(task, remaining, tuple(seen), most - len(seen))
    asked = _question(f"steps/{len(seen)}/replan", prompt_request)
    return await _asked(asked, revision_reader(names, seen), seen)


async def _asked(
    question: Ask, read: Callable[[ReplyReader], Revision], seen: Sequence[Observation]
) -> Revision:
    """Return a valid plan; ask again with the error for any other.

    If the last reply still does not prove that the goal is met, or repeats a failed call, the goal
    counts as not met and that step is dropped. Raises `StepError` if the last reply is unreadable.
    """
    asked, error = question, ""
    for attempt in range(AGAIN + 1):
        try:
            reply = await asked
        except StepError as failure:
            is_refused = is_declined(failure, question)
            if attempt == AGAIN or not (is_refused or is_cut_off(failure, question)):
                raise
            if is_refused:
                asked = again(question, attempt + 1, failure.detail, "it refuses to plan")
            else:
                asked = with_more_room(asked, question, attempt + 1)
            continue
        try:
            revision = read(ReplyReader(reply, question.prompt_request))
            if not revision.is_met:
                await _require_arguments_that_fit(asked.path, revision.steps)
        except Unreadable as unreadable:
            error = str(unreadable)
        else:
            error = revision.unproven or repeated(revision.steps, seen) or ""
            if revision.is_met or not error:
                return revision
            if attempt == AGAIN:
                return Revision(tuple(it for it in revision.steps if not failed_before(it, seen)))
        asked = replace(again(question, attempt + 1, reply, error), room=asked.room)
    detail = f"asked {AGAIN + 1} times; the last reply: {error}"
    raise StepError(UNREADABLE, detail, (question.path,))


async def _require_arguments_that_fit(path: str, steps: Sequence[PlannedStep]) -> None:
    """Raise `Unreadable` if a planned call has arguments that the tool's schema rejects."""
    calls = [{"tool": it.tool, "arguments": it.arguments} for it in steps if it.tool is not None]
    if not calls:
        return
    checked = await Check(f"{path}/check", json.dumps(calls, ensure_ascii=False), "calls")
    found = checked.findings
    if found:
        raise Unreadable("; ".join(it.message for it in found))


def _question(path: str, prompt_request: PromptRequest) -> Ask:
    return replace(question(path, "generator", prompt_request), prepares=True)


async def plan_execute(task: Task, limits: Limits, plan: PlanExecuteStrategy) -> Outcome:
    """Plan, carry out the next step, observe, revise the plan; then write from what was observed.

    Plan-and-Solve (arXiv:2305.04091) with the observations of ReAct (arXiv:2210.03629); a step that
    fails changes the plan, as in ADaPT (arXiv:2311.05772). The text is judged and revised as in
    `iterative`, with the observations added to its context. A client's own draft is judged first,
    informs the plan, and is revised afterwards.
    """
    found = Pursuit(())
    observed: tuple[ContextDocument, ...] = ()
    with Search.of(task, limits) as search:
        if await passes_as_it_is(task, search):
            return search.outcome()
        found = await pursued(going_on(task, search), plan)
        observed = as_documents(task, found.observations)
        search.task = knowing = informed(task, observed)
        for at in search.iterations():
            draft = await within(at, propose(knowing, search))
            await search.judged(await within(at, judge(knowing, draft)))
    return replace(search.outcome(), observed=observed, caveats=found.caveats)
