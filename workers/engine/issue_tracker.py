"""Tracks the issues of a draft, and which issues of its parent it resolved.

A reviser that sees only the current issues repeats failed attempts and undoes earlier fixes;
Reflexion (arXiv:2303.11366) keeps a memory of earlier failures instead. Here every judged draft has
a tracker, made from its parent's tracker and its own findings. The line follows parents, because
the best draft is revised, not the last.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import field, replace

from app.contract.judgement import Finding, IssueState
from app.contract.values import value
from workers.engine.replies.likeness import even, jaccard

SAME_MESSAGE = 0.5
"""Jaccard similarity of the words of two messages from which they may mean the same. Paraphrases
("The 30-day limit is not stated", "Does not state the 30-day limit": 0.56) reach it, another flaw
in the same words ("Does not state who pays the shipping": 0.4) does not."""

SAME_PLACE = 0.35
"""The same for two quotations. Two sentences of one text shared at most 0.32 of their words, a
sentence and its revision at least 0.41, in the 20 texts that the editor is tested on."""

MOST = 100
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
            for number, finding in enumerate(findings[:MOST], 1)
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
            before=tuple(issue for issue in self.mended if issue.id not in seen)[:MOST],
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
