"""Writes drafts and revises the best one: whole, by edits, or in passages.

Exact edits and new texts of passages are applied all or not at all. What no edit and no new passage
changes stays byte for byte, and so does what a rewritten text does not change: models return other
line ends than they were given, and no blanks at both ends.

The new text of a passage is read as a draft is read. A model shows its manners there too: it
refuses, thinks, and gives the sentences around the passage again, which stand in the draft already.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import accumulate, pairwise
from typing import Self
from unicodedata import is_normalized, normalize

from app.contract.calls import AGAIN, AMENDED_AGAIN
from app.contract.drafts import EditMode, EditsMade, draft_of, lacking, locked_spans, spans_of
from app.contract.judgement import Finding, IssueState, OnFail, Span
from app.contract.object_drafts import revised_object
from app.contract.values import value
from workers.engine.asking import REFUSED, CutOff, ask, question
from workers.engine.judging import below_floor, judge
from workers.engine.moves import (
    NO_ISSUES,
    Draft,
    IssueTracker,
    Judgement,
    MoveCoroutine,
    Scored,
    StepError,
    Tracked,
    within,
)
from workers.engine.prompts import Amend, Revise, RevisePassages, Task, Write
from workers.engine.replies.likeness import SIGNS, Told
from workers.engine.replies.reader import (
    CUT_OFF,
    NO_CRITIQUE,
    OVERLONG,
    Doubtful,
    Refused,
    ReplyModel,
    ReplyReader,
    Unreadable,
    decoded_json,
    listed_in,
)
from workers.engine.replies.texts import DECLINING, phrase
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


class CannotApply(Exception):
    """An edit that cannot be applied; the message names it and says why."""


@value(slots=True)
class SearchReplace:
    """Words that occur in a draft exactly once, and their replacement."""

    search: str
    replace: str


@value(slots=True)
class Edited:
    """A draft with every edit applied; `untouched` is the share of its characters left alone."""

    text: str
    applied: int
    untouched: float


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
        return Draft(text)
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


@value(slots=True)
class WrittenText:
    """A text, and whether the journal's readers find it in the recorded reply by `draft_of`."""

    text: str
    is_reply: bool

    @classmethod
    def of(cls, text: str, reply: ReplyReader) -> Self:
        """Return the text that was read in a reply."""
        return cls(text, draft_of(reply.raw) == text)


async def write(task: Task) -> WrittenText:
    """Return a first text for a task."""
    asked = question("draft", "generator", Write(task))
    return await ask(asked, written_in, _unread(task))


def written_in(reply: ReplyReader) -> WrittenText:
    """Return the text of a reply that becomes a draft. Raises `Unreadable` when there is none.

    Words that a revision keeps of its draft stay byte for byte. The draft itself is returned for a
    reply that was asked for again and may be no text still.
    """
    base = getattr(reply.asked, "draft", None)
    try:
        text = reply.text() if reply.asked.task.document is None else reply.document()
    except Doubtful as doubt:
        if not reply.is_again or base is None:
            raise
        reply.drop("the text", str(doubt))
        return WrittenText(base, is_reply=False)
    if base is not None:
        text = in_place_of(base, text)
    if reply.asked.task.is_object:
        text = object_of(text, reply.asked.task)
    return WrittenText.of(text, reply)


def object_of(text: str, task: Task) -> str:
    """Return the text of a revised object; raise `Unreadable` for what is no such object."""
    try:
        return revised_object(text, task.draft or "")
    except ValueError as error:
        raise Unreadable(str(error)) from None


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
        return Draft(reply.draft, wish.of.path)
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


PIECES = (
    re.compile(r"[^\n]*\n|[^\n]+"),
    re.compile(r"[^.!?]*[.!?]+\s*|[^.!?]+"),
    re.compile(r"\w+|\s+|[^\w\s]"),
)
"""Lines, sentences, words: pieces that differ are split further and compared again."""

MOST_PIECES = 5_000
"""A longer list is replaced as a whole, because comparing takes quadratic time."""

SHOWN = 80
"""Characters of an edit shown in an error."""


@value(slots=True)
class _Change:
    """The characters `start` to `end` of a draft become `text`."""

    start: int
    end: int
    text: str

    def touches(self, span: Span) -> bool:
        """Return whether it changes anything inside a span."""
        return self.start < span.end and self.end > span.start


def applied(draft: str, edits: Sequence[SearchReplace], locked: Sequence[str] = ()) -> Edited:
    """Return the draft with all edits applied, each where the given draft has its words.

    Raises `CannotApply` when there are no edits, or for an edit that is not found exactly once,
    changes nothing, overlaps with another or touches locked text.
    """
    if not edits:
        raise CannotApply("there are no edits")
    changes = sorted(
        (_change(draft, edit) for edit in edits), key=lambda change: (change.start, change.end)
    )
    for one, other in pairwise(changes):
        if other.start < one.end or other.start == one.start:
            raise CannotApply(f"two edits overlap at {_shown(draft[other.start :])}: merge them")
    for span in locked_spans(draft, locked):
        kept = draft[span.start : span.end]
        for change in changes:
            if change.touches(span) and kept not in change.text:
                raise CannotApply(
                    f"the edit at {_shown(draft[change.start :])} touches locked text, "
                    f"which must stay: {_shown(kept)}"
                )
    text = _made(draft, changes)
    if gone := lacking(text, [words for words in locked if words in draft]):
        raise CannotApply(f"an edit moves locked text, which must stay: {_shown(gone[0])}")
    touched = sum(change.end - change.start for change in changes)
    return Edited(text, len(changes), round(1 - touched / len(draft), 6))


@value(slots=True)
class Replaced:
    """A draft with other passages, and where these are; all around them is as it was."""

    text: str
    spans: tuple[Span, ...]


def replaced(
    draft: str, spans: Sequence[Span], texts: Sequence[str], locked: Sequence[str] = ()
) -> Replaced:
    """Return the draft with each passage replaced by its text; `spans` are in order.

    The white space at the ends of a passage stays, unless the passage is deleted, and new lines end
    as those of the draft do. Locked text in a passage stays.
    """
    pieces: list[str] = []
    found: list[Span] = []
    at = length = 0
    line_end = usual_line_end(draft)
    for span, text in zip(spans, texts, strict=True):
        before = draft[span.start : span.end]
        new = in_place_of(before, text.strip(), line_end)
        new = restored(before, new, [words for words in locked if words in before])
        length += span.start - at
        found.append(Span(start=length, end=length + len(new)))
        pieces += [draft[at : span.start], new]
        at, length = span.end, length + len(new)
    return Replaced("".join([*pieces, draft[at:]]), tuple(found))


BLANK = " \t\n\r\x0b\x0c\u3000\ufeff\u200b\u2060"
LINE_END = re.compile(r"\r\n?|\n")
TRAILING = re.compile(r"[ \t](?=[\r\n])")


def in_place_of(before: str, text: str, line_end: str | None = None) -> str:
    """Return a revision of a text with what it does not change byte for byte as it was.

    The kept parts are the blanks at both ends (byte order mark and final line end included), the
    line ends, the blanks before them, and the Unicode form of lines that are the same. New lines
    end as most lines of the text before do, or with `line_end`. An indent of its own stays. Returns
    an empty text for a blank one.
    """
    bare = text.strip(BLANK)
    if not bare:
        return ""
    body = before.strip(BLANK)
    if not body:
        return bare
    start, end = before.index(body), before.index(body) + len(body)
    lines = before[:start].rstrip(" \t\u3000")
    given, own = before[len(lines) : start], _indent_of(text, bare)
    indent = own if own or _is_dedented(body, bare) else given
    return f"{lines}{indent}{_with_lines_of(body, bare, line_end)}{before[end:]}"


def _indent_of(text: str, bare: str) -> str:
    head = text[: text.index(bare)]
    return head[len(head.rstrip(" \t\u3000")) :]


def _is_dedented(before: str, after: str) -> bool:
    """Return whether the lines after the first were all indented, and are no longer."""
    return _least_indent(before) > 0 == _least_indent(after) and "\n" in after


def _least_indent(text: str) -> int:
    rest = [line for line in LINE_END.split(text)[1:] if line.strip()]
    return min((len(line) - len(line.lstrip()) for line in rest), default=0)


def _with_lines_of(before: str, after: str, line_end: str | None) -> str:
    """Return a text with the bytes of those lines that another has too."""
    ends = LINE_END.findall(before)
    usual = line_end or usual_line_end(before)
    if usual is None:
        return after
    is_plain = (
        {usual}.issuperset(ends) and not TRAILING.search(before) and is_normalized("NFC", before)
    )
    if is_plain:
        return LINE_END.sub(usual, after)
    old, new = _lines(before), _lines(after)
    old[-1] = (old[-1][0], old[-1][1] + usual)
    if max(len(old), len(new)) > MOST_PIECES:
        return LINE_END.sub(usual, after)
    lines = [f"{words}{LINE_END.sub(usual, tail)}" for words, tail in new]
    was, now = ([normalize("NFC", words) for words, _ in line] for line in (old, new))
    for kind, start, end, at, to in SequenceMatcher(None, was, now).get_opcodes():
        if kind == "equal" or (kind == "replace" and end - start == to - at):
            for place, other in zip(range(at, to), range(start, end), strict=True):
                words = old[other][0] if kind == "equal" else new[place][0]
                lines[place] = words + old[other][1] if place < len(new) - 1 else words + new[-1][1]
    return "".join(lines)


def _lines(text: str) -> list[tuple[str, str]]:
    """Return the words of each line, and the blanks and the line end after them."""
    ends = [*LINE_END.findall(text), ""]
    lines = zip(LINE_END.split(text), ends, strict=True)
    return [(line.rstrip(" \t"), line[len(line.rstrip(" \t")) :] + end) for line, end in lines]


def usual_line_end(text: str) -> str | None:
    """Return how most lines of a text end, None if it has one line only."""
    found = Counter(LINE_END.findall(text)).most_common(1)
    return found[0][0] if found else None


def between(before: str, after: str) -> tuple[SearchReplace, ...]:
    """Return edits that turn one text into another: few, and each found exactly once.

    Lines are compared first, then the sentences and words of those that differ. There are no edits
    for equal texts, nor for an empty `before`, in which nothing can be found.
    """
    changes = list(_differences(before, after, PIECES)) if before else []
    ranges: list[tuple[int, int]] = []
    for change in changes:
        start, end = _unique(before, change.start, change.end)
        while ranges and ranges[-1][1] >= start:
            last = ranges.pop()
            start, end = min(last[0], start), max(last[1], end)
        ranges.append((start, end))
    return tuple(
        SearchReplace(before[start:end], _made(before, changes, start, end))
        for start, end in ranges
    )


def restored(before: str, after: str, locked: Sequence[str]) -> str:
    """Return a revision with every locked text of the draft before it.

    A revision that has them all is returned unchanged. In any other, the differences that touch
    locked text are undone, by the sentence or the word.
    """
    if not lacking(after, [words for words in locked if words in before]):
        return after
    spans = locked_spans(before, locked)
    changes = _differences(before, after, PIECES)
    return _made(before, [change for change in changes if not any(map(change.touches, spans))])


def _change(draft: str, edit: SearchReplace) -> _Change:
    """Return where an edit applies, without the words at its ends that it keeps."""
    if "\r" in draft:
        edit = _with_line_ends_of(draft, edit)
    start = draft.find(edit.search) if edit.search else -1
    if start < 0:
        raise CannotApply(f"{_shown(edit.search)} does not occur in the draft: copy it exactly")
    if draft.find(edit.search, start + 1) >= 0:
        raise CannotApply(f"{_shown(edit.search)} occurs in the draft more than once: copy more")
    if edit.search == edit.replace:
        raise CannotApply(f"the edit of {_shown(edit.search)} changes nothing")
    head = _common(edit.search, edit.replace)
    search, text = edit.search[head:], edit.replace[head:]
    tail = _common(search[::-1], text[::-1])
    return _Change(start + head, start + head + len(search) - tail, text[: len(text) - tail])


def _with_line_ends_of(draft: str, edit: SearchReplace) -> SearchReplace:
    """Return an edit with the line ends of the words that it searches, as far as these are there.

    Models see CRLF and write LF.
    """
    lines = map(re.escape, LINE_END.split(edit.search))
    found = re.search(r"(?:\r\n?|\n)".join(lines), draft)
    if found is None or edit.search == edit.replace:
        return edit
    usual = usual_line_end(found[0]) or usual_line_end(draft) or "\n"
    if len({*LINE_END.findall(found[0])}) < 2:
        return SearchReplace(found[0], LINE_END.sub(usual, edit.replace))
    return SearchReplace(found[0], _with_lines_of(found[0], edit.replace, usual))


def _made(draft: str, changes: Sequence[_Change], start: int = 0, end: int | None = None) -> str:
    """Return the part of a draft from `start` to `end` with the changes in it made."""
    end = len(draft) if end is None else end
    pieces: list[str] = []
    for change in changes:
        if start <= change.start and change.end <= end:
            pieces += [draft[start : change.start], change.text]
            start = change.end
    return "".join([*pieces, draft[start:end]])


def _differences(before: str, after: str, pieces: Sequence[re.Pattern[str]]) -> Iterator[_Change]:
    if before == after:
        return
    if not pieces:
        yield _Change(0, len(before), after)
        return
    split, *finer = pieces
    for outer in _replaced(split.findall(before), split.findall(after)):
        for change in _differences(before[outer.start : outer.end], outer.text, finer):
            yield _Change(outer.start + change.start, outer.start + change.end, change.text)


def _replaced(before: Sequence[str], after: Sequence[str]) -> Iterator[_Change]:
    """Return what differs between two lists of pieces, in characters of the joined first one."""
    if max(len(before), len(after)) > MOST_PIECES:
        yield _Change(0, sum(map(len, before)), "".join(after))
        return
    places = [0, *accumulate(map(len, before))]
    for kind, start, end, new_start, new_end in SequenceMatcher(None, before, after).get_opcodes():
        if kind != "equal":
            yield _Change(places[start], places[end], "".join(after[new_start:new_end]))


def _unique(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a range around this one whose characters occur in the text exactly once."""
    more = 8
    while True:
        found = text.find(text[start:end]) if end > start else 0
        if end > start and text.find(text[start:end], found + 1) < 0:
            return start, end
        start, end = max(0, start - more), min(len(text), end + more)
        more *= 2


def _common(one: str, other: str) -> int:
    """Return the length of the common prefix of two texts."""
    most = min(len(one), len(other))
    return next((at for at in range(most) if one[at] != other[at]), most)


def _shown(text: str) -> str:
    return f'"{text[:SHOWN]}..."' if len(text) > SHOWN else f'"{text}"'


LEAD_IN = phrase("passage", "lead_in")
STAND_IN = re.compile(
    r"\A(?:<(?P<angle>[^<>\n]{1,80})>|\[(?P<square>[^\[\]\n]{1,80})\]|\.\.\.|…)\Z"
)
OF_A_STAND_IN = phrase("passage", "of_a_stand_in")
TAGS = phrase("passage", "tags")
CHARACTERS = f"{SIGNS}\uac00-\ud7af"
TOKEN = re.compile(rf"[{CHARACTERS}]|[^\W{CHARACTERS}]+|[^\w\s]")
WORD = re.compile(r"\w")
ENDS = frozenset(".!?\u3002\uff01\uff1f")
FEWEST_WORDS, FEWEST_CHARACTERS = 3, 10
"""Repeated words that cannot be there by chance."""
NEIGHBOURS = 8
"""Words and marks next to a passage that its text cannot contain by chance."""


class _Passages(ReplyModel):
    """The new text of each passage, by `p1` and so on."""

    passages: dict[str, str]


def passages_in(
    draft: str, spans: Sequence[Span], locked: Sequence[str] = (), said: Sequence[str] = ()
) -> Callable[[ReplyReader], Replaced]:
    """Return a function that reads the texts of passages and puts them in their places.

    `said` is the review. It raises `Unreadable` when a text is missing or no text for its passage,
    `Refused` when one is a refusal, and `Unreadable` when nothing would be left of the draft, or a
    locked text would stand in it more often than before.
    """

    def read(reply: ReplyReader) -> Replaced:
        texts = reply.read_as(_Passages).passages
        names = [f"p{number}" for number in range(1, len(spans) + 1)]
        if missing := [name for name in names if name not in texts]:
            raise Unreadable(f"no text for {', '.join(missing)}: give one for every passage")
        new = [
            _read(reply, name, texts[name], _Place(draft, span, tuple(said)))
            for name, span in zip(names, spans, strict=True)
        ]
        made = replaced(draft, spans, new, locked)
        if not made.text.strip():
            raise Unreadable("nothing would be left of the draft")
        for words in locked:
            if made.text.count(words) > max(1, draft.count(words)):
                raise Unreadable(f'the locked text "{words[:80]}" would stand in the draft twice')
        return made

    return read


@value(slots=True)
class _Place:
    """A passage in its draft, and what a reviewer said about it."""

    draft: str
    span: Span
    said: tuple[str, ...]

    @property
    def passage(self) -> str:
        return self.draft[self.span.start : self.span.end]

    def is_given(self, text: str) -> bool:
        """Return whether the passage or the review has these words."""
        texts = (self.passage, *self.said)
        return any(text.casefold() in words.casefold() for words in texts)


def _read(reply: ReplyReader, name: str, said: str, place: _Place) -> str:
    """Return the text of one passage, empty if it is to be deleted."""
    if not said.strip() or said.strip() == place.passage.strip():
        return said
    text = _without_lead_in(_out_of_form(said, name, place).strip(), place)
    try:
        text = reply.passage(text, place.passage, place.draft, name)
    except Refused:
        if not any(map(DECLINING.search, place.said)):
            raise
    text = _without_tags(_without_lead_in(text, place), place)
    if _is_stand_in(text) and not (_is_bracketed(place.passage) or place.is_given(text)):
        raise Unreadable(f"{name}: it stands for the text of the passage and does not contain it")
    text = _without_surroundings(text, place, name)
    if not text.strip():
        raise Unreadable(f"{name}: nothing of it is the text of the passage")
    return text


def _out_of_form(said: str, name: str, place: _Place) -> str:
    """Return the text of a passage out of the form of the whole reply, if it is in that again."""
    if "{" in place.passage or not said.strip().startswith("{"):
        return said
    try:
        form = decoded_json(said)
    except (ValueError, RecursionError):
        return said
    form = form.get("passages", form)
    text = form.get(name) if isinstance(form, dict) and len(form) == 1 else None
    return text if isinstance(text, str) else said


def _without_lead_in(text: str, place: _Place) -> str:
    """Remove words such as "Here is the revised passage:", also in the line of the text."""
    found = LEAD_IN.match(text)
    if found is None or place.draft.find(found[0].strip()) >= 0 or place.is_given(found[0].strip()):
        return text
    return text[found.end() :]


def _without_tags(text: str, place: _Place) -> str:
    """Remove the tags of the prompt where they have lost their number."""
    found = TAGS.match(text)
    is_markup = found is not None and f"<{found['tag']}" in place.draft
    return text if found is None or is_markup else found["body"]


def _is_bracketed(passage: str) -> bool:
    return STAND_IN.match(passage.strip()) is not None


def _is_stand_in(text: str) -> bool:
    """Return whether a text such as `[unchanged]` or `<new text of p1>` stands for another one."""
    found = STAND_IN.match(text)
    if found is None:
        return False
    words = found["angle"] or found["square"]
    return words is None or OF_A_STAND_IN.search(words) is not None


def _without_surroundings(text: str, place: _Place, name: str) -> str:
    """Return a text without what it repeats of the text right before and right after its passage.

    The text may repeat whatever the passage itself repeats. Raises `Unreadable` when it repeats
    what is next to the passage somewhere else than at its ends, or nothing else.
    """
    before = _tokens(place.draft[: place.span.start])
    after = _tokens(place.draft[place.span.end :])
    found, known = _tokens(text), _tokens(place.passage)
    start, end = _repeated(before, found, known), _repeated(after[::-1], found[::-1], known[::-1])
    if start + end >= len(found):
        if not _is_much(found) or not start + end:
            return text
        raise Unreadable(f"{name}: it repeats what stands around the passage: give the passage")
    places = [token.span() for token in TOKEN.finditer(text)]
    begin = places[start - 1][1] if start else 0
    rest = text[begin : places[-end][0] if end else len(text)]
    left = found[start : len(found) - end]
    for near in _nearest(before, known, after):
        if _has(left, near) and not _has(known, near):
            raise Unreadable(f"{name}: it repeats what stands around the passage: give the passage")
    return rest.strip() if start or end else text


def _tokens(text: str) -> list[str]:
    return TOKEN.findall(text)


def _nearest(
    before: Sequence[str], known: Sequence[str], after: Sequence[str]
) -> Iterator[Sequence[str]]:
    """Yield what is next to a passage and long enough that its text cannot have it by chance."""
    around = (
        before[-NEIGHBOURS:],
        after[:NEIGHBOURS],
        _sentence(before[::-1])[::-1],
        _sentence([*known[-1:], *after]),
    )
    for stretch in around:
        if _is_much(stretch) and sum(1 for token in stretch if WORD.match(token)) > FEWEST_WORDS:
            yield stretch


def _sentence(tokens: Sequence[str]) -> Sequence[str]:
    """Return the tokens between the first end of a sentence and the next one."""
    ends = [at for at, token in enumerate(tokens) if token in ENDS]
    if not ends:
        return ()
    start = ends[0] + 1
    return tokens[start : next((at for at in ends if at > start), len(tokens))]


def _is_much(tokens: Sequence[str]) -> bool:
    """Return whether so many words are hardly repeated by chance."""
    words = [token for token in tokens if WORD.match(token)]
    return len(words) >= FEWEST_WORDS and sum(map(len, words)) >= FEWEST_CHARACTERS


def _repeated(around: Sequence[str], found: Sequence[str], known: Sequence[str]) -> int:
    """Return how many tokens a text begins with that stand right before it, 0 if few.

    Few are enough if they are the whole sentence so far.
    """
    count = _overlap(around, found)
    if not count or _overlap(around, known) >= count:
        return 0
    words = found[:count]
    inner = words[1:] if words[0] in ENDS else words
    is_begun = bool(inner) and all(map(WORD.match, inner))
    is_sentence = is_begun and (count == len(around) or around[-count - 1] in ENDS)
    return count if _is_much(words) or is_sentence else 0


def _overlap(around: Sequence[str], found: Sequence[str]) -> int:
    """Return the length of the longest end of one list that the other begins with."""
    longest = [0] * len(found)
    length = 0
    for at in range(1, len(found)):
        while length and found[at] != found[length]:
            length = longest[length - 1]
        length += found[at] == found[length]
        longest[at] = length
    length = 0
    for token in around[-len(found) :] if found else ():
        while length and (length == len(found) or token != found[length]):
            length = longest[length - 1]
        length += token == found[length]
    return length


def _has(tokens: Sequence[str], run: Sequence[str]) -> bool:
    size = len(run)
    return any(
        tokens[at] == run[0] and tokens[at : at + size] == run
        for at in range(len(tokens) - size + 1)
    )
