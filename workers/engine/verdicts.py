"""Reads a critic's reply and derives the scores. Fails closed: nothing is guessed."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError

from app.contract.critics import CRITIC
from app.contract.judgement import CriterionScore, Critique, Finding, Quotation, Span
from app.contract.requests import Criterion
from workers.engine.asking import ReplyModel, Unreadable, read_as
from workers.engine.evidence import Source

MOST_LINES = 50
"""Lines of one kind taken from a critic; further lines are dropped."""

MOST_EVIDENCE = 10
"""Quotations looked up for one criterion; further ones are dropped."""


def _reject_booleans(said: Any) -> Any:
    if isinstance(said, bool):
        raise ValueError("a score must be a number from 0 to 1, or null")  # noqa: TRY004 - pydantic
    return said


class _Score(ReplyModel):
    criterion: str
    score: Annotated[float | None, Field(ge=0, le=1), BeforeValidator(_reject_booleans)]
    reason: str = ""
    evidence: Any = None
    """Entries that are not quotations are dropped; the rest of the verdict stays valid."""


class _Quoted(ReplyModel):
    quote: str
    span: Span | None = None


class _Finding(ReplyModel):
    kind: str
    message: str
    fix: str | None = None
    span: Span | None = None
    quote: str | None = None


class _Verdict(ReplyModel):
    scores: list[_Score]
    strengths: tuple[str, ...] = ()
    weaknesses: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    findings: tuple[_Finding, ...] = ()


def reader(
    criteria: Sequence[Criterion], draft: str, by: str = CRITIC
) -> Callable[[str], Critique]:
    """Return a function that reads a critique of `draft`; it raises `Unreadable` with the reason.

    `by` is the source of its findings.
    """

    def read(reply: str) -> Critique:
        verdict = read_as(_Verdict, reply)
        source = Source(draft)
        return Critique(
            scores=_scores(verdict, criteria, source),
            strengths=verdict.strengths[:MOST_LINES],
            weaknesses=verdict.weaknesses[:MOST_LINES],
            suggestions=verdict.suggestions[:MOST_LINES],
            findings=tuple(_finding(it, source, by) for it in verdict.findings[:MOST_LINES]),
        )

    return read


def total(scores: Sequence[CriterionScore], criteria: Sequence[Criterion]) -> float | None:
    """Return the weighted mean of the measured scores, to 6 places; None without any."""
    weights = {criterion.name: criterion.weight for criterion in criteria}
    measured = [(it.score, weights[it.criterion]) for it in scores if it.score is not None]
    if not measured:
        return None
    mean = sum(score * weight for score, weight in measured) / sum(weight for _, weight in measured)
    return round(min(1.0, max(0.0, mean)), 6)


def below_floor(
    scores: Sequence[CriterionScore], criteria: Sequence[Criterion]
) -> tuple[Criterion, ...]:
    """Return the criteria whose floor is not met; an unmeasured score does not meet a floor."""
    given = {it.criterion: it.score for it in scores}

    def is_below(criterion: Criterion) -> bool:
        score = given.get(criterion.name)
        return criterion.floor is not None and (score is None or score < criterion.floor)

    return tuple(criterion for criterion in criteria if is_below(criterion))


def _scores(
    verdict: _Verdict, criteria: Sequence[Criterion], source: Source
) -> tuple[CriterionScore, ...]:
    given = {it.criterion: it for it in verdict.scores}
    names = [criterion.name for criterion in criteria]
    if len(given) < len(verdict.scores):
        raise Unreadable("a criterion is scored twice")
    if missing := [name for name in names if name not in given]:
        raise Unreadable(f"no score for {', '.join(missing)}")
    if unknown := [name for name in given if name not in names]:
        raise Unreadable(f"{', '.join(unknown)} is not among the criteria: {', '.join(names)}")
    scores = tuple(_score(given[name], source) for name in names)
    if all(it.score is None for it in scores):
        raise Unreadable("no criterion has a score")
    return scores


def _score(said: _Score, source: Source) -> CriterionScore:
    """Return a score with the evidence that occurs in the draft."""
    lines = said.evidence if isinstance(said.evidence, list) else [said.evidence]
    quoted = [it for it in lines[:MOST_EVIDENCE] if it is not None]
    found = [_quotation(it, source) for it in quoted]
    return CriterionScore(
        criterion=said.criterion,
        score=said.score,
        reason=said.reason,
        evidence=tuple(dict.fromkeys(it for it in found if it is not None)),
        unsupported=found.count(None),
    )


def _quotation(said: Any, source: Source) -> Quotation | None:
    try:
        quoted = _Quoted.model_validate({"quote": said} if isinstance(said, str) else said)
    except ValidationError:
        return None
    return source.quotation(quoted.quote, quoted.span)


def _finding(said: _Finding, source: Source, by: str) -> Finding:
    """Return a finding with the span of the words that it quotes.

    A quotation that does not occur in the draft is dropped together with its span.
    """
    quote, span = None, said.span if said.span and source.holds(said.span) else None
    if said.quote and said.quote.strip():
        quoted = source.quotation(said.quote, said.span)
        quote, span = (quoted.quote, quoted.span) if quoted else (None, None)
    return Finding(
        source=by, kind=said.kind, message=said.message, fix=said.fix, span=span, quote=quote
    )
