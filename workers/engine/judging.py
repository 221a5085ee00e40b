"""How a draft is judged: validators first, then the blind critics, whose replies are read here."""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, zip_longest
from statistics import median
from typing import Any, TypeVar

from pydantic import ValidationError, model_validator

from app.contract.drafts import lacking
from app.contract.judgement import (
    CRITIC,
    Criterion,
    CriterionScore,
    Critique,
    Finding,
    FindingsReply,
    OnFail,
    PanelMember,
    Quotation,
    Span,
)
from app.contract.object_drafts import pointer_at
from app.contract.status import Caveat
from app.contract.validators import Validator
from app.contract.values import value
from workers.engine.asking import ask, question
from workers.engine.moves import Check, Draft, MoveCoroutine, Scored, Together, play_parts
from workers.engine.prompts import ItemChecks, Judge, Task, ValidatorScore, keys_for, schema_for
from workers.engine.replies.likeness import Source
from workers.engine.replies.reader import (
    ReplyModel,
    ReplyReader,
    Unreadable,
    decoded,
    has_score,
    is_example,
    is_scale,
    list_items,
    scale_in,
    score_of,
    with_plain_names,
)

MOST_LINES = 50
"""Lines of one kind taken from a critic; further lines are dropped."""

SCORE_LISTS = ("scores", "score", "ratings", "criteria")
"""Names under which models write their scores, the one asked for first."""

MOST_EVIDENCE = 10
"""Quotations looked up for one criterion; further ones are dropped."""


@value(slots=True)
class _Score:
    criterion: str
    score: float | None
    reason: str = ""
    evidence: Any = None
    """Entries that are not quotations are dropped; the rest of the verdict stays valid."""


class _Quoted(ReplyModel):
    quote: str
    span: Span | None = None


class _SaidFinding(ReplyModel):
    kind: str
    message: str
    fix: str | None = None
    span: Span | None = None
    quote: str | None = None


@value(slots=True)
class _Verdict:
    scores: Sequence[_Score]
    strengths: tuple[str, ...]
    weaknesses: tuple[str, ...]
    suggestions: tuple[str, ...]
    findings: Sequence[_SaidFinding] = ()
    unmeasurable: bool = False
    """Whether the critic says that no criterion can be measured on this draft."""


class _Said(ReplyModel):
    """A verdict as models write it; what is in its lists is read item by item."""

    scores: dict[str, Any] | list[Any]
    strengths: Any = ()
    weaknesses: Any = ()
    suggestions: Any = ()
    findings: Any = ()
    unmeasurable: Any = False
    scale: Any = None

    @model_validator(mode="before")
    @classmethod
    def _with_scores(cls, said: Any) -> Any:
        """Find the scores under another name, in a string, or where nothing holds them."""
        if not isinstance(said, dict):
            return said
        scale = scale_in(said)
        for name in SCORE_LISTS:
            if isinstance(scores := decoded(said.get(name)), dict | list):
                return {**said, "scores": scores, "scale": scale}
        if not said.keys().isdisjoint(SCORE_LISTS):
            return said
        rest = {
            key: value_said
            for key, value_said in said.items()
            if key not in cls.model_fields and not is_scale(key)
        }
        are_scores = all(_is_scored(decoded(scored)) for scored in rest.values())
        return {**said, "scores": rest, "scale": scale} if rest and are_scores else said


def _is_scored(said: Any) -> bool:
    is_number = isinstance(said, int | float) and not isinstance(said, bool)
    return is_number or (isinstance(said, dict) and has_score(with_plain_names(said)))


def critique_reader(
    criteria: Sequence[Criterion], draft: str, by: str = CRITIC
) -> Callable[[ReplyReader], Critique]:
    """Return a function that reads a critique of `draft`; it raises `Unreadable` with the reason.

    `by` is the source of its findings. A finding about an unknown criterion and a score of one are
    dropped.
    """

    def read(reply: ReplyReader) -> Critique:
        verdict = _verdict(reply, criteria)
        source = Source(draft)
        found = [_finding(finding, source, by) for finding in verdict.findings[:MOST_LINES]]
        if reply.asked.task.is_object:
            found = [_at_member(finding, draft) for finding in found]
        return Critique(
            scores=_scores(reply, verdict, criteria, source),
            strengths=verdict.strengths[:MOST_LINES],
            weaknesses=verdict.weaknesses[:MOST_LINES],
            suggestions=verdict.suggestions[:MOST_LINES],
            findings=tuple(found),
        )

    return read


def _verdict(reply: ReplyReader, criteria: Sequence[Criterion]) -> _Verdict:
    names = _names(criteria)
    said = reply.read_as(_Said)
    scores = list(_scores_said(reply, said, names))
    has_scores = any(score.score is not None for score in scores)
    if said.unmeasurable and (said.unmeasurable is not True or has_scores):
        raise Unreadable("`unmeasurable` does not agree with the scores: give a score or null")
    return _Verdict(
        scores=scores,
        strengths=_lines(reply, said.strengths, "a strength"),
        weaknesses=_lines(reply, said.weaknesses, "a weakness"),
        suggestions=_lines(reply, said.suggestions, "a suggestion"),
        findings=list(_findings(reply, said.findings, names)),
        unmeasurable=said.unmeasurable is True,
    )


def _names(criteria: Sequence[Criterion]) -> Mapping[str, str]:
    """Return the name of a criterion by its key and by its name, both in lower case."""
    return _by_word(tuple([criterion.name for criterion in criteria]))


@lru_cache(maxsize=512)
def _by_word(names: tuple[str, ...]) -> Mapping[str, str]:
    keys = dict(zip(keys_for(names), names, strict=True))
    return {**{name.strip().casefold(): name for name in names}, **keys}


def _named(names: Mapping[str, str], said: Any) -> str:
    """Return the name of the criterion meant, as it was said if there is none."""
    word = str(said).strip(" *_`\"':").casefold()
    if word in names:
        return names[word]
    if found := KEY_AND_NAME.fullmatch(word):
        key, rest = found.groups()
        if key in names and names.get(rest) == names[key]:
            return names[key]
    return str(said)


def _criterion(names: Mapping[str, str], said: str) -> str:
    """Return the name of the criterion meant. Raises KeyError if there is none."""
    if (name := _named(names, said)) not in names.values():
        raise KeyError(said)
    return name


KEY_AND_NAME = re.compile(r"(c\d+)[\s:.()\[\]\u2013-]+(.+?)[)\]]?")


def _scores_said(reply: ReplyReader, said: _Said, names: Mapping[str, str]) -> Iterator[_Score]:
    """Yield the scores; one of an unknown criterion that cannot be read is dropped."""
    entries = _entries(said.scores)
    scale = said.scale
    if isinstance(said.scores, dict) and scale is None:
        scale = scale_in({name: score for name, score in said.scores.items() if name not in names})
        entries = [entry for entry in entries if not is_scale(entry[0]) or entry[0] in names]
    for criterion, score in entries:
        try:
            yield _scored(names, criterion, decoded(score), scale)
        except Unreadable as error:
            if criterion == "" or _named(names, criterion) in names.values():
                raise
            reply.drop("score", str(error))


def _entries(said: dict[str, Any] | list[Any]) -> list[tuple[Any, Any]]:
    """Return the criterion and the score of each entry, whichever form they have."""
    if isinstance(said, dict):
        return list(said.items())
    objects = [with_plain_names(item) if isinstance(item, dict) else {} for item in said]
    return [
        (next((entry[name] for name in NAMES if name in entry), ""), entry) for entry in objects
    ]


NAMES = ("criterion", "name", "key")
"""Names under which an entry says which criterion it scores."""


def is_unmeasurable(entry: Mapping[str, Any]) -> bool:
    """Return whether an entry says, in a word or with the reason, that there is no score."""
    said = entry.get("unmeasurable", False)
    return said is True or (isinstance(said, str) and said.strip().casefold() not in NOT_SO)


NOT_SO = frozenset({"", "false", "no", "none", "null", "n/a", "-"})


def _scored(names: Mapping[str, str], criterion: Any, said: Any, scale: Any = None) -> _Score:
    if criterion == "":
        raise Unreadable("an entry of `scores` does not say which criterion it scores")
    given = with_plain_names(said) if isinstance(said, dict) else {"score": said}
    if given is said or is_example(said):
        raise Unreadable("an entry of `scores` repeats a name, or the form asked for")
    named = [criterion, *(given[name] for name in NAMES if name in given)]
    if len({_named(names, name) for name in named} & {*names.values()}) > 1:
        raise Unreadable("an entry of `scores` names two criteria")
    if is_unmeasurable(given):
        return _Score(_named(names, criterion), None, str(given.get("reason") or ""))
    if not has_score(given):
        raise Unreadable(f"no score for {_named(names, criterion)}")
    reason = given.get("reason")
    scaled = given if scale is None or scale_in(given) is not None else {**given, "scale": scale}
    return _Score(
        criterion=_named(names, criterion),
        score=score_of(scaled),
        reason=reason if isinstance(reason, str) else "",
        evidence=given.get("evidence"),
    )


def _lines(reply: ReplyReader, said: Any, what: str) -> tuple[str, ...]:
    lines = said if isinstance(said, list | tuple) else [said]
    for line in lines:
        if not isinstance(line, str) and line is not None:
            reply.drop(what, f"{what} that is not a text")
    return tuple(line for line in lines if isinstance(line, str) and line.strip())


def _about(names: Mapping[str, str], said: _SaidFinding) -> _SaidFinding:
    """Return a finding about the criterion meant. Raises KeyError if there is none."""
    kind = _criterion(names, said.kind)
    return said if kind == said.kind else said.model_copy(update={"kind": kind})


def _findings(reply: ReplyReader, said: Any, names: Mapping[str, str]) -> Iterator[_SaidFinding]:
    items = list(said) if isinstance(said, tuple) else said
    for finding in list_items(reply, items, _SaidFinding, "finding"):
        try:
            yield _about(names, finding)
        except KeyError:
            reply.drop("finding", f"unknown criterion {finding.kind[:100]!r}: {finding.message}")


def total(scores: Sequence[CriterionScore], criteria: Sequence[Criterion]) -> float | None:
    """Return the weighted mean of the measured scores, to 6 places; None without any."""
    weights = {criterion.name: criterion.weight for criterion in criteria}
    measured = [
        (score.score, weights[score.criterion]) for score in scores if score.score is not None
    ]
    if not measured:
        return None
    whole = sum([weight for _, weight in measured])
    mean = sum([score * weight for score, weight in measured]) / whole
    return round(min(1.0, max(0.0, mean)), 6)


def below_floor(
    scores: Sequence[CriterionScore], criteria: Sequence[Criterion]
) -> tuple[Criterion, ...]:
    """Return the criteria whose floor is not met; an unmeasured score does not meet a floor."""
    below: list[Criterion] = []
    for criterion in criteria:
        if criterion.floor is not None:
            given = {score.criterion: score.score for score in scores}
            score = given.get(criterion.name)
            if score is None or score < criterion.floor:
                below.append(criterion)
    return tuple(below)


def _scores(
    reply: ReplyReader, verdict: _Verdict, criteria: Sequence[Criterion], source: Source
) -> tuple[CriterionScore, ...]:
    given: dict[str, _Score] = {}
    for score in verdict.scores:
        if score.criterion in given and score != given[score.criterion]:
            raise Unreadable("a criterion is scored twice")
        given[score.criterion] = score
    names = [criterion.name for criterion in criteria]
    if given.keys() != {*names}:
        if missing := [name for name in names if name not in given]:
            raise Unreadable(f"no score for {', '.join(missing)}")
        unknown = [name for name in given if name not in names]
        reply.drop("score", f"{', '.join(unknown)} is not among the criteria: {', '.join(names)}")
    scores = [_score(given[name], source) for name in names]
    if not verdict.unmeasurable and {score.score for score in scores} <= {None}:
        asked = reply.asked
        schema = schema_for(asked, may_lack=False) if isinstance(asked, Judge) else None
        raise Unreadable("no criterion has a score", schema)
    return tuple(scores)


def _score(said: _Score, source: Source) -> CriterionScore:
    """Return a score with the evidence that occurs in the draft."""
    lines = said.evidence if isinstance(said.evidence, list) else [said.evidence]
    found = [
        _quotation(quotation, source)
        for quotation in lines[:MOST_EVIDENCE]
        if quotation is not None
    ]
    quoted = [quotation for quotation in found if quotation is not None]
    return CriterionScore(
        criterion=said.criterion,
        score=said.score,
        reason=said.reason,
        evidence=tuple(dict.fromkeys(quoted)),
        unsupported=found.count(None),
    )


def _quotation(said: Any, source: Source) -> Quotation | None:
    if isinstance(said, str):
        return source.quotation(said)
    try:
        quoted = _Quoted.model_validate(said)
    except ValidationError:
        return None
    return source.quotation(quoted.quote, quoted.span)


def _at_member(finding: Finding, draft: str) -> Finding:
    """Return a finding whose message says in which member of an object its words are."""
    pointer = finding.span and pointer_at(draft, finding.span.start)
    if not pointer or re.search(rf"{re.escape(pointer)}(?![\w/])", finding.message):
        return finding
    return finding.model_copy(update={"message": f"in {pointer}: {finding.message}"})


def _finding(said: _SaidFinding, source: Source, by: str) -> Finding:
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


def averaged(task: Task, scored: Scored, said: Sequence[Critique]) -> Scored:
    """Return a draft with the mean of several critiques as its score; the rest is of the first."""
    scores = tuple(_mean(score, said) for score in scored.scores)
    criteria = (*task.criteria, *(measure.criterion for measure in task.counted))
    return replace(
        scored,
        score=total(scores, criteria),
        scores=scores,
        floors_met=not below_floor(scores, task.criteria),
        times=len(said),
    )


def _mean(first: CriterionScore, said: Sequence[Critique]) -> CriterionScore:
    given = [
        score.score for of in said for score in of.scores if score.criterion == first.criterion
    ]
    scores = [score for score in given if score is not None]
    if not scores:
        return first
    spread = round(max(scores) - min(scores), 6)
    mean = round(sum(scores) / len(scores), 6)
    return first.model_copy(update={"score": mean, "spread": spread})


CritiqueLine = TypeVar("CritiqueLine")


Samples = tuple[tuple[Critique, ...], tuple[Caveat, ...]]
"""What critics said, and a caveat for every sample that was left out."""

Opinions = tuple[Critique, tuple[Caveat, ...]]
"""What critics said, merged, and its caveats."""

Shown = Callable[[Task, str, PanelMember | None, int], Judge]
"""Returns what a critic is asked about a draft."""


async def critiqued(task: Task, draft: str, shown: Shown = Judge) -> Opinions:
    """Return the merged critique of all critics, asked at once and independently, and its caveats.

    They are asked what `shown` asks.

    A panel after PoLL (arXiv:2404.18796), with roles as in ChatEval (arXiv:2308.07201); samples as
    in self-consistency (arXiv:2203.11171). A sample that fails is left out; a critic without any
    sample fails the step, because every requested critic must answer.
    """
    panel: tuple[PanelMember | None, ...] = task.critics.panel or (None,)
    caveats: tuple[Caveat, ...] = ()
    if len(panel) == 1:
        opinions, caveats = await _sampled(task, draft, panel[0], shown)
        critique = merged(opinions, task.criteria)
    else:
        said = await Together(
            CRITIC, tuple(_sampled(task, draft, member, shown) for member in panel)
        )
        opinions = tuple(chain.from_iterable(critiques for critiques, _ in said))
        caveats = tuple(chain.from_iterable(missed for _, missed in said))
        critique = merged(opinions, task.criteria)
    return critique, (*caveats, *_unmeasured(critique.scores))


def _path(member: PanelMember | None) -> str:
    return "critique" if member is None else f"critique/{member.name}"


def _unmeasured(scores: Sequence[CriterionScore]) -> Iterator[Caveat]:
    for score in scores:
        if score.score is None:
            detail = f"the criterion {score.criterion} has no score: {score.reason}"
            yield Caveat(code="item_dropped", path="critique", detail=detail)


def merged(opinions: Sequence[Critique], criteria: Sequence[Criterion]) -> Critique:
    """Return the opinions as one: the median of each criterion, and the findings of all."""
    if len(opinions) == 1:
        return opinions[0]
    return Critique(
        scores=tuple(_middle(criterion.name, opinions) for criterion in criteria),
        strengths=_distinct([opinion.strengths for opinion in opinions], _words),
        weaknesses=_distinct([opinion.weaknesses for opinion in opinions], _words),
        suggestions=_distinct([opinion.suggestions for opinion in opinions], _words),
        findings=_distinct([opinion.findings for opinion in opinions], _place),
    )


async def _sampled(task: Task, draft: str, member: PanelMember | None, shown: Shown) -> Samples:
    """Return the opinions of one critic, one for each sample."""
    path = _path(member)
    paths = [path, *(f"{path}/{number}" for number in range(2, task.critics.samples + 1))]
    samples = [_opinion(at, task, draft, member, shown, turn) for turn, at in enumerate(paths)]
    if len(samples) == 1:
        return (await samples[0],), ()
    done = await play_parts(path, samples)
    return tuple(reply for reply in done.replies if reply is not None), done.left_out(paths)


def _opinion(
    path: str, task: Task, draft: str, member: PanelMember | None, shown: Shown, turn: int
) -> MoveCoroutine[Critique]:
    asked = question(path, "critic", shown(task, draft, member, turn))
    by = CRITIC
    if member is not None:
        asked, by = replace(asked, member=member.name), member.seat
    return ask(asked, critique_reader(task.criteria, draft, by), "unreadable_critique")


def _middle(criterion: str, opinions: Sequence[Critique]) -> CriterionScore:
    """Return the median of the measured scores, with the reason of the nearest score."""
    given = [
        score for opinion in opinions for score in opinion.scores if score.criterion == criterion
    ]
    measured = [score for score in given if score.score is not None]
    scores = [score.score for score in given if score.score is not None]
    middle = round(median(scores), 6) if scores else None

    def far(said: CriterionScore) -> tuple[float, float]:
        score = said.score or 0.0
        return (round(abs(score - (middle or 0.0)), 9), score)

    return CriterionScore(
        criterion=criterion,
        score=middle,
        reason=min(measured or given[:1], key=far).reason,
        evidence=_distinct(
            [score.evidence for score in given], lambda quotation: quotation, MOST_EVIDENCE
        ),
        unsupported=sum(score.unsupported for score in given),
        spread=round(max(scores) - min(scores), 6) if len(scores) > 1 else None,
    )


def _distinct(
    said: Iterable[Sequence[CritiqueLine]],
    same: Callable[[CritiqueLine], Hashable],
    most: int = MOST_LINES,
) -> tuple[CritiqueLine, ...]:
    """Return the lines without duplicates: the first line of each critic, then the second, ..."""
    found: dict[Hashable, CritiqueLine] = {}
    for line in chain.from_iterable(zip_longest(*said)):
        if line is not None:
            found.setdefault(same(line), line)
    return tuple(found.values())[:most]


def _words(line: str) -> str:
    return " ".join(line.casefold().split())


def _place(finding: Finding) -> Hashable:
    """Return what identifies a finding: its criterion and span, or its message without a span."""
    if finding.span is not None:
        return (finding.kind, finding.span)
    return (finding.kind, _words(finding.message))


def error_weights(findings: Sequence[Finding]) -> tuple[float, float]:
    """Return the weights of what rules found: with a veto, and without one.

    Warnings do not count, nor do findings of models, of which a worse draft may have fewer.
    """
    if not findings:
        return 0.0, 0.0
    weights = {OnFail.VETO: 0.0, OnFail.REVISE: 0.0, OnFail.WARN: 0.0}
    for finding in findings:
        if finding.source == LOCKED or finding.source.startswith(VALIDATORS):
            weights[finding.on_fail] += finding.weight
    return round(weights[OnFail.VETO], 6), round(weights[OnFail.REVISE], 6)


def measures_of(validators: Sequence[Validator], scope: str = "") -> tuple[ValidatorScore, ...]:
    """Return the scores that the validators of the request, or of an item, give."""
    before = f"{VALIDATORS}{scope}/" if scope else VALIDATORS
    counting = (
        (index, validator, validator.counts_as()) for index, validator in enumerate(validators)
    )
    return tuple(
        ValidatorScore(f"{before}{index}", criterion, validator.decides)
        for index, validator, criterion in counting
        if criterion is not None
    )


def with_own_checks(task: Task, scope: str, validators: Sequence[Validator], *, ends: bool) -> Task:
    """Return the task of a stage, pass or part, which its own validators check.

    The validators of the whole check it too if its result is that of the whole: if it `ends` that.
    """
    scope = f"{task.scope}{scope}"
    demanding = [validator for validator in validators if validator.on_fail is not OnFail.WARN]
    checks = tuple(words for validator in demanding if (words := validator.in_words()))
    counted = sum(validator.counts_as() is None for validator in demanding)
    own = ItemChecks(scope, checks, measures_of(validators, scope), counted)
    schemas = (schema for validator in validators for schema in validator.json_schemas().values())
    return replace(
        task,
        has_validators=task.has_validators and ends,
        own=(*(task.own if ends else ()), *([own] if validators else [])),
        scope=f"{scope}/",
        schemas=(*task.schemas, *schemas),
    )


VALIDATORS = "validators/"
"""What the sources of validators' findings begin with."""

NOTHING_FOUND = FindingsReply()

LOCKED = "locked"
"""The source of findings about missing locked text; it does not count as a validator."""


async def judge(
    task: Task, draft: Draft, asking: Callable[[Task, str], MoveCoroutine[Opinions]] = critiqued
) -> Scored:
    """Judge a draft: validators first, then the blind critics, by `asking` them."""
    draft, checked = await _checked(task, draft)
    critique, caveats = await asking(task, draft.text)
    scores = (*critique.scores, *checked.scores)
    counted = task.counted
    is_decided = True in [measure.decides for measure in counted]
    criteria = (*task.criteria, *[measure.criterion for measure in counted])
    scored = Scored(
        draft,
        _decided(task, checked.scores) if is_decided else total(scores, criteria),
        scores,
        floors_met=not below_floor(critique.scores, task.criteria),
        critique=critique,
        score_from="validators" if is_decided else "critique",
    )
    return scored.found(checked.findings, caveats)


async def validate(task: Task, draft: Draft) -> Scored:
    """Judge a draft by validators alone.

    Its score is the share of them that pass; one that gives a score counts as much as that, with
    its weight.
    """
    draft, checked = await _checked(task, draft)
    decided = _decided(task, checked.scores)
    score = _share(task, checked) if decided is None else decided
    scored = Scored(draft, score, checked.scores, score_from="validators")
    return scored.found(checked.findings)


async def _checked(task: Task, draft: Draft) -> tuple[Draft, FindingsReply]:
    """Return the draft as validators corrected it, and what they and `locked` say of it."""
    checked = NOTHING_FOUND
    if task.scopes:
        checked = await validator_findings(task, draft.text, corrects=not draft.spans)
        draft = corrected_draft(draft, checked)
    gone = lacking(draft.text, task.locked)
    if not gone:
        return draft, checked
    findings = (*checked.findings, *map(_gone, gone))
    return draft, checked.model_copy(update={"findings": findings})


def corrected_draft(draft: Draft, checked: FindingsReply) -> Draft:
    """Return a draft as validators corrected it before they checked it."""
    if checked.text is None:
        return draft
    return replace(draft, text=checked.text, is_reply=False, fixes=checked.fixes)


async def validator_findings(
    task: Task, draft: str, path: str = "check", *, corrects: bool = True
) -> FindingsReply:
    """Return what validators say; the finding that one did not run vetoes, unless accepted."""
    checked = await Check(path, draft, scopes=task.scopes, corrects=corrects)
    if "validator_skipped" in task.accepted:
        return checked
    veto = {"on_fail": OnFail.VETO}
    found = (
        finding.model_copy(update=veto) if finding.skipped else finding
        for finding in checked.findings
    )
    return checked.model_copy(update={"findings": tuple(found)})


def _decided(task: Task, scores: Sequence[CriterionScore]) -> float | None:
    """Return the weighted mean of the scores that decide alone; None if there is none."""
    deciding = [measure.criterion for measure in task.counted if measure.decides]
    names = {criterion.name for criterion in deciding}
    return total([score for score in scores if score.criterion in names], deciding)


def _share(task: Task, checked: FindingsReply) -> float:
    """Return the share of validators that pass; those that give a score count with their weight."""
    measured = {measure.source for measure in task.counted}
    found = (finding for finding in checked.findings if not finding.skipped)
    demanded = (finding.source for finding in found if finding.on_fail is not OnFail.WARN)
    failed = {source for source in demanded if source != LOCKED and source not in measured}
    known = {score.criterion for score in checked.scores}
    criteria = [measure.criterion for measure in task.counted if measure.criterion.name in known]
    weight = sum(criterion.weight for criterion in criteria)
    passed = task.demanded - len(failed) + weight * (total(checked.scores, criteria) or 0.0)
    return round(passed / (task.demanded + weight), 6) if task.demanded + weight else 0.0


def _gone(locked: str) -> Finding:
    return Finding(
        source=LOCKED,
        kind=LOCKED,
        message=f"locked text is missing or changed: {locked[:200]}",
        fix="restore it as it is in the client's draft",
        on_fail=OnFail.VETO,
    )
