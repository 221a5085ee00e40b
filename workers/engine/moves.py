"""The moves that a strategy awaits, their replies, and the drafts and judgements they carry.

A judgement tracks the issues of its draft, and which issues of its parent the draft resolved. A
reviser that sees only the current issues repeats failed attempts and undoes earlier fixes;
Reflexion (arXiv:2303.11366) keeps a memory of earlier failures instead. Here every judged draft has
a tracker, made from its parent's tracker and its own findings. The line follows parents, because
the best draft is revised, not the last.

A recorded reply belongs to one path and one hash of what its step was given. The hash covers what
came from outside and which of that the step has: request, drafts and verdicts from earlier replies,
findings, words of reviewers, results of tools. The words of a prompt and its marks are not in it,
so that a release with other words keeps the replies that were paid for.
"""

import json
import re
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from dataclasses import MISSING, field, fields, is_dataclass, replace
from functools import cache, partial
from hashlib import sha256
from operator import attrgetter
from types import coroutine
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

from pydantic import BaseModel

from app.contract.drafts import EditsMade, Escape, Passage, sha256_of
from app.contract.judgement import (
    CriterionScore,
    Critique,
    Finding,
    FindingsReply,
    FixMade,
    IssueState,
    OnFail,
    PanelMember,
    QualityEstimate,
    ScoreFrom,
    Span,
)
from app.contract.limits import Limits
from app.contract.models import Role
from app.contract.reviews import PlannedCall, ReviewAction, ReviewPlan, ReviewWhen
from app.contract.status import Caveat, StopReason
from app.contract.values import value
from workers.engine.prompts import IN_WORDS, Prompt, PromptRequest, Task
from workers.engine.replies.likeness import even, jaccard
from workers.engine.replies.reader import NO_CRITIQUE, ReplyReader


@value(slots=True)
class Draft:
    """One version of the text; `parent` is the path of the iteration it was revised from.

    The path is relative to its own search; one that begins with `/` is relative to the outermost.
    `is_reply` is true for the client's text and for one that the journal's readers find in the
    reply of its own step. Any other, such as joined parts, is journaled with its judgement.
    """

    text: str
    parent: str | None = None
    asked: tuple[str, ...] = ()
    is_reply: bool = False
    edits: EditsMade | None = None
    """How edits made it from its parent; None if it was not made by edits."""
    escape: Escape | None = None
    """How it was made in another way than usual, because the search stood still."""
    fixes: tuple[FixMade, ...] = ()
    """What validators corrected in the text."""
    spans: tuple[Span, ...] = ()
    """The passages that alone may differ from the draft it was made from; empty if all may."""
    generator: int = 1
    """The number of the generator whose turn it was, or that had to take over."""
    sha256: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sha256", sha256_of(self.text))


VERIFICATION = "verification"
"""The source of findings of a verification, whose caveats say what was not verified."""


def is_valid(findings: Sequence[Finding]) -> bool:
    """Return whether no finding vetoes its draft."""
    return OnFail.VETO not in [finding.on_fail for finding in findings]


@value(slots=True)
class Scored:
    """A draft with the verdict on exactly this text; `score_from` says what the score measures."""

    draft: Draft
    score: float | None
    scores: tuple[CriterionScore, ...] = ()
    valid: bool = True
    floors_met: bool = True
    critique: Critique = NO_CRITIQUE
    findings: tuple[Finding, ...] = ()
    score_from: ScoreFrom = "critique"
    times: int = 1
    """How often it was judged; the score is the mean."""
    caveats: tuple[Caveat, ...] = ()
    """What the verdict lacks, with paths relative to the iteration."""

    def found(self, findings: Sequence[Finding], caveats: Sequence[Caveat] = ()) -> Self:
        """Return it with these findings too: it is valid unless one vetoes it.

        A check that did not run is a caveat.
        """
        if not (findings or caveats or self.findings) and self.valid:
            return self
        every = (*self.findings, *findings)
        skipped = (
            Caveat(
                code="validator_skipped",
                path="check",
                detail=f"{finding.source}: {finding.message}",
            )
            for finding in findings
            if finding.skipped and finding.source != VERIFICATION
        )
        return replace(
            self,
            findings=every,
            valid=is_valid(every),
            caveats=(*self.caveats, *skipped, *caveats),
        )

    def passes(self, threshold: float) -> bool:
        """Return whether vetoing validators passed, and all floors and the threshold are met."""
        good = self.score is not None and self.score >= threshold
        return self.valid and self.floors_met and good

    def lacks_only_proof(self, threshold: float) -> bool:
        """Return whether nothing keeps it from passing but checks that could not be made."""
        if self.valid:
            return False
        made = tuple(finding for finding in self.findings if not finding.skipped)
        return replace(self, findings=made, valid=is_valid(made)).passes(threshold)


SAME_MESSAGE = 0.5
"""Jaccard similarity of the words of two messages from which they may mean the same. Paraphrases
("The 30-day limit is not stated", "Does not state the 30-day limit": 0.56) reach it, another flaw
in the same words ("Does not state who pays the shipping": 0.4) does not."""

SAME_PLACE = 0.35
"""The same for two quotations. Two sentences of one text shared at most 0.32 of their words, a
sentence and its revision at least 0.41, in the 20 texts that the editor is tested on."""

MOST_ISSUES = 100
"""Issues of one draft that are tracked, and resolved issues that are remembered."""

WORD = re.compile(r"\w+")


@value(slots=True)
class Tracked:
    """An issue: `path` and `number` identify the finding that reported it first.

    The path is relative to its own search; one that begins with `/` is relative to the outermost.
    """

    path: str
    number: int
    state: IssueState
    finding: Finding
    position: int | None
    """Index among this draft's findings, from 0; None when it is resolved."""
    _about: tuple[str, str] = field(init=False, repr=False, compare=False)
    _quote: str = field(init=False, repr=False, compare=False)
    _words: frozenset[str] = field(init=False, repr=False, compare=False)
    _quoted: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        quote = even(self.finding.quote or "")
        object.__setattr__(self, "_about", (_reporter(self.finding), self.finding.kind))
        object.__setattr__(self, "_quote", quote)
        object.__setattr__(self, "_words", word_set(self.finding.message))
        object.__setattr__(self, "_quoted", word_set(quote))

    @property
    def id(self) -> str:
        """The same for every draft of the line."""
        return f"{self.path}#{self.number}"

    def under(self, prefix: str) -> "Tracked":
        """Return it with its path relative to the enclosing search."""
        is_absolute = self.path.startswith("/")
        return self if is_absolute else replace(self, path=f"{prefix}/{self.path}")

    def anchored(self, prefix: str) -> "Tracked":
        """Return it below `prefix`, if its path is absolute."""
        is_absolute = self.path.startswith("/")
        return replace(self, path=f"/{prefix}{self.path}") if is_absolute else self

    def likeness(self, other: "Tracked") -> float:
        """Return how likely both are the same issue: 0 if they differ, 2 for equal quotations.

        Two issues are alike only if they come from the same validator, or both from a critic, and
        are of the same kind.
        """
        if self._about != other._about:
            return 0.0
        if self._quote and other._quote:
            if self._quote == other._quote:
                return 2.0
            if jaccard(self._quoted, other._quoted) < SAME_PLACE:
                return 0.0
        alike = jaccard(self._words, other._words)
        return alike if alike >= SAME_MESSAGE else 0.0


@value(slots=True)
class IssueTracker:
    """The open issues of one draft, those of its parent that it resolved, and those before."""

    open: tuple[Tracked, ...] = ()
    resolved: tuple[Tracked, ...] = ()
    before: tuple[Tracked, ...] = ()

    @property
    def mended(self) -> tuple[Tracked, ...]:
        """Every issue found in this line that the draft does not have, the latest first."""
        return (*self.resolved, *self.before)

    @property
    def issues(self) -> tuple[Tracked, ...]:
        """Every issue of the draft and of its parent, once."""
        return (*self.open, *self.resolved)

    def under(self, prefix: str) -> "IssueTracker":
        """Return it with paths relative to the enclosing search; "" makes them absolute."""
        lists = (self.open, self.resolved, self.before)
        return IssueTracker(*(tuple(issue.under(prefix) for issue in each) for each in lists))

    def anchored(self, prefix: str) -> "IssueTracker":
        """Return it with absolute paths below `prefix`."""
        lists = (self.open, self.resolved, self.before)
        return IssueTracker(*(tuple(issue.anchored(prefix) for issue in each) for each in lists))

    def next(self, path: str, findings: Sequence[Finding]) -> "IssueTracker":
        """Return the tracker of a revision, judged at `path` with these findings."""
        if not (findings or self.open or self.resolved or self.before):
            return self
        found = tuple(
            Tracked(path, number, IssueState.NEW, finding, number - 1)
            for number, finding in enumerate(findings[:MOST_ISSUES], 1)
        )
        known = _recognised(found, (*self.open, *self.mended))
        seen = {issue.id for issue in known.values()}
        return IssueTracker(
            open=tuple(_again(finding, known.get(finding.number)) for finding in found),
            resolved=tuple(
                replace(issue, state=IssueState.RESOLVED, position=None)
                for issue in self.open
                if issue.id not in seen
            ),
            before=tuple(issue for issue in self.mended if issue.id not in seen)[:MOST_ISSUES],
        )


NO_ISSUES = IssueTracker()


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text in lower case."""
    return frozenset(WORD.findall(text.lower()))


def _recognised(found: Sequence[Tracked], known: Sequence[Tracked]) -> dict[int, Tracked]:
    """Return the known issue of each finding, by number: one to one, the most alike first."""
    pairs = sorted(_pairs(found, known), key=lambda pair: -pair[0])  # stable: open ones go first
    taken: dict[int, Tracked] = {}
    used: set[str] = set()
    for _, here, there in pairs:
        if here.number not in taken and there.id not in used:
            taken[here.number] = there
            used.add(there.id)
    return taken


def _pairs(
    found: Sequence[Tracked], known: Sequence[Tracked]
) -> Iterator[tuple[float, Tracked, Tracked]]:
    for there in known:
        for here in found:
            if (alike := here.likeness(there)) > 0:
                yield alike, here, there


def _again(found: Tracked, known: Tracked | None) -> Tracked:
    """Return a finding as the known issue that it matches, in its present words."""
    if known is None:
        return found
    state = IssueState.CARRIED if known.state.is_open else IssueState.RETURNED
    return replace(found, path=known.path, number=known.number, state=state)


def _reporter(finding: Finding) -> str:
    """Return the source of a finding: each validator separately, all critics as one."""
    return finding.source if finding.source.startswith("validators/") else "critic"


@value(slots=True)
class Judgement:
    """A scored draft with its path and its number in its own search."""

    scored: Scored
    iteration: int
    path: str
    issues: IssueTracker = NO_ISSUES
    errors: tuple[float, float] = (0.0, 0.0)
    """What validators found, weighed: with a veto, and without one; warnings do not count."""
    rank: tuple[bool, bool, float, float, float] = field(init=False, repr=False, compare=False)
    """Order of drafts within one rubric; of two equal ones the earlier is the better.

    Errors that a rule found go before the score, which is an opinion.
    """
    kind: tuple[bool, bool, float, float, bool] = field(init=False, repr=False, compare=False)
    """Its rank without the score; a draft without one is of a lower kind."""

    def __post_init__(self) -> None:
        scored, (vetoes, lighter) = self.scored, self.errors
        score, has_score = (-1.0, False) if scored.score is None else (scored.score, True)
        kind = (scored.valid, scored.floors_met, -vetoes, -lighter)
        object.__setattr__(self, "rank", (*kind, score))
        object.__setattr__(self, "kind", (*kind, has_score))

    def rated(self, score: float) -> Self:
        """Return it with a reviewer's score instead of its own."""
        return replace(self, scored=replace(self.scored, score=score, score_from="review"))


Reply = TypeVar("Reply")


class Refusal(Exception):
    """Thrown into a strategy in place of a reply.

    `steps` are the paths of the steps that make it up, each with all steps below it. They are
    relative to where the refusal is, as the path of a move is: `within` changes both. So are the
    `caveats` about the stages, passes and parts that were given up for it.
    """

    steps: tuple[str, ...] = ()
    caveats: tuple[Caveat, ...] = ()

    def inside(self, prefix: str) -> Self:
        """Give it the paths that it has below `prefix`, and return it."""
        self.steps = tuple(step.removeprefix(f"{prefix}/") for step in self.steps)
        self.caveats = tuple(
            caveat.model_copy(update={"path": caveat.path.removeprefix(f"{prefix}/")})
            for caveat in self.caveats
        )
        return self

    def under(self, prefix: str) -> Self:
        """Give it the paths that it has around `prefix`, and return it."""
        self.steps = tuple(f"{prefix}/{step}" for step in self.steps)
        self.caveats = tuple(caveat.under(prefix) for caveat in self.caveats)
        return self


class Stopped(Refusal):
    """The move is refused: budget, deadline or finish."""

    def __init__(self, *steps: str) -> None:
        super().__init__()
        self.steps = steps


class StepError(Refusal):
    """The step failed."""

    def __init__(self, code: str, detail: str, steps: tuple[str, ...] = ()) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.steps = steps


class Rejected(StepError):
    """A reviewer rejected a stage, pass or part: what was made there is not used."""

    def __init__(self) -> None:
        super().__init__("rejected", "a reviewer rejected it")


def first_of(refusals: Sequence[Refusal]) -> Refusal:
    """Return the first of several refusals, made up of the steps of all."""
    first = refusals[0]
    first.steps = tuple(step for refusal in refusals for step in refusal.steps)
    first.caveats = tuple(caveat for refusal in refusals for caveat in refusal.caveats)
    return first


@value()
class Move(Generic[Reply]):
    """Something a strategy asks for; awaiting it returns the reply."""

    path: str

    def __await__(self) -> Generator["Move[Any]", Any, Reply]:
        reply: Reply = yield self
        return reply

    def under(self, prefix: str) -> Self:
        """Return the same move with `prefix` in front of its path."""
        return self.changed(path=f"{prefix}/{self.path}")

    def changed(self, **fields: Any) -> Self:
        """Return the same move with other values in these fields, for a third of what `replace`
        costs: every step is changed several times."""
        move = object.__new__(type(self))
        move.__dict__ = self.__dict__ | fields
        return move


@value()
class Ask(Move[str]):
    """Asks a model for a text; `prompt` is `prompt_request` put into words.

    A call that only `prepares` a draft is optional: it alone is refused and the strategy continues,
    when a finish waits for a first draft, or when the budget has to be kept for writing one.
    """

    role: Role
    prompt_request: PromptRequest
    prompt: Prompt
    prepares: bool = False
    member: str | None = None
    """The critic of the panel, or the number of the later generator, if one of them is asked."""
    room: int = 0
    """How often the room for the reply was doubled, after replies that were cut off."""
    max_output_tokens: int | None = None
    """The limit that is sent; set by the driver, from the text and the budget."""
    expected_output_tokens: int = 0
    """What the reply is expected to take; set with the limit."""
    read: Callable[[ReplyReader], Any] | None = field(default=None, compare=False, repr=False)
    """How the reply is read; what it drops is recorded with the reply."""

    @property
    def seat(self) -> str:
        """The name under which its model was chosen: the role, `critic/<name>` in a panel, or
        `generator/2` for the second generator."""
        return self.role if self.member is None else f"{self.role}/{self.member}"


@value()
class Check(Move[FindingsReply]):
    """Asks what the request's validators say of a draft, or its tools of a plan.

    Planned calls are a JSON array of `{"tool", "arguments"}`; checking them sends nothing.
    """

    draft: str
    of: Literal["draft", "calls"] = "draft"
    scopes: tuple[str, ...] = ("",)
    """Whose validators: those of the request, and those of items by their paths."""
    corrects: bool = True
    """Whether validators that are asked to correct the draft may; else they report."""
    prepares: ClassVar[bool] = False


@value(slots=True)
class ToolResult:
    """The answer of a tool, or why there is none: a failure is a result."""

    ok: bool
    text: str


@value()
class Call(Move[ToolResult]):
    """Asks for a tool's result; it only prepares a draft, like an `Ask` with `prepares`.

    A call that is not repeatable is sent at most once: begun, it is not aborted, and if its worker
    dies, the result is that the outcome is unknown.
    """

    tool: str
    arguments: Mapping[str, Any]
    is_repeatable: bool = True
    prepares: ClassVar[bool] = True


StepMove = Ask | Check | Call
"""Moves that are performed outside the strategy and journaled as steps."""


@value()
class Judged(Move[Limits]):
    """Reports a judged draft. The reply is the limits now in force.

    The paths of `judgement` and `best`, and of the parents of their drafts, are relative to their
    own search; the prefix that `under` put in front of `path` applies to all of them. `threshold`
    is set by a search with its own threshold.
    """

    judgement: Judgement
    best: Judgement
    threshold: float | None = None
    estimate: QualityEstimate | None = None
    """What the best draft is probably worth."""
    lower: Caveat | None = None
    """Why the best draft has a lower score than another one, if it has."""
    is_same: bool = False
    """Whether the best draft and that are as reported before: the result stays as it is."""


@value(slots=True)
class ReviewerReply:
    """A reviewer's decision; `draft` or `arguments` go with replace, `spans` with the feedback of
    revise, and `score` overrides the draft's."""

    action: ReviewAction
    feedback: str | None = None
    draft: str | None = None
    score: float | None = None
    limits: Limits | None = None  # those in force when it was said
    arguments: Mapping[str, Any] | None = None
    is_timeout: bool = False
    """Whether no reviewer answered."""
    spans: tuple[Passage, ...] = ()
    of: str | None = None
    """The path of the draft that they saw, in its own search, if it was no answer to a review."""


@value()
class Review(Move[ReviewerReply]):
    """Asks reviewers about a judged draft. A pause begins when nothing else can go on."""

    judgement: Judgement
    when: ReviewWhen
    result: "ReviewedResult | None" = None
    """What the refinement would end with; None while the strategy goes on after the review."""
    plan: ReviewPlan | None = None
    """The review of the stage, pass or part that it is in; None for that of the request."""

    @property
    def draft_path(self) -> str:
        """The path of the draft, as `path` is."""
        if self.when == "each_iteration":
            return self.path.removesuffix("/review")
        return self.path.rpartition("reviews/")[0] + self.judgement.path


@value()
class Heard(Move[ReviewerReply | None]):
    """Asks for the reply of a reviewer during a pause on request; mostly None. Never waits.

    Only this move reads such a reply, so that every replay reads it at the same place.
    """

    upcoming: int
    """The number of the draft that is judged next in this search."""
    is_over: bool = False
    """Whether the search ends here unless something was said."""

    @property
    def scope(self) -> str:
        """What the paths of its search begin with."""
        return self.path.rpartition("iterations/")[0]


@value()
class Approval(Move[ReviewerReply]):
    """Asks a person whether a tool may be called; never within a part or side by side.

    A decision counts only for the call that was shown.
    """

    call: PlannedCall
    timeout_s: float
    error: str = ""
    """Why the arguments that the reviewer gave before cannot be sent."""


@value(slots=True)
class ReviewedResult:
    """What is known of a finished work beside its best draft."""

    passed: bool
    missing: tuple[str, ...] = ()
    caveats: tuple[Caveat, ...] = ()
    estimate: QualityEstimate | None = None


@value()
class Together(Move[tuple[Any, ...]]):
    """Plays independent strategies side by side; the reply is what they returned, in order."""

    parts: tuple[Coroutine[Move[Any], Any, Any], ...]

    def under(self, prefix: str) -> Self:
        """Prefix the moves of every part."""
        return replace(
            super().under(prefix), parts=tuple(within(prefix, part) for part in self.parts)
        )


HASH_LENGTH = 16
"""Hexadecimal digits of the SHA-256 that are kept: 64 bits."""

HASHED: Mapping[type, tuple[str, ...]] = {
    PanelMember: ("name", "perspective", "adversarial"),
    Critique: ("scores", "strengths", "weaknesses", "suggestions", "findings"),
    CriterionScore: ("criterion", "score", "reason"),
    Finding: ("source", "kind", "message", "fix", "quote"),
}
"""The fields of shared types that are covered: a field that a later release adds is not.

Of a task its `sha256` is covered, once, and of other dataclasses every field that is not `IN_WORDS`
and differs from its default.
"""


def about(move: StepMove) -> str:
    """Return the hash of what a step is about: its kind, who is asked, and what is given.

    The hash has `HASH_LENGTH` hexadecimal digits, the same in every process and release.
    """
    subject: tuple[Any, ...]
    match move:
        case Ask():
            given, seat = move.prompt_request, (move.role, move.member)
            subject = "ask", move.prompt.name, seat, given.task.sha256, given
        case Check():
            subject = "check", move.of, move.draft
        case Call():
            subject = "call", move.tool, dict(move.arguments)
    return sha256(_encode(subject).encode()).hexdigest()[:HASH_LENGTH]


def _plain(value: Any) -> Any:
    """Return a value that JSON cannot write as lists and mappings of such that it can."""
    return _plainly(type(value))(value)  # type: ignore[arg-type] # mypy: type[Any] is not Hashable


@cache
def _plainly(kind: type) -> Callable[[Any], Any]:
    """Return what makes the values of a type plain."""
    if covered := HASHED.get(kind):
        return attrgetter(*covered)
    if issubclass(kind, BaseModel):
        return partial(kind.model_dump, mode="json", exclude_defaults=True)
    if issubclass(kind, Mapping):
        return dict
    if not is_dataclass(kind):
        raise TypeError(f"{kind.__name__} is no dataclass: its hash would differ between processes")
    given = [
        (attribute.name, attribute.default)
        for attribute in fields(kind)
        if not (attribute.type is Task or attribute.metadata.get(IN_WORDS))
    ]
    return partial(_given, given)


def _given(fields_: Sequence[tuple[str, Any]], value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that differ from their defaults."""
    found = {}
    for name, default in fields_:
        given = getattr(value, name)
        if default is MISSING or given != default:
            found[name] = given
    return found


_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_plain).encode


MoveCoroutine = Coroutine[Move[Any], Any, Reply]


def unchanged(_move: Move[Any], reply: Any) -> Any:
    """Return a reply unchanged."""
    return reply


@coroutine
def within(prefix: str, part: MoveCoroutine[Reply]) -> Generator[Move[Any], Any, Reply]:
    """Play a part with `prefix` in front of the paths of its moves."""
    try:
        move = part.send(None)
        while True:
            try:
                reply = yield move.under(prefix)
            except Refusal as refusal:
                move = part.throw(refusal.inside(prefix))
            else:
                move = part.send(reply)
    except StopIteration as done:
        result: Reply = done.value
        return result
    except Refusal as refusal:
        refusal.under(prefix)
        raise
    finally:
        part.close()


async def relayed(
    part: MoveCoroutine[Reply],
    outward: Callable[[Move[Any]], Move[Any]],
    inward: Callable[[Move[Any], Any], Any] = unchanged,
) -> Reply:
    """Play a part; `outward` changes its moves on their way out, `inward` the replies."""
    try:
        return await _Relay(part, outward, inward)
    finally:
        part.close()


@value()
class _Relay(Generic[Reply]):
    part: MoveCoroutine[Reply]
    outward: Callable[[Move[Any]], Move[Any]]
    inward: Callable[[Move[Any], Any], Any]

    def __await__(self) -> Generator[Move[Any], Any, Reply]:
        try:
            move = self.part.send(None)
            while True:
                try:
                    reply = yield self.outward(move)
                except Refusal as refusal:
                    move = self.part.throw(refusal)
                else:
                    move = self.part.send(self.inward(move, reply))
        except StopIteration as done:
            result: Reply = done.value
            return result


@value(slots=True)
class PartResults(Generic[Reply]):
    """The results of parts side by side, None for a refused one, and why it was refused."""

    replies: tuple[Reply | None, ...]
    refusals: tuple[Refusal | None, ...]

    def __add__(self, other: "PartResults[Reply]") -> "PartResults[Reply]":
        """Return the results of these parts and of those that were played after them."""
        return PartResults(self.replies + other.replies, self.refusals + other.refusals)

    @property
    def were_stopped(self) -> bool:
        """Whether any part was stopped."""
        return any(isinstance(refusal, Stopped) for refusal in self.refusals)

    def left_out(self, paths: Sequence[str]) -> tuple[Caveat, ...]:
        """Return a caveat for every part without a result; `paths` are those of the parts."""
        return tuple(
            Caveat(code="item_dropped", path=path, detail=f"left out: {str(refusal) or 'stopped'}")
            for path, refusal in zip(paths, self.refusals, strict=True)
            if refusal is not None
        )

    def unless_stopped(self, reason: StopReason) -> StopReason | None:
        """Return `reason`; None when a part was stopped, since the driver has the reason then."""
        return None if self.were_stopped else reason


async def play_parts(path: str, parts: Sequence[MoveCoroutine[Reply]]) -> PartResults[Reply]:
    """Play parts side by side and return their results, and why others have none.

    Raises the first refusal, made up of all, when all parts were refused.
    """
    refusals: dict[int, Refusal] = {}

    async def kept(index: int, part: MoveCoroutine[Reply]) -> Reply | None:
        try:
            return await part
        except Refusal as refusal:
            refusals[index] = refusal
            return None

    done = await Together(path, tuple(kept(*each) for each in enumerate(parts)))
    if len(refusals) == len(parts):
        raise first_of([refusals[index] for index in range(len(parts))])
    return PartResults(done, tuple(refusals.get(index) for index in range(len(parts))))


async def play_in_lanes(
    path: str, count: int, play: Callable[[int], MoveCoroutine[Reply]], lanes: int
) -> PartResults[Reply]:
    """Play so many parts, at most `lanes` of them at a time, and return as `play_parts` does.

    A lane plays its parts one after the other.
    """
    replies: dict[int, Reply] = {}
    refusals: dict[int, Refusal] = {}

    async def lane(first: int) -> None:
        for index in range(first, count, lanes):
            try:
                replies[index] = await play(index)
            except Refusal as refusal:
                refusals[index] = refusal

    await Together(path, tuple(map(lane, range(min(lanes, count)))))
    if len(refusals) == count:
        raise first_of([refusals[index] for index in range(count)])
    every = range(count)
    return PartResults(tuple(map(replies.get, every)), tuple(map(refusals.get, every)))
