"""Writes drafts and revises the best one: whole, by edits, or in parts side by side."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from app.contract.calls import AGAIN, AMENDED_AGAIN
from app.contract.drafts import EditMode, EditsMade, lacking, spans_of
from app.contract.judgement import Finding, IssueState, OnFail, Span
from app.contract.values import value
from workers.engine.asking import (
    REFUSED,
    CutOff,
    WrittenText,
    ask,
    object_of,
    question,
    written_in,
)
from workers.engine.edits import (
    CannotApply,
    Edited,
    SearchReplace,
    applied,
    passages_in,
    restored,
)
from workers.engine.issue_tracker import NO_ISSUES, IssueTracker, Tracked
from workers.engine.judging import below_floor, judge
from workers.engine.moves import Draft, Judgement, MoveCoroutine, Scored, StepError, within
from workers.engine.prompts import Amend, Revise, RevisePassages, Task, Write
from workers.engine.replies.likeness import Told
from workers.engine.replies.reader import (
    CUT_OFF,
    NO_CRITIQUE,
    OVERLONG,
    ReplyModel,
    ReplyReader,
    Unreadable,
    listed_in,
)
from workers.engine.search import RequestedRevision, Search

MOST_MENDED = 20
"""Lines about resolved issues; the latest go first."""


@value(slots=True)
class RevisionBase:
    """A draft that is revised: its verdict, its path, and the threshold for the revision."""

    scored: Scored
    path: str
    threshold: float
    issues: IssueTracker = NO_ISSUES
    tried: tuple[str, ...] = ()
    """Earlier revisions of the same draft that were no better, in words."""

    @property
    def text(self) -> str:
        """The draft."""
        return self.scored.draft.text

    def failing(self, task: Task) -> tuple[str, ...]:
        """Return what failed, for the reviser: validators, criteria, then the critic's findings.

        A criterion fails when its score is below the threshold or its floor is not met.
        """
        scored = self.scored
        known = {issue.finding: issue for issue in self.issues.open}
        demanded = [finding for finding in scored.findings if finding.on_fail is not OnFail.WARN]
        lines = [_line(finding) + _history(known.get(finding)) for finding in demanded]
        weak = {criterion.name for criterion in below_floor(scored.scores, task.criteria)}
        told = Told(finding.message for finding in scored.critique.findings)
        for given in scored.scores:
            is_low = given.score is not None and given.score < self.threshold
            if is_low or given.criterion in weak:
                reason = "" if told.says(given.reason) else given.reason
                said = f"{given.criterion}: {reason}" if reason else given.criterion
                lines.append(f"{said} (not met yet)")
        found = scored.critique.findings
        return (*lines, *(_line(finding) + _history(known.get(finding)) for finding in found))


def _base_in(search: Search, judged: Judgement, scored: Scored) -> RevisionBase:
    """Return a judged draft as one that is revised, with what was tried on it in a search."""
    tried = tried_on(scored, search.ranking.revisions_of(judged.path))
    return RevisionBase(scored, judged.path, search.limits.threshold, judged.issues, tried)


def mended_in(issues: IssueTracker) -> tuple[str, ...]:
    """Return the issues of earlier drafts of this line that this draft does not have."""
    mended = [issue.finding for issue in issues.mended if issue.finding.on_fail is not OnFail.WARN]
    return tuple(f"{finding.kind}: {finding.message}" for finding in mended[:MOST_MENDED])


def _line(finding: Finding) -> str:
    quoted = f' at "{finding.quote}"' if finding.quote else ""
    fix = f" Fix: {finding.fix}" if finding.fix else ""
    return f"{finding.kind}{quoted}: {finding.message}{fix}"


def _history(issue: Tracked | None) -> str:
    if issue is None or issue.state is IssueState.NEW:
        return ""
    since = issue.path.removeprefix("/")
    if issue.state is IssueState.CARRIED:
        return f" (carried since {since}: earlier attempts did not mend it)"
    return f" (came back: found first in {since}, mended, and undone again)"


MOST_TRIED = 3
"""Earlier revisions of one draft that a prompt tells of; the latest go last."""

MOST_SHOWN = 3
"""Passages of an earlier revision, and reasons against it, that a prompt shows."""

PASSAGE = 160
"""Characters of a passage or a reason that are shown."""

SENTENCE = re.compile(r"[^.!?\n\u3002\uff01\uff1f]*[.!?\u3002\uff01\uff1f]*")


def tried_on(base: Scored, revisions: Sequence[Judgement]) -> tuple[str, ...]:
    """Return earlier revisions of a draft in words: what each changed, and why it was no better.

    After Reflexion (arXiv:2303.11366): without such a memory the same prompt is sent again.
    """
    numbered = list(enumerate(revisions, 1))[-MOST_TRIED:]
    return tuple(
        f"Attempt {number} {_changed(base.draft.text, revision.scored.draft.text)}."
        f" {_why_no_better(base, revision.scored)}"
        for number, revision in numbered
    )


def _changed(before: str, after: str) -> str:
    """Return the passages that a revision put in, else that it only left something out."""
    known = set(_sentences(before))
    new = [sentence for sentence in dict.fromkeys(_sentences(after)) if sentence not in known]
    if not new:
        return "only left passages out or moved them"
    shown = ", ".join(f'"{_cut(sentence)}"' for sentence in new[:MOST_SHOWN])
    more = f" and {len(new) - MOST_SHOWN} more" if len(new) > MOST_SHOWN else ""
    return f"wrote {shown}{more}"


def _why_no_better(base: Scored, scored: Scored) -> str:
    """Return what a revision made worse, else what it did not mend."""
    before = {given.criterion: given.score for given in base.scores if given.score is not None}
    worse = [
        f"{given.criterion} got worse: {given.reason}"
        for given in scored.scores
        if given.score is not None and given.score < before.get(given.criterion, 0.0)
    ]
    known = {finding.message for finding in base.findings}
    worse += [_line(finding) for finding in scored.findings if finding.message not in known]
    found = worse or [_line(finding) for finding in (*scored.findings, *scored.critique.findings)]
    return "; ".join(map(_cut, found[:MOST_SHOWN])) or "It mended nothing that counts."


def _sentences(text: str) -> list[str]:
    return [bare for found in SENTENCE.findall(text) if (bare := found.strip())]


def _cut(text: str) -> str:
    return text if len(text) <= PASSAGE else f"{text[:PASSAGE]}..."


LONG = 1_500
"""Characters from which edits save tokens: in a shorter draft, quotations and JSON cost more."""

GOOD = 0.5
"""Score from which more of a draft stays than changes."""

UNUSABLE = "unusable_edits"


class _Edit(ReplyModel):
    search: str
    replace: str


def edits_in(reply: ReplyReader) -> list[SearchReplace]:
    """Return the edits of a reply. Raises `Unreadable` with what is wrong with it."""
    said = listed_in(reply, "edits", _Edit, "edit")
    return [SearchReplace(edit.search, edit.replace) for edit in said]


def is_delta(
    edits: EditMode, draft: str, score: float | None, *, is_document: bool = False
) -> bool:
    """Return whether to revise a draft by edits.

    With `auto` a document is rewritten: the format of a reply does not hold for what edits make.
    """
    if edits == "auto":
        return not is_document and len(draft) >= LONG and score is not None and score >= GOOD
    return edits == "delta"


async def amended(
    prompt_request: Revise, path: str = "revise", times: int = AMENDED_AGAIN
) -> Edited | None:
    """Return the draft with a reviser's edits applied; None when they cannot be applied.

    Unusable edits are asked for again `times` times, with the edit that fails and the reason.
    """

    task = prompt_request.task

    def read(reply: ReplyReader) -> Edited:
        try:
            made = applied(prompt_request.draft, edits_in(reply), task.locked)
        except CannotApply as error:
            raise Unreadable(str(error)) from None
        return replace(made, text=object_of(made.text, task)) if task.is_object else made

    try:
        return await ask(
            question(path, "generator", Amend(task, prompt_request)),
            read,
            UNUSABLE,
            times=times,
        )
    except StepError as failure:
        if failure.code == UNUSABLE or isinstance(failure, CutOff):
            return None
        raise


UNUSABLE_PASSAGES = "unusable_passages"


async def revise_passages(
    task: Task, base: RevisionBase, spans: tuple[Span, ...], failing: tuple[str, ...]
) -> Draft:
    """Return a draft in which these passages are revised and everything else is as it was.

    Raises `StepError` (`unusable_passages`) when the reply stays unusable: a whole text would not
    keep what is around them.
    """
    before, found = base.text, base.scored.findings
    revision = Revise(task, before, failing, NO_CRITIQUE, found, tried=base.tried)
    said = [finding.message for finding in found if finding.source == REVIEWER]
    made = await ask(
        question("revise", "generator", RevisePassages(task, revision, spans)),
        passages_in(before, spans, task.locked, said),
        UNUSABLE_PASSAGES,
    )
    untouched = 1 - sum(span.end - span.start for span in spans) / len(before)
    edits = EditsMade(applied=len(spans), untouched=round(untouched, 6))
    return Draft(made.text, base.path, failing, False, edits, spans=made.spans)


First = Callable[[Task], MoveCoroutine[Draft]]
Revised = Callable[[Task, RevisionBase], MoveCoroutine[Draft]]


async def propose(
    task: Task,
    search: Search,
    first: First | None = None,
    revised: Revised | None = None,
    *,
    by: int = 1,
) -> Draft:
    """Return the next draft; `by` is the number of the generator that writes.

    The next draft is what a reviewer asked for, else a revision of the best, else the client's own
    draft, or a revision of it by the feedback of the request, else a first one. `first` and
    `revised` replace how a strategy writes and revises.
    """
    task = task if by == 1 else replace(task, writer=str(by))
    revised = _following(task, revised or revise)
    if search.wish is not None:
        return await _wished(task, search, search.wish, revised)
    if search.is_escaping:
        return await _escaped(task, search, first, revised)
    if (base := search.ranking.base) is not None:
        return await revised(task, _base_in(search, base, base.scored))
    return await _begun(task, search, first, revised)


Judging = Callable[[Task, Draft], MoveCoroutine[Scored]]


async def judged_draft(
    task: Task,
    search: Search,
    judging: Judging = judge,
    first: First | None = None,
    revised: Revised | None = None,
    *,
    at: str | None = None,
) -> Scored:
    """Return the next draft of a search with its verdict; both are made below `at`.

    Without `at` that is the path of the next iteration.
    """
    at = at or search.upcoming
    draft = await _proposed(task, search, first, revised, at)
    return await within(at, judging(task, draft))


UNUSABLE_REPLIES = frozenset(
    {"empty_draft", "unreadable_draft", "unreadable_reply", "unreadable_steps"}
    | {REFUSED, CUT_OFF, UNUSABLE_PASSAGES, "content_filtered"}
)
"""The codes of a step in which a model was asked for a draft, and gave none that can be used."""


async def _proposed(
    task: Task, search: Search, first: First | None, revised: Revised | None, at: str
) -> Draft:
    """Return the next draft, below `at`: that of the next generator where one gave none."""
    for by in search.writers:
        try:
            draft = await within(at, propose(task, search, first, revised, by=by))
        except StepError as failure:
            if by == search.writers[-1] or failure.code not in UNUSABLE_REPLIES:
                raise
            at = f"{failure.steps[0]}/generator/{by + 1}"
        else:
            return draft if by == 1 else replace(draft, generator=by)
    raise AssertionError("there is a generator, and the last one returns or raises")


async def improve(task: Task, search: Search, judging: Judging = judge) -> None:
    """Make, judge and revise drafts until a stop rule holds."""
    for at in search.iterations():
        await search.judged(await judged_draft(task, search, judging, at=at))


async def heeded(task: Task, search: Search, judging: Judging = judge) -> None:
    """Make and judge the drafts that a reviewer asks for, until they ask for no more."""
    while search.wish is not None:
        await search.judged(await judged_draft(task, search, judging))


async def _begun(task: Task, search: Search, first: First | None, revised: Revised) -> Draft:
    """Return a text that a person gave, else what a search begins with."""
    if (text := await search.given()) is not None:
        return Draft(text, is_reply=False)
    if task.draft is not None and task.feedback is not None:
        unjudged = Scored(Draft(task.draft, spans=task.spans), None)
        draft = await revised(task, RevisionBase(unjudged, "", search.limits.threshold))
        return replace(draft, parent=None)
    if task.draft is not None:
        return Draft(task.draft, is_reply=task.is_clients_draft)
    return await first(task) if first else _draft(await write(task))


def _following(task: Task, revised: Revised) -> Revised:
    """Return how drafts are revised: by the feedback of the request too, in its passages alone."""
    if task.feedback is None and not task.spans:
        return revised

    async def followed(task: Task, base: RevisionBase) -> Draft:
        is_asked = any(finding.source == REVIEWER for finding in base.scored.findings)
        if task.feedback is not None and not is_asked:
            base = replace(base, scored=_with_feedback(base.scored, task.feedback))
        spans = base.scored.draft.spans if task.spans else ()
        if not spans:
            return await revised(task, base)
        base = replace(base, scored=_about(spans, base.scored))
        return await revise_passages(task, base, spans, base.failing(task))

    return followed


REVIEWER = "reviewer"


def _with_feedback(scored: Scored, feedback: str) -> Scored:
    """Return a draft with a reviewer's feedback as the first finding."""
    said = Finding(source=REVIEWER, kind="review", message=feedback)
    return replace(scored, findings=(said, *scored.findings))


def _about(spans: Sequence[Span], scored: Scored) -> Scored:
    """Return a draft without what was found elsewhere than in these passages."""

    def concerns(finding: Finding) -> bool:
        place = finding.span
        return place is None or any(place.start < at.end and at.start < place.end for at in spans)

    critique = scored.critique
    found = tuple(filter(concerns, critique.findings))
    critique = critique.model_copy(update={"findings": found})
    return replace(scored, findings=tuple(filter(concerns, scored.findings)), critique=critique)


async def _escaped(task: Task, search: Search, first: First | None, revised: Revised) -> Draft:
    """Return a draft made in another way than those before it, from the same findings.

    A text that was written from the task is written anew; one that was given, whose facts only it
    has, is revised at a higher temperature.
    """
    assert search.ranking.base is not None  # it was judged
    base = _base_in(search, search.ranking.base, search.ranking.base.scored)
    sampled = replace(task, is_sampled=True)
    if task.draft is None:
        failing = base.failing(task)
        anew = replace(sampled, avoids=failing)
        draft = await first(anew) if first else _draft(await write(anew))
        return replace(draft, asked=failing, escape="fresh_draft")
    return replace(await revised(sampled, base), escape="temperature")


async def write(task: Task) -> WrittenText:
    """Return a first text for a task."""
    asked = question("draft", "generator", Write(task))
    return await ask(asked, written_in, _unread(task))


def _unread(task: Task) -> str:
    """Return the code of a step whose replies contain no draft."""
    return "empty_draft" if task.document is None else "unreadable_draft"


async def revise(task: Task, base: RevisionBase) -> Draft:
    """Return a revision that is asked to fix what failed and to keep what was fixed before."""
    failing, draft, scored = base.failing(task), base.text, base.scored
    mended, findings = mended_in(base.issues), scored.findings
    prompt_request = Revise(task, draft, failing, scored.critique, findings, mended, base.tried)
    path = "revise"
    if is_delta(task.edits, draft, scored.score, is_document=task.document is not None):
        if edited := await amended(prompt_request):
            return _from_edits(edited, base.path, failing)
        path = "revise/full"
    is_first = path == "revise"
    try:
        asked = question(path, "generator", prompt_request)
        text = await ask(asked, written_in, _unread(task), spared=int(is_first))
    except CutOff as cut_off:
        if cut_off.code == OVERLONG and not is_first:
            cut_off.steps = ("revise",)  # the edits, for which it stands in
        if not is_first or cut_off.asked > AGAIN:
            raise
        return await _edited(prompt_request, base.path, cut_off)
    return kept_locked(task, draft, _draft(text, base.path, failing))


async def _edited(prompt_request: Revise, parent: str, cut_off: CutOff) -> Draft:
    """Return the draft revised by edits, because its whole text is too long for the model.

    Raises `cut_off` when the edits cannot be applied either.
    """
    edited = await amended(prompt_request, "revise/edits", AGAIN - cut_off.asked)
    if edited is None:
        raise cut_off
    return _from_edits(edited, parent, prompt_request.failing)


def _from_edits(edited: Edited, parent: str, failing: tuple[str, ...]) -> Draft:
    made = EditsMade(applied=edited.applied, untouched=edited.untouched)
    return Draft(edited.text, parent, failing, False, made)


def kept_locked(task: Task, before: str, draft: Draft) -> Draft:
    """Return a revision with every locked text of the draft before it restored."""
    text = restored(before, draft.text, task.locked) if lacking(draft.text, task.locked) else ""
    if not text or text == draft.text:
        return draft
    return replace(draft, text=text, is_reply=False)


async def _wished(task: Task, search: Search, wish: RequestedRevision, revised: Revised) -> Draft:
    """Return a reviewer's own text, or a revision of the draft they saw, their feedback first."""
    scored, reply = wish.of.scored, wish.reply
    if reply.draft is not None:
        return Draft(reply.draft, wish.of.path, is_reply=False)
    if reply.feedback is not None:
        scored = _with_feedback(scored, reply.feedback)
        if reply.spans:
            said = scored.findings[:1]
            spans = spans_of(scored.draft.text, reply.spans, task.locked)
            base = RevisionBase(
                replace(scored, findings=said), wish.of.path, search.limits.threshold
            )
            return await revise_passages(task, base, spans, (_line(said[0]),))
    return await revised(task, _base_in(search, wish.of, scored))


def _draft(written: WrittenText, parent: str | None = None, asked: tuple[str, ...] = ()) -> Draft:
    return Draft(written.text, parent, asked, written.is_reply)
