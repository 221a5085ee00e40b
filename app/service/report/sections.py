"""The sections of a report, made from the snapshot, the request and the journal."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from pydantic import BaseModel

from app.contract.criteria import AUTO
from app.contract.drafts import Passage, draft_of
from app.contract.events import (
    Changed,
    Draw,
    Event,
    EventData,
    Queued,
    Resumed,
    Retried,
    StepCompleted,
    StepFailed,
    Stopping,
    ToolReply,
)
from app.contract.judgement import Comparison, Finding, FixMade, Issue, IssueState
from app.contract.limits import Limits
from app.contract.outcome import Caveat, ended_by
from app.contract.ratings import Rated
from app.contract.requests import RefinementRequest
from app.contract.reviews import ApprovalGiven, Paused, Reviewed, ReviewPlan
from app.contract.snapshot import Iteration, Snapshot
from app.contract.status import Status
from app.contract.strategies import STRATEGIES
from app.contract.waiting import REFUSALS, Waiting
from app.service.iterations import GivenDraft, diff_of, iterations_of
from app.service.report import wording
from app.service.report.markdown import (
    bullet_list,
    code_block,
    escaped,
    joined_blocks,
    path,
    table,
    truncated,
    under,
)
from app.service.report.wording import count_text, duration

Data = TypeVar("Data", bound=EventData)


@dataclass(frozen=True, slots=True)
class Story:
    """One refinement; `events` are those up to the last one of the snapshot."""

    snapshot: Snapshot
    request: RefinementRequest
    events: tuple[Event, ...]
    iterations: tuple[Iteration, ...]

    @property
    def queued(self) -> Queued:
        """The data of its first event: strategy, models, limits."""
        [(_, queued)] = self.of(Queued)
        return queued

    def of(self, kind: type[Data]) -> tuple[tuple[datetime, Data], ...]:
        """Return time and data of the events of one kind."""
        return tuple((it.at, it.data) for it in self.events if isinstance(it.data, kind))

    def steps(self) -> Iterator[StepCompleted | StepFailed]:
        """Yield every step that was completed or failed."""
        for event in self.events:
            if isinstance(event.data, StepCompleted | StepFailed):
                yield event.data

    def first(self) -> Iteration | None:
        """Return the first iteration of the outermost search."""
        outermost = [it for it in self.iterations if it.path == f"iterations/{it.iteration}"]
        return next(iter(outermost or self.iterations), None)

    def best(self) -> Iteration | None:
        """Return the iteration of the result, or of the best draft if there is no result."""
        best = self.snapshot.best
        return next(
            (it for it in self.iterations if best and it.path == best.path),
            None,
        )


def story_of(snapshot: Snapshot, request: RefinementRequest, events: Sequence[Event]) -> Story:
    """Return the story up to the snapshot; later events are left out."""
    included = tuple(it for it in events if it.event <= snapshot.last_event)
    return Story(snapshot, request, included, iterations_of(included, request))


RULES = {
    "threshold": "threshold",
    "max_iterations": "maximum drafts",
    "patience": "maximum drafts in a row without improvement",
    "confidence": "minimum probability that the threshold is truly met",
    "min_improvement": "minimum improvement",
    "max_similarity": "similarity that counts as stable",
    "tolerance": "tolerance below the best score",
    "escape": "one draft in another way before a standstill ends it",
    "max_seconds": "maximum seconds",
    "max_wait_seconds": "maximum seconds of waits for models",
    "max_tokens": "maximum tokens",
    "max_cost_usd": "maximum cost (USD)",
}
"""The label of every limit."""


def asked(story: Story) -> str:
    """Return the whole request, without the texts of its context."""
    request = story.request
    task = code_block(request.task) if request.task else "No task: the draft is to be improved."
    draft = (
        f"A draft of {count_text(len(request.draft), 'character')} was given."
        if (request.draft)
        else "No draft was given."
    )
    return under(
        "## The request",
        task,
        draft,
        "Feedback that the first revision follows:" if request.feedback else "",
        code_block(request.feedback) if request.feedback else "",
        _marked(request.spans),
        under("### Judged on", _criteria_asked(story), _critics(story), _validators(story)),
        under("### Settings", bullet_list(_how(story))),
        under("### Initial limits", table(("limit", "value"), _limits(story.queued.limits))),
        under("### Models", _models(story), _draws(story)),
    )


def rule(name: str, limits: Limits) -> str:
    """Return the value of one limit as text."""
    value = getattr(limits, name)
    if isinstance(value, bool):
        return wording.yes_or_no(value)
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else f"{value:,}"


def _limits(limits: Limits) -> Iterator[tuple[str, str]]:
    return ((label, rule(name, limits)) for name, label in RULES.items())


def _criteria_asked(story: Story) -> str:
    if not STRATEGIES[story.snapshot.strategy].judges_criteria:
        return "No criteria: this strategy asks no critic for scores."
    if story.request.criteria == AUTO:
        return "A critic first listed the criteria from the task."
    rows = (
        (
            escaped(it.name),
            escaped(it.description),
            f"{it.weight:g}",
            "" if it.floor is None else f"{it.floor:g}",
        )
        for it in story.request.judged_on()
    )
    return table(("criterion", "description", "weight", "floor"), rows)


def _critics(story: Story) -> str:
    critics = story.request.critics
    lines = [
        f"Critic {path(it.name)}{', adversarial' if it.adversarial else ''}"
        f"{': ' + escaped(it.perspective) if it.perspective else ''}"
        for it in critics.panel
    ]
    if critics.samples > 1:
        lines.append(f"Every critic is asked {critics.samples} times; the median counts.")
    return bullet_list(lines)


def _validators(story: Story) -> str:
    request = story.request
    named = [(f"validators/{index}", it) for index, it in enumerate(request.validators)]
    for item in request.strategy.item_validators():
        named += [(item.source(index), it) for index, it in enumerate(item.validators)]
    shown = [(path(name), path(it.kind), path(it.on_fail), _settings(it)) for name, it in named]
    return table(("validator", "kind", "on failure", "settings"), shown) if shown else ""


NOT_SHOWN = {"kind", "on_fail", "url", "headers", "secret"}


def _settings(it: BaseModel) -> str:
    """Return the settings of a validator as JSON, without URL and secrets of an endpoint."""
    given = it.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=NOT_SHOWN)
    return escaped(json.dumps(given, ensure_ascii=False), 300) if given else ""


def _how(story: Story) -> Iterator[str]:
    request = story.request
    yield f"Strategy {path(request.strategy.kind)}{_parameters(request.strategy)}."
    if request.edits != "full":
        yield f"Revised by edits: {path(request.edits)}."
    for text in request.locked:
        yield f"Locked: “{escaped(text, 300)}”"
    for document in request.context:
        yield f"Context: {escaped(document.name)}, {count_text(len(document.text), 'character')}."
    for tool in request.tools:
        yield f"Tool {path(tool.name)}: {escaped(tool.description, 300)}"
    if request.review is not None:
        otherwise = wording.TIMEOUTS[request.review.on_timeout]
        yield (
            f"A reviewer is asked {wording.WHENS[request.review.when]}; after a timeout of"
            f" {duration(request.review.timeout_s)}, {otherwise}.{_who_is_asked(request.review)}"
        )
    if request.compare:
        yield "The result is compared, blind, with the draft it started from."
    for output in request.outputs:
        yield f"Output {path(output.name)}: {escaped(output.instructions, 300)}"


def _parameters(strategy: BaseModel) -> str:
    given = strategy.model_dump(mode="json", exclude_defaults=True, exclude={"kind"})
    return f" with {escaped(json.dumps(given, ensure_ascii=False))}" if given else ""


def _models(story: Story) -> str:
    queued = story.queued
    rows = (
        (
            path(seat),
            escaped(model),
            ", ".join(map(escaped, queued.fallbacks.get(seat, ()))),
        )
        for seat, model in queued.models.items()
    )
    return table(("role", "model", "fallbacks"), rows) if queued.models else ""


def _draws(story: Story) -> str:
    queued = story.queued
    draws = queued.draws if queued.draw is None else {"generator": queued.draw, **queued.draws}
    return joined_blocks(it for seat, draw in draws.items() for it in _draw(seat, draw))


def _draw(seat: str, draw: Draw) -> tuple[str, str]:
    rows = (
        (
            escaped(it.model),
            f"{it.passed} of {it.ended}",
            "" if it.mean_gain is None else f"{it.mean_gain:.3f}",
            "unknown" if it.mean_cost_usd is None else f"{it.mean_cost_usd:.4f}",
            f"{it.sampled:.3f}",
            "picked" if it.model == draw.picked else "",
        )
        for it in draw.candidates
    )
    head = ("candidate", "passed", "mean gain", "expected cost (USD)", "sampled", "")
    return f"The model of {path(seat)} was drawn by what each has achieved:", table(head, rows)


def course(story: Story) -> str:
    """Return reviews, plans, failed steps and other events, each in a section if there are any."""
    return joined_blocks(
        (
            under("## Reviews", *_reviews(story)),
            under("## Ratings", bullet_list(_ratings(story))),
            under("## Plans and tools", *_plans(story)),
            under("## Failed steps", bullet_list(_failures(story))),
            under("## Other events", bullet_list(_happenings(story))),
        )
    )


def _reviews(story: Story) -> Iterator[str]:
    decisions = {made.key: (at, made) for at, made in story.of(Reviewed)}
    given = story.of(ApprovalGiven)
    for at, asked in story.of(Paused):
        answer = decisions.get(asked.key)
        heading = f"### {path(asked.key)}"
        line = f"{wording.time_text(at)}: {escaped(asked.question)}"
        approvals = [_approval(when, it) for when, it in given if it.key == asked.key]
        decided = _decision(*answer, asked) if answer else "No answer yet."
        yield joined_blocks((heading, line, *approvals, decided))


def _approval(at: datetime, given: ApprovalGiven) -> str:
    score = "" if given.score is None else f", with a score of {wording.score(given.score)}"
    line = (
        f"{wording.time_text(at)}: {escaped(given.reviewer)} approved the draft{score}"
        f" ({given.given} of {given.needed})."
    )
    return joined_blocks((line, code_block(given.feedback) if given.feedback else ""))


def _decision(at: datetime, made: Reviewed, asked: Paused) -> str:
    is_timeout = made.by == "timeout"
    if made.action == "resume":
        who = "The pause timed out. It continues." if is_timeout else "It was resumed."
        return f"{wording.time_text(at)}: {who}"
    name = escaped(made.reviewer) if made.reviewer else "A reviewer"
    who = "The review timed out, which counts as if a reviewer" if is_timeout else name
    line = f"{wording.time_text(at)}: {who} {wording.ACTIONS[made.action]}"
    if asked.call is not None:
        line = line.removesuffix("draft") + "call"
    line += f", with a score of {wording.score(made.score)}." if made.score is not None else "."
    if made.draft is not None:
        line += f" The new draft has {wording.count_text(len(made.draft), 'character')}."
    if made.arguments is not None:
        line += f" The new arguments: {escaped(json.dumps(made.arguments, ensure_ascii=False))}"
    said = code_block(made.feedback) if made.feedback else ""
    return joined_blocks((line, said, _marked(made.spans)))


def _marked(passages: Sequence[Passage]) -> str:
    """Return the passages that feedback is about; nothing if it is about the whole draft."""
    if not passages:
        return ""
    places = (
        code_block(truncated(it.quote)) if it.quote else f"Characters {it.start} to {it.end}."
        for it in passages
    )
    return joined_blocks(("Nothing but these passages was to change:", *places))


def _who_is_asked(plan: ReviewPlan) -> str:
    """Return who may decide and how many must approve, as sentences; usually there are none."""
    who = f" Asked are {escaped(', '.join(plan.reviewers))}." if plan.reviewers else ""
    several = plan.approvals_needed > 1
    return f"{who} It takes {plan.approvals_needed} approvals." if several else who


def _ratings(story: Story) -> Iterator[str]:
    for at, rated in story.of(Rated):
        who = escaped(rated.by) if rated.by else "Somebody"
        if rated.better_than is None:
            said = f"rates {path(rated.path)} {wording.score(rated.score)}"
        else:
            said = f"finds {path(rated.path)} better than {path(rated.better_than)}"
        note = f": {escaped(rated.note)}" if rated.note else ""
        yield f"{wording.time_text(at)}: {who} {said}{note}"


PLANS = {"replan": "The revised plan", "lookups": "What is looked up"}
"""What a reply is, by the last part of its step's key; any other is a plan."""


def _plans(story: Story) -> Iterator[str]:
    """Yield plans, and tool calls with their answers, in the order of the journal."""
    plans = {name for it in story.request.strategy.every() for name in it.plan_steps}
    plans |= set(STRATEGIES[story.snapshot.strategy].plan_steps)
    for step in story.steps():
        if not isinstance(step, StepCompleted):
            continue
        first, _, again = step.key.partition("/again/")
        retry = f", asked again ({again})" if again else ""
        if first.split("/")[-1] in plans:
            if step.kind == "ask":
                what = PLANS.get(first.split("/")[-1], "The plan")
                yield joined_blocks((f"**{what}** at {path(step.key)}{retry}:", _plan(step)))
        elif isinstance(step.reply, ToolReply):
            what = "answered" if step.reply.ok else "failed"
            line = f"**A tool {what}** at {path(step.key)}:"
            yield joined_blocks((line, code_block(truncated(step.reply.text))))


def _plan(step: StepCompleted) -> str:
    text = getattr(step.reply, "text", "")
    read = _object(text)
    if read and isinstance(picked := read.get("lookups"), dict):
        return bullet_list(
            escaped(name) + (_tool(it) or " (nothing)") for name, it in _objects(picked)
        )
    steps = _listed_steps(read.get("steps")) if read else None
    if not isinstance(steps, list) or not all(isinstance(it, dict) for it in steps):
        return code_block(truncated(text))
    verdict = read.get("goal_met") if read else None
    is_met = isinstance(verdict, dict) and verdict.get("met") is True
    line = "Its verdict: the goal is met." if is_met else ""
    return joined_blocks((line, _steps(steps))) or "No step remains."


def _objects(found: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((name, it) for name, it in found.items() if isinstance(it, dict))


def _listed_steps(steps: Any) -> Any:
    """Return the steps of a plan as a list; `first` and `more` hold those of a first plan."""
    if isinstance(steps, dict) and isinstance(more := steps.get("more", []), list):
        return [steps.get("first"), *more]
    return steps


def _steps(steps: Sequence[dict[str, Any]]) -> str:
    return bullet_list(
        escaped(str(it.get("instruction", ""))) + _tool(it) + _needs(it) for it in steps
    )


def _tool(step: dict[str, Any]) -> str:
    if not step.get("tool"):
        return ""
    given = step.get("arguments") or {}
    arguments = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return f" (tool {escaped(str(step['tool']))}: {escaped(arguments)})"


def _needs(step: dict[str, Any]) -> str:
    needs = step.get("needs")
    return (
        f" (needs {escaped(', '.join(map(str, needs)))})"
        if isinstance(needs, list) and needs
        else ""
    )


def _object(text: str) -> dict[str, Any] | None:
    """Return the JSON object in a reply, or None if it cannot be parsed."""
    text = draft_of(text)
    try:
        found = json.loads(text[text.find("{") : text.rfind("}") + 1])
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _failures(story: Story) -> Iterator[str]:
    for step in story.steps():
        if isinstance(step, StepFailed):
            meaning = wording.error_of(step.code)
            yield f"{path(step.key)}: {meaning} ({path(step.code)}: {escaped(step.detail)})"


def _happenings(story: Story) -> Iterator[str]:
    limits = story.queued.limits
    for event in story.events:
        at = wording.time_text(event.at)
        match event.data:
            case Changed(pause_requested=True):
                yield f"{at}: a pause was requested."
            case Changed(limits=changed):
                yield f"{at}: limits changed: {_changes(limits, changed)}."
                limits = changed
            case Stopping(reason=reason, limit=limit):
                which = f" ({path(limit)})" if limit else ""
                yield f"{at}: stopping, because {ended_by(reason)}{which}."
            case Waiting() as wait:
                yield f"{at}: {path(wait.key)} had to wait for {_waited_for(wait)}."
            case Retried(limits=changed) as retried:
                yield (
                    f"{at}: retried after {path(retried.reason.code)};"
                    f" {wording.count_text(len(retried.voided), 'step')} voided. Limits:"
                    f" {_changes(limits, changed)}."
                )
                limits = changed
            case Resumed() as resumed if _has_waited(story, event.event):
                replayed = wording.count_text(resumed.replayed, "step")
                yield f"{at}: a worker continued; {replayed} replayed from the journal."
            case Resumed() as resumed if not _was_queued(story, event.event):
                replayed = wording.count_text(resumed.replayed, "step")
                yield (
                    f"{at}: a worker was lost or stopped, and another one continued;"
                    f" {replayed} replayed from the journal."
                )


def _waited_for(wait: Waiting) -> str:
    return f"{escaped(wait.model)}, which {REFUSALS[wait.reason]}"


def _has_waited(story: Story, number: int) -> bool:
    """Return whether a step waited for a model before this claim, as far as the journal says."""
    waits: set[str] = set()
    for event in story.events:
        match event.data:
            case Waiting(key=key) if event.event < number:
                waits.add(key)
            case StepCompleted(key=key) | StepFailed(key=key) if event.event < number:
                waits.discard(key)
    return bool(waits)


def _was_queued(story: Story, number: int) -> bool:
    """Return whether it was paused or had failed before this claim: then no worker was lost."""
    before = [it.data for it in story.events if it.event < number]
    claims = [index for index, it in enumerate(before) if isinstance(it, Resumed)]
    since = before[claims[-1] :] if claims else before
    return any(isinstance(it, Paused | Retried) for it in since)


def _changes(before: Limits, after: Limits) -> str:
    changes = [
        f"{label} from {rule(name, before)} to {rule(name, after)}"
        for name, label in RULES.items()
        if getattr(before, name) != getattr(after, name)
    ]
    return ", ".join(changes) or "no value differs"


def ending(story: Story) -> str:
    """Return what came of it and why, what it cost, and what the result lacks."""
    it = story.snapshot
    state: str = it.outcome or it.status
    why = wording.status_of(it.status) if it.error or it.reason is None else escaped(it.reason)
    line = f"**{state.capitalize().replace('_', ' ')}.** {why}"
    caveats = it.result.caveats if it.result else ()
    return joined_blocks(
        (
            line,
            _error(it),
            _summary(story),
            bullet_list(_caveat(found, story) for found in caveats),
            _asked(it),
            _waits(it),
        )
    )


def _summary(story: Story) -> str:
    """Return the score and what it took, in one line."""
    it = story.snapshot
    best = "Threshold" if it.best is None else f"Score {wording.score(it.best.score)}, threshold"
    beyond = sum(
        of.path == f"iterations/{of.iteration}" and of.iteration > it.max_iterations
        for of in story.iterations
    )
    drafts = count_text(len(story.iterations), "draft")
    if beyond:  # a reviewer may ask for more, and a client may lower the limit
        drafts += f" ({beyond} beyond `max_iterations`)"
    took = f"{drafts}, {count_text(it.usage.calls, 'model call')}, {wording.cost_text(it.usage)}"
    return f"{best} {it.threshold:g}; {took}."


def fact_table(story: Story) -> str:
    """Return the facts of the snapshot in a table."""
    return under("## Facts", table(("fact", "value"), _facts(story.snapshot)))


def left_out(story: Story) -> str:
    """Return where to get what a report leaves out."""
    at = f"/v1/refinements/{story.snapshot.id}"
    return under(
        "## Where the rest is",
        "A report shortens long texts and tables. The API has all of it:",
        bullet_list(
            (
                f"every draft and its judgement: {path(f'GET {at}/iterations')}",
                f"what models were asked and what they replied: {path(f'GET {at}/steps')}",
                f"every event: {path(f'GET {at}/events')}",
            )
        ),
    )


def result(story: Story) -> str:
    """Return the result and the meaning of its score, or the best draft if it has not ended."""
    snapshot, best = story.snapshot, story.best()
    if snapshot.result is not None:
        it = snapshot.result
        facts = (
            f"{_measured(it.score, it.score_from)} It is the draft at {path(it.path)}.",
            code_block(it.draft),
            _compared(it.comparison),
            *(
                f"### Output: {path(name)}\n\n{code_block(text)}"
                for name, text in it.outputs.items()
            ),
        )
        return under("## The result", *facts)
    if best is not None:
        line = f"{_measured(best.score, best.score_from)} It is the draft at {path(best.path)}."
        return under("## The best draft so far", line, code_block(best.draft))
    what = "No draft was judged." if snapshot.status.is_terminal else "No draft is judged yet."
    return under("## The result", what)


def _caveat(it: Caveat, story: Story) -> str:
    accepted = " (accepted by the request)" if it.code in story.request.accept else ""
    return f"{wording.caveat_of(it.code)}{accepted} {path(it.path)}: {escaped(it.detail)}"


def _measured(score: float | None, score_from: str) -> str:
    meaning = wording.SCORES_FROM[score_from]
    if score is None:
        return f"Its score was not measured (it would be {meaning})."
    return f"Its score is **{wording.score(score)}**: {meaning}."


def _error(it: Snapshot) -> str:
    if it.error is None:
        return ""
    line = wording.error_of(it.error.code)
    return f"{line} ({path(it.error.code)}: {escaped(it.error.detail)})"


def _asked(it: Snapshot) -> str:
    reviews = it.reviews if it.status is Status.PAUSED else ()
    return " ".join(
        f"Question: {escaped(asked.question)} Without an answer until"
        f" {wording.time_text(asked.deadline)}, {wording.TIMEOUTS[asked.on_timeout]}."
        for asked in reviews
    )


def _waits(it: Snapshot) -> str:
    if it.waiting is None or it.status.is_terminal:
        return ""
    until = wording.time_text(it.waiting.until)
    return f"{path(it.waiting.key)} waits until {until} for {_waited_for(it.waiting)}."


def _facts(it: Snapshot) -> Iterator[tuple[str, str]]:
    yield "status", path(it.status)
    if it.stop_reason:
        yield "stop reason", path(it.stop_reason)
    if it.outcome:
        yield "outcome", path(it.outcome)
    if it.best is not None:
        yield "best score", f"{wording.score(it.best.score)}; threshold {it.threshold:g}"
    yield "strategy", path(it.strategy)
    if it.phase and not it.status.is_terminal:
        yield "in progress", ", ".join(map(path, it.phase))
    if it.parent:
        begun = f", from {path(it.continued_from.path)}" if it.continued_from else ""
        yield "continues", f"{path(it.parent)}{begun}"
    yield "submitted", wording.time_text(it.created_at)
    yield "started", wording.time_text(it.started_at)
    if it.ended_at:
        yield "ended", wording.time_text(it.ended_at)
    for name, value in it.metadata.items():
        yield f"metadata {escaped(name)}", escaped(value)


def _compared(comparison: Comparison | None) -> str:
    if comparison is None:
        return ""
    names = {"earlier": "the earlier draft", "result": "the result", "tie": "neither"}
    verdicts = (
        f"With {names[it.first]} first, {names[it.better]} was better: {escaped(it.reason)}"
        for it in comparison.orders
    )
    line = wording.VERDICTS[comparison.verdict]
    if not comparison.orders:
        line = "The result is the draft it started from, so no model compared them."
    line = f"{line} (Compared with {path(comparison.against)}.)"
    return under("### Comparison with the start", line, bullet_list(verdicts))


ITERATION_HEAD = (
    "iteration",
    "revised from",
    "score",
    "criteria",
    "passed",
    "findings",
    "untouched",
    "tokens",
    "cost (USD)",
    "seconds",
)


MOST_DRAFTS = 100
"""Drafts whose judgement is shown; of more, those of inner searches are left out first."""

MOST_CHARACTERS = 300_000
"""Characters of all drafts but the best one that are shown together; each has the same share."""

MOST_REMARKS = 50
"""Findings, and remarks of every other kind, that are shown of one draft."""


def draft_table(story: Story) -> str:
    """Return a table of all drafts, the judgement of each, and the text of all but the best one."""
    if not story.iterations:
        return ""
    best = story.best()
    rows = (
        _iteration_row(it, is_best=best is not None and it.path == best.path)
        for it in story.iterations
    )
    shown = _shown(story.iterations)
    share = MOST_CHARACTERS // len(shown)
    left = len(story.iterations) - len(shown)
    return under(
        "## Iterations",
        table(ITERATION_HEAD, rows),
        f"The judgements of {count_text(left, 'draft')} are not shown." if left else "",
        *(_told(it, 0 if it is best else share) for it in shown),
    )


def _shown(judged: Sequence[Iteration]) -> list[Iteration]:
    """Return the drafts whose judgement is shown, in the order of judging."""
    first = sorted(judged, key=lambda it: it.path.count("/"))[:MOST_DRAFTS]
    paths = {it.path for it in first}
    return [it for it in judged if it.path in paths]


def difference(story: Story) -> str:
    """Return the difference from the first draft to the best one, as a unified diff."""
    best = story.best()
    is_followed = story.request.feedback is not None and story.request.draft is not None
    first = GivenDraft(story.request.draft or "") if is_followed else story.first()
    if first is None or best is None:
        return ""
    heading = f"## From {path(first.path)} to {path(best.path)}"
    if first.draft == best.draft:
        return under("## Changes", "None: the first draft is the best one.")
    return under(heading, code_block(diff_of(first, best).unified, "diff"))


def _iteration_row(it: Iteration, *, is_best: bool) -> tuple[str, ...]:
    return (
        f"{path(it.path)} (best)" if is_best else path(it.path),
        path(it.parent) if it.parent else "",
        wording.score(it.score),
        ", ".join(map(wording.criterion, it.scores)),
        wording.yes_or_no(it.passed),
        str(len(it.findings)),
        wording.share(it.edits.untouched) if it.edits else "",
        wording.tokens(it.usage),
        wording.cost(it.usage),
        wording.seconds(it.usage.seconds),
    )


def _told(it: Iteration, characters: int) -> str:
    """Return the judgement of a draft, and that many characters of its text."""
    passed = "passed" if it.passed else "not passed"
    line = f"Score {wording.score(it.score)}, {passed}{_saved(it)}."
    return under(
        f"### {path(it.path)}",
        line,
        wording.ESCAPES[it.escape] if it.escape else "",
        under("**Corrected before judging**", _remarks(_fix, it.fixes)),
        under("**Requested changes**", _remarks(escaped, it.asked)),
        _criteria_judged(it),
        under("**Findings**", _remarks(_finding, it.findings)),
        _issues(it),
        under("**Strengths**", _remarks(escaped, it.strengths)),
        under("**Weaknesses**", _remarks(escaped, it.weaknesses)),
        under("**Suggestions**", _remarks(escaped, it.suggestions)),
        under("#### The draft", code_block(truncated(it.draft, characters)) if characters else ""),
    )


Remark = TypeVar("Remark")


def _remarks(told: Callable[[Remark], str], remarks: Sequence[Remark]) -> str:
    return bullet_list(map(told, remarks), MOST_REMARKS)


def _fix(it: FixMade) -> str:
    changes = "; ".join(
        f'"{escaped(made.before)}" to "{escaped(made.after)}"' for made in it.changes
    )
    count = wording.count_text(it.count, "change")
    return f"{path(it.source)} ({escaped(it.kind)}), {count}: {changes}"


def _saved(it: Iteration) -> str:
    if it.edits is None:
        return ""
    made = wording.count_text(it.edits.applied, "edit")
    line = f"; made by {made} that left {wording.share(it.edits.untouched)} unchanged"
    saved = it.edits.output_tokens_saved
    if saved is None:
        return line
    return f"{line} and {'saved' if saved >= 0 else 'cost'} {abs(saved):,} output tokens"


def _criteria_judged(it: Iteration) -> str:
    rows = [
        (
            escaped(found.criterion),
            wording.score(found.score),
            "" if found.spread is None else wording.score(found.spread),
            escaped(found.reason),
            "; ".join(f"“{escaped(quoted.quote, 300)}”" for quoted in found.evidence),
        )
        for found in it.scores
    ]
    return table(("criterion", "score", "spread", "reason", "evidence"), rows) if rows else ""


def _finding(it: Finding) -> str:
    line = f"{path(it.source)}, {escaped(it.kind)} ({it.on_fail}): {escaped(it.message)}"
    quote = f" At “{escaped(it.quote, 300)}”." if it.quote else ""
    fix = f" Fix: {escaped(it.fix)}" if it.fix else ""
    return f"{line}{quote}{fix}"


def _issues(judged: Iteration) -> str:
    """Return the number of issues by state, and a list of those that are not new findings."""
    states = [issue.state for issue in judged.issues]
    counts = [f"{states.count(it)} {label}" for it, label in wording.ISSUES.items() if it in states]
    older = [_issue(issue) for issue in judged.issues if issue.state is not IssueState.NEW]
    if not counts:
        return ""
    return joined_blocks((f"**Issues**: {', '.join(counts)}.", bullet_list(older, MOST_REMARKS)))


def _issue(it: Issue) -> str:
    line = f"**{wording.ISSUES[it.state]}**, since {path(it.since)}, {escaped(it.kind)}"
    return f"{line}: {escaped(it.message)}"


STEP_HEAD = ("step", "kind", "model", "tokens", "cost (USD)", "seconds")
KINDS = {"ask": "model call", "check": "validation", "call": "tool call"}


def step_table(story: Story) -> str:
    """Return a row for every step, and the totals of the snapshot."""
    rows = [_step_row(step) for step in story.steps()]
    return joined_blocks(
        (
            under("## Steps", table(STEP_HEAD, rows) if rows else "No steps."),
            under("## Totals", table(("quantity", "total"), _totals(story))),
        )
    )


def _step_row(step: StepCompleted | StepFailed) -> tuple[str, ...]:
    figures = (
        wording.tokens(step.usage),
        wording.cost(step.usage),
        wording.seconds(step.usage.seconds),
    )
    if isinstance(step, StepFailed):
        return (path(step.key), "failed", "", *figures)
    return (path(step.key), KINDS[step.kind], _model(step), *figures)


def _model(step: StepCompleted) -> str:
    """Return the model that answered, and those that failed before it."""
    name = escaped(step.model or "")
    if not step.tried:
        return name
    failed = ", ".join(f"{escaped(it.model)} ({path(it.code)})" for it in step.tried)
    return f"{name}, fallback for {failed}"


def _totals(story: Story) -> Iterator[tuple[str, str]]:
    usage = story.snapshot.usage
    yield "model calls", f"{usage.calls:,}"
    yield "input tokens", f"{usage.input_tokens:,}"
    if usage.cached_tokens:
        share = wording.share(usage.cached_share)
        yield "of which read from a cache", f"{usage.cached_tokens:,} ({share})"
    yield "output tokens", f"{usage.output_tokens:,}"
    if usage.thinking_tokens:
        yield "of which thinking", f"{usage.thinking_tokens:,}"
    yield "cost (USD)", wording.cost(usage)
    yield "seconds waiting for steps", wording.seconds(usage.seconds)
