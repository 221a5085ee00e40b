"""The section of a report on what raised the score, and what was spent for it."""

from collections.abc import Callable, Iterable, Sequence

from app.contract.editor import EDITOR
from app.contract.events import IterationCompleted, unvoided
from app.contract.gains import DraftGain, Gains, gains_of, iteration_of, lost_from
from app.contract.judgement import Usage
from app.service.report import wording
from app.service.report.markdown import escaped, path, table, under
from app.service.report.sections import Story

COST_HEAD = ("calls", "tokens", "cost (USD)", "seconds")
KEPT, NOT_KEPT = "drafts that went into the result", "drafts without gain: not kept"
FIRST, ELSE = "drafts that are not compared, such as first ones", "everything else"
NOISE = (
    "A difference of two scores is not yet a difference in quality: a model that judges does not"
    " give a text the same score every time."
)


def gains_in(story: Story) -> Gains:
    """Return the gains of a refinement so far."""
    result = story.snapshot.result
    counting = (event.data for event in unvoided(story.events))
    return gains_of(
        [it for it in counting if isinstance(it, IterationCompleted)],
        [*story.steps()],
        result.path if result else None,
        lost_from(result),
    )


def gains(story: Story) -> str:
    """Return by how much which drafts raised the score; nothing if no draft compares with one."""
    found = gains_in(story)
    if not found.drafts:
        return ""
    return under(
        "## What raised the score",
        _whole(found),
        _caution(story, found),
        _estimated(story),
        under("### By draft", _by_draft(found.drafts)),
        under("### By pass, stage or part", _by_search(found.drafts)),
        under("### By criterion", _by_criterion(found)),
        under("### By model", _by_model(found.drafts)),
        under("### What it was spent on", _spent(story, found)),
    )


def _whole(found: Gains) -> str:
    kept = sum(it.is_kept for it in found.drafts)
    count = wording.count_text(len(found.drafts), "draft")
    line = f"Of {count} with an earlier one to compare with, {kept} went into the result."
    start, final = found.start, found.final
    if found.change is None or start is None or final is None or start is final:
        return line
    scores = f"{wording.score(start.score)} at {path(start.path)} to {wording.score(final.score)}"
    change = wording.signed_score(found.change)
    return f"The score went from {scores} at {path(final.path)}: **{change}**. {line}"


def _caution(story: Story, found: Gains) -> str:
    """Return how far the scores can be trusted; nothing for scores without noise."""
    if all(critic == EDITOR for it in found.drafts for critic in it.critics):
        return ""
    spreads = [of.spread for it in story.iterations for of in it.scores if of.spread is not None]
    if not spreads or not max(spreads):
        return NOISE
    widest = wording.score(max(spreads))
    return f"{NOISE} Here judgements of the same draft differed by up to {widest} on a criterion."


def _estimated(story: Story) -> str:
    """Return what the result is probably worth, if enough is known."""
    result = story.snapshot.result
    if result is None or result.estimate is None:
        return ""
    it, chance = result.estimate, ""
    if it.chance is not None:
        chance = f"; the threshold is truly met with a probability of {wording.share(it.chance)}"
    return (
        "By what the scores of earlier refinements taught, the quality of the result is probably"
        f" {wording.score(it.value)}, with a standard error of {wording.score(it.error)}{chance}."
    )


def _by_draft(drafts: Sequence[DraftGain]) -> str:
    rows = (
        (
            path(it.path),
            path(it.base),
            it.step.rpartition("/")[2],
            escaped(it.writer or ""),
            wording.signed_score(it.change),
            wording.signed_score(it.gain) if it.is_kept else "not kept",
            *_cost(it.usage),
        )
        for it in sorted(drafts, key=lambda it: (it.is_kept, it.change), reverse=True)
    )
    head = ("draft", "compared with", "made as", "model", "change", "gain", *COST_HEAD)
    return table(head, rows)


def _by_search(drafts: Sequence[DraftGain]) -> str:
    searches = dict.fromkeys(it.search for it in drafts)
    if not any(searches):
        return ""
    return _grouped(
        "where",
        "gain",
        (
            (path(search) if search else "the whole", [it for it in drafts if it.search == search])
            for search in searches
        ),
        lambda of: sum(it.gain for it in of),
    )


def _by_model(drafts: Sequence[DraftGain]) -> str:
    models = dict.fromkeys(it.writer for it in drafts if it.writer is not None)
    if len(models) < 2:
        return ""
    return _grouped(
        "model",
        "mean gain",
        ((escaped(model), [it for it in drafts if it.writer == model]) for model in models),
        lambda of: sum(it.gain for it in of) / len(of),
    )


def _grouped(
    head: str,
    measure: str,
    groups: Iterable[tuple[str, Sequence[DraftGain]]],
    gain_of: Callable[[Sequence[DraftGain]], float],
) -> str:
    """Return a table with the largest gain first."""
    rows = (
        (
            name,
            str(len(drafts)),
            str(sum(it.is_kept for it in drafts)),
            wording.signed_score(gain),
            *_cost(sum((it.usage for it in drafts), Usage())),
        )
        for gain, name, drafts in sorted(
            ((gain_of(drafts), name, drafts) for name, drafts in groups),
            key=lambda it: it[0],
            reverse=True,
        )
    )
    return table((head, "drafts", "kept", measure, *COST_HEAD), rows)


def _by_criterion(found: Gains) -> str:
    if found.change is None or found.start is None or found.final is None:
        return ""
    before = {it.criterion: it.score for it in found.start.scores}
    if len(before) < 2 or found.start is found.final:
        return ""
    changes = [
        (it.score - known, escaped(it.criterion), known, it.score)
        for it in found.final.scores
        if it.score is not None and (known := before[it.criterion]) is not None
    ]
    rows = (
        (name, wording.score(known), wording.score(score), wording.signed_score(change))
        for change, name, known, score in sorted(changes, key=lambda it: it[0], reverse=True)
    )
    return table(("criterion", "from", "to", "gain"), rows)


def _spent(story: Story, found: Gains) -> str:
    """Return what kept drafts, other drafts and everything else cost."""
    kinds = {it.path: KEPT if it.is_kept else NOT_KEPT for it in found.drafts}
    usages = {KEPT: Usage(), NOT_KEPT: Usage(), FIRST: Usage(), ELSE: Usage()}
    for step in story.steps():
        at = iteration_of(step.key)
        usages[ELSE if at is None else kinds.get(at, FIRST)] += step.usage
    rows = ((kind, *_cost(usage)) for kind, usage in usages.items() if usage != Usage())
    return table(("on", *COST_HEAD), rows)


def _cost(usage: Usage) -> tuple[str, ...]:
    return (
        f"{usage.calls:,}",
        wording.tokens(usage),
        wording.cost(usage),
        wording.seconds(usage.seconds),
    )
