"""Drafts that are too long for one prompt: read part by part, judged by summaries and facts.

The facts that parts state, names, numbers, definitions and promises, are collected before a part is
revised. Each part is shown those that concern it, and is read again for contradictions.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from app.contract.budget import MOST_SHARED, MOST_SUMMARIZED
from app.contract.judgement import Finding
from app.contract.status import Caveat
from app.contract.values import value
from workers.engine.asking import ask, question
from workers.engine.judging import Opinions, critiqued
from workers.engine.moves import Refusal, StepError, play_in_lanes
from workers.engine.prompts import (
    TEXT,
    TEXT_OR_NULL,
    Judge,
    Prompt,
    PromptRequest,
    Summaries,
    Task,
    closed,
    tagged_text,
    worded,
)
from workers.engine.replies.likeness import Source, number_of_words, words_and_signs
from workers.engine.replies.reader import ReplyModel, ReplyReader, Unreadable, list_items

SUMMARY = 1_000
"""Characters of the summary of a part that are shown at most."""

LANES = 16
"""Parts that are worked on at a time."""

MOST_FACTS = 20
"""Facts of one part."""

LONGEST_FACT = 300
"""Characters of a fact, and of the term that it is about."""

MOST_CONCERNING = 6_000
"""Characters of the facts that one part is shown."""

MOST_STATEMENTS = 3
"""Different statements about one term that are shown, and parts that are named with each."""

SHEET = "facts of the whole"
"""The name of the document with the facts that concern a part."""

READ = closed(
    {
        "summary": TEXT,
        "facts": {"type": "array", "items": closed({"term": TEXT, "says": TEXT})},
        "contradictions": {
            "type": "array",
            "items": closed({"fact": TEXT, "quote": TEXT_OR_NULL, "fix": TEXT_OR_NULL}),
        },
    }
)


@value(slots=True)
class ReadPart(PromptRequest):
    """Sum up a part, list the facts that others must keep, and what contradicts known ones."""

    text: str
    known: tuple[str, ...] = ()

    def prompt(self) -> Prompt:
        task = self.task
        known = [tagged_text(task, "facts", "\n".join(self.known))] if self.known else []
        text = tagged_text(task, "text", self.text)
        return worded(
            task, "read_part", *known, text, schema=READ, longest=SUMMARY, most=MOST_FACTS
        )


class _Fact(ReplyModel):
    term: str
    says: str


class _Contradiction(ReplyModel):
    fact: str
    quote: str | None = None
    fix: str | None = None


class _Said(ReplyModel):
    summary: str
    facts: Any = None
    contradictions: Any = None


@value(slots=True)
class Digest:
    """What was read of one part: its summary, its facts, and what contradicts those known."""

    summary: str
    facts: tuple[tuple[str, str], ...] = ()
    """Terms, each with what the part says of it."""
    contradictions: tuple[Finding, ...] = ()
    caveats: tuple[Caveat, ...] = ()


async def read_part(task: Task, path: str, text: str, known: tuple[str, ...] = ()) -> Digest:
    """Return the digest of a part by a model; if the model fails, the beginning of the part."""
    reading = replace(task, draft=None, context=(), criteria=(), place=None, part=())
    asked = question(f"{path}/read", "generator", ReadPart(reading, text, known))
    try:
        return await ask(asked, digest_in(text, path), "empty_summary")
    except Refusal as refusal:
        caveats: tuple[Caveat, ...] = ()
        if isinstance(refusal, StepError):
            detail = f"it was judged by its beginning, as it was not summed up: {refusal}"
            caveats = (Caveat(code="item_dropped", path=path, detail=detail),)
        return Digest(f"[It begins:] {text[:SUMMARY]}", caveats=caveats)


def digest_in(text: str, path: str) -> Callable[[ReplyReader], Digest]:
    """Return a function that reads a digest; quotations that the part lacks are left out."""

    def read(reply: ReplyReader) -> Digest:
        said, source = reply.read_as(_Said), Source(text)
        if not said.summary.strip():
            raise Unreadable("summary: it is empty")
        facts = list_items(reply, said.facts or [], _Fact, "fact")
        wrong = list_items(reply, said.contradictions or [], _Contradiction, "contradiction")
        return Digest(
            said.summary.strip()[:SUMMARY],
            tuple(
                (fact.term.strip()[:LONGEST_FACT], fact.says.strip()[:LONGEST_FACT])
                for fact in facts[:MOST_FACTS]
                if fact.term.strip() and fact.says.strip()
            ),
            tuple(_finding(path, source, each) for each in wrong[:MOST_FACTS]),
        )

    return read


FACTS = "facts"
"""The source of findings about what parts of a long draft must keep."""


def _finding(path: str, source: Source, said: _Contradiction) -> Finding:
    quoted = source.quotation(said.quote) if said.quote else None
    return Finding(
        source=FACTS,
        kind=FACTS,
        message=f"{path} contradicts a fact of the whole: {said.fact}",
        fix=said.fix,
        quote=quoted.quote if quoted else None,
    )


class FactSheet:
    """The facts that all parts must keep, by the words of the terms that they are about."""

    def __init__(self, digests: Iterable[Digest]) -> None:
        said: dict[frozenset[str], dict[str, list[int]]] = {}
        names: dict[frozenset[str], str] = {}
        for number, digest in enumerate(digests, 1):
            for name, says in digest.facts:
                words = frozenset(words_and_signs(name))
                names.setdefault(words, name)
                said.setdefault(words, {}).setdefault(says, []).append(number)
        shared = sorted(said, key=lambda words: -len({*chain(*said[words].values())}))
        self._lines = {words: f"{names[words]}: {_statements(said[words])}" for words in shared}
        self._places = {words: place for place, words in enumerate(shared)}
        self._by_word: dict[str, list[frozenset[str]]] = {}
        for words in filter(None, shared):
            self._by_word.setdefault(max(words, key=lambda word: (len(word), word)), []).append(
                words
            )

    def __len__(self) -> int:
        return len(self._lines)

    def concerning(self, text: str) -> tuple[str, ...]:
        """Return the facts about terms that a text has, those that most parts state first."""
        given = frozenset(words_and_signs(text))
        known = given & self._by_word.keys()
        found = {words for word in known for words in self._by_word[word] if words <= given}
        places = sorted(found, key=self._places.__getitem__)
        return _as_many_as_fit(map(self._lines.__getitem__, places), MOST_CONCERNING)

    def shared(self) -> tuple[str, ...]:
        """Return the facts for those who judge the whole, those that most parts state first."""
        return _as_many_as_fit(self._lines.values(), MOST_SHARED)


def _statements(parts_by_statement: Mapping[str, Sequence[int]]) -> str:
    """Return the first statements about one term, each with the numbers of its first parts."""
    return "; ".join(
        f"{statement} (part {', '.join(map(str, numbers[:MOST_STATEMENTS]))})"
        for statement, numbers in islice(parts_by_statement.items(), MOST_STATEMENTS)
    )


def _as_many_as_fit(lines: Iterable[str], most: int) -> tuple[str, ...]:
    shown, size = list[str](), 0
    for line in lines:
        size += len(line) + 1
        if size > most:
            break
        shown.append(line)
    return tuple(shown)


async def read_parts(task: Task, texts: Sequence[str]) -> tuple[Digest, ...]:
    """Return the digests of all parts; models read several parts at a time."""

    async def read(index: int) -> Digest:
        return await read_part(task, f"parts/section-{index + 1}", texts[index])

    done = await play_in_lanes("parts", len(texts), read, LANES)
    return tuple(digest for digest in done.replies if digest is not None)


async def critiqued_by_parts(task: Task, text: str, digests: Sequence[Digest]) -> Opinions:
    """Return the opinions of critics who see the digests of the parts instead of the whole text.

    Words that only the digests have are no evidence. A contradiction between a part and the facts
    of the whole is a finding beside theirs.
    """
    longest = min(SUMMARY, MOST_SUMMARIZED // len(digests))
    summaries = tuple(digest.summary[:longest] for digest in digests)
    sheet = FactSheet(digests)
    parts = Summaries(summaries, sheet.shared(), number_of_words(text), len(text))
    unseen, digested = replace(task, draft=None), "\n\n".join(summaries)
    critique, caveats = await critiqued(
        unseen, text, lambda task, _, member, turn: Judge(task, digested, member, turn, parts)
    )
    wrong = tuple(finding for digest in digests for finding in digest.contradictions)
    detail = (
        f"the whole has {len(text):,} characters: it was judged by summaries of its"
        f" {len(digests)} parts and by {len(sheet)} terms of which they state facts"
    )
    known = (caveat for digest in digests for caveat in digest.caveats)
    return (
        critique.model_copy(update={"findings": (*wrong, *critique.findings)}),
        (Caveat(code="summarized", path="critique", detail=detail), *caveats, *known),
    )
