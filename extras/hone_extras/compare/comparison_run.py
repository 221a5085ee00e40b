"""Runs a comparison: every text with every setting, then every final draft before one judge.

The metadata of refinements say which comparison they belong to, so a run that was cut off goes on
from any machine and pays nothing twice.
"""

import hashlib
import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from app.cli.contract_client import CliError, ContractClient, path_of
from app.cli.root import parse_json
from app.contract.budget import BYTES_PER_TOKEN, Consumption, RefinementEstimate
from app.contract.drafts import MAX_TEXT
from app.contract.judgement import AUTO, CRITIC
from app.contract.snapshot import Iteration, IterationList, Snapshot
from app.contract.status import RefinementOutcome, Status
from app.legible import on_one_line
from hone import ApiError, ServerUnreachable
from hone_extras.compare.comparison import (
    ComparedSettings,
    NoScore,
    PairedDifference,
    TextOutcome,
    Texts,
    dollars,
)

MOST_TEXTS = 1_000
SUFFIXES = frozenset({".txt", ".md"})
STAND_IN = 2_000
"""Characters of the stand-in for a draft that does not exist yet."""

LOOK_S = 0.3
RECONNECTS = 30  # in a row and a second apart: the server may be restarting
REFUSED_FOR_NOW = frozenset({429, 503})
PATIENCE_S = 600.0
"""Seconds for which a server that is busy is asked again."""

RUBRIC = ("preset", "task", "context", "grounding", "criteria", "critics", "validators")
"""Fields that decide how a draft is judged."""

OF_DRAFT = frozenset({"draft", "feedback", "spans"})
"""Fields that belong to a text."""

Fields = Mapping[str, Any]
Answer = TypeVar("Answer")


class ComparisonInvalid(CliError):
    """The texts, the settings or the judge cannot be compared; nothing was submitted."""


@dataclass(frozen=True)
class ComparedText:
    """One text: its name, and the fields of its request."""

    name: str
    fields: Fields


@dataclass(frozen=True)
class ComparisonPlan:
    """The texts and settings of a comparison, and the judge."""

    name: str
    texts: tuple[ComparedText, ...]
    settings: Mapping[str, Fields]
    judge: Fields
    judgements: int = 1
    keep_s: int | None = None

    def body(self, text: ComparedText, setting: str) -> dict[str, Any]:
        """Return the request for one text with one setting, whose fields win."""
        fields = self.settings[setting]
        metadata = {**(text.fields.get("metadata") or {}), **(fields.get("metadata") or {})}
        return {**text.fields, **fields, **({"metadata": metadata} if metadata else {})}

    def judging(self, text: ComparedText, draft: str) -> dict[str, Any]:
        """Return the request that judges a draft of a text: the same one for every setting.

        Raises ComparisonInvalid if the settings do not agree on the rubric.
        """
        bodies = [self.body(text, name) for name in self.settings]
        body: dict[str, Any] = {}
        for name in RUBRIC:
            body |= self._agreed(text, name, name, bodies)
        for name in ("instructions", "models"):
            parts = [fields.get(name) or {} for fields in bodies]
            if agreed := self._agreed(text, name, CRITIC, parts):
                body[name] = agreed
        body |= self.judge
        if body.get("criteria") == AUTO:
            raise ComparisonInvalid(
                'scores compare only on the same criteria: "criteria": "auto" lists others for each'
                " draft. Write them into the file that --judge names."
            )
        unused: dict[str, Any] = {"review": None, "webhook": None, "outputs": [], "compare": False}
        return body | unused | {"draft": draft, "learn": False, "strategy": {"kind": "critique"}}

    def judged_key(self, text: ComparedText, judge: Mapping[str, str]) -> str:
        """Return the identity of a text and of what its drafts are judged by, models included."""
        return key_of([dict(text.fields), self.judging(text, ""), dict(judge), self.judgements])

    def _agreed(
        self, text: ComparedText, name: str, member: str, found: Sequence[Fields]
    ) -> dict[str, Any]:
        """Return the member that all have, or nothing if none has it or the judge has the field."""
        values = [{member: fields[member]} if member in fields else {} for fields in found]
        if name in self.judge:
            return {}
        if all(value == values[0] for value in values):
            return values[0]
        differs = name if name == member else f"{name}.{member}"
        raise ComparisonInvalid(
            f"the settings have different `{differs}` ({text.name}), and scores compare only within"
            f" one rubric. Write the `{name}` that all final drafts are judged by into a JSON file,"
            " and name it with --judge."
        )

    def run_requests(self) -> Iterator[tuple[int, str, dict[str, Any]]]:
        """Yield every request with its text and setting; which setting is first takes turns."""
        names = list(self.settings)
        for index, text in enumerate(self.texts):
            shift = index % len(names)
            for setting in names[shift:] + names[:shift]:
                yield index, setting, self.body(text, setting)

    def labelled(self, body: Fields, setting: str, text: str) -> dict[str, Any]:
        """Return a request with the metadata by which it is found again."""
        own = {"compare": self.name, "compare_setting": setting, "compare_text": text[:256]}
        key = {"compare_key": key_of(body)}
        kept = {} if self.keep_s is None else {"retention_s": self.keep_s}
        return {**body, "metadata": {**(body.get("metadata") or {}), **own, **key}, **kept}


def key_of(fields: Any) -> str:
    """Return the identity of a request by its content."""
    written = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(written.encode()).hexdigest()[:32]


def read_texts(path: Path) -> tuple[tuple[ComparedText, ...], tuple[str, ...]]:
    """Return the texts of a folder or of a file of JSON Lines, and those that repeat another one.

    Raises ComparisonInvalid for anything else.
    """
    found = list(_of_folder(path) if path.is_dir() else _of_lines(path))
    texts: dict[str, ComparedText] = {}
    repeated = []
    for text in found:
        key = key_of(text.fields)
        if key in texts:
            repeated.append(f"{text.name} (as {texts[key].name})")
        texts.setdefault(key, text)
    if not texts:
        raise ComparisonInvalid(f"{path} has no texts: *.txt, *.md, or lines of JSON")
    if len(texts) > MOST_TEXTS:
        raise ComparisonInvalid(f"{path} has {len(texts)} texts; at most {MOST_TEXTS} are compared")
    return tuple(texts.values()), tuple(repeated)


def _of_folder(folder: Path) -> Iterator[ComparedText]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.suffix.lower() not in SUFFIXES or not path.is_file():
            continue
        if any(part.startswith(".") for part in name.parts):
            continue
        text = _read(path)
        if not text.strip():
            raise ComparisonInvalid(f"{path} is empty")
        yield ComparedText(os.fsencode(name).decode(errors="backslashreplace"), {"draft": text})


def _of_lines(path: Path) -> Iterator[ComparedText]:
    named: set[str] = set()
    for number, line in enumerate(_read(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            item = parse_json(line)
        except ValueError as error:
            raise ComparisonInvalid(f"{path}, line {number} is not JSON: {error}") from None
        fields = item.get("request", item) if isinstance(item, dict) else None
        if not isinstance(fields, dict) or not {"draft", "task"} & fields.keys():
            raise ComparisonInvalid(f"{path}, line {number} is no request: it has no draft or task")
        name = str(item["custom_id"]) if "custom_id" in item else f"line {number}"
        if name in named:
            raise ComparisonInvalid(f"{path}, line {number}: two texts have the name {name!r}")
        named.add(name)
        yield ComparedText(name, fields)


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ComparisonInvalid(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ComparisonInvalid(f"{path} is not UTF-8 text") from None


def check_settings(settings: Mapping[str, Fields], judge: Fields) -> None:
    """Raise ComparisonInvalid for settings that cannot be compared."""
    for name, fields in settings.items():
        if found := OF_DRAFT & fields.keys():
            raise ComparisonInvalid(f"`{min(found)}` of {name} belongs to a text, not to a setting")
        if fields.get("store") is False:
            raise ComparisonInvalid(f'{name} has "store": false: its drafts would be gone')
        same = [setting for setting in settings if setting != name and settings[setting] == fields]
        if same:
            raise ComparisonInvalid(f"{name} and {same[0]} are the same settings")
    if found := (OF_DRAFT | {"strategy"}) & judge.keys():
        raise ComparisonInvalid(f"`{min(found)}` has no meaning for the judge")


@dataclass(frozen=True)
class ComparisonCost:
    """The usage of requests together, as expected and in 95 of 100 cases."""

    expected: Consumption
    p95: Consumption


def sum_of(parts: Iterable[Consumption]) -> Consumption:
    """Return the sum; an unknown cost makes it unknown."""
    added = list(parts)
    return Consumption(
        calls=sum(part.calls for part in added),
        input_tokens=sum(part.input_tokens for part in added),
        output_tokens=sum(part.output_tokens for part in added),
        tokens=sum(part.tokens for part in added),
        cost_usd=_whole(part.cost_usd for part in added),
    )


def _whole(costs: Iterable[float | None]) -> float | None:
    """Return the sum; None if a part of it is unknown."""
    known = list(costs)
    return None if None in known else sum(cost for cost in known if cost is not None)


@dataclass
class PlanEstimates:
    """The usage of a plan, and the models of its seats."""

    settings: dict[str, list[RefinementEstimate]] = field(default_factory=dict)
    judge: list[RefinementEstimate] = field(default_factory=list)
    longest: list[RefinementEstimate] = field(default_factory=list)
    """Of the judge, for drafts as long as those of the settings in 95 of 100 cases."""

    def of_setting(self, name: str) -> ComparisonCost:
        """Return what one setting would consume."""
        found = self.settings[name]
        return ComparisonCost(
            sum_of(estimate.expected for estimate in found),
            sum_of(estimate.p95 for estimate in found),
        )

    def of_judge(self, judgements: int) -> ComparisonCost:
        """Return what all judgements would consume."""
        times = range(judgements)
        return ComparisonCost(
            sum_of(estimate.expected for estimate in self.judge for _ in times),
            sum_of(estimate.p95 for estimate in self.longest for _ in times),
        )


class ComparisonRunner:
    """Submits the missing requests of a plan, and waits for them, `concurrency` at once."""

    def __init__(
        self,
        client: ContractClient,
        plan: ComparisonPlan,
        *,
        concurrency: int = 8,
        retries_failed: bool = False,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._plan = plan
        self._concurrency = concurrency
        self._retries_failed = retries_failed
        self._pause = pause
        self._has_answered = False

    def estimates(self, *, p95: bool) -> PlanEstimates:
        """Let the server check every request, and return what they would consume.

        Raises ComparisonInvalid with the first errors. Without `p95` what the
        judge consumes in 95 of 100 cases is not asked for.
        """
        found, wrong, plan = PlanEstimates(), [], self._plan
        for index, setting, body in plan.run_requests():
            text = plan.texts[index]
            labelled = plan.labelled(body, setting, text.name)
            try:
                found.settings.setdefault(setting, []).append(self._estimate(labelled))
            except ApiError as refused:
                wrong.append(f"{text.name} with {setting}: {refused}")
            if len(wrong) == 5:
                break
        if wrong:
            raise ComparisonInvalid("\n".join(["Nothing was submitted.", *wrong]))
        for index, text in enumerate(plan.texts):
            draft = plan.body(text, next(iter(plan.settings))).get("draft") or "x" * STAND_IN
            try:
                judged = self._estimate(plan.judging(text, draft))
            except ApiError as refused:
                raise ComparisonInvalid(f"the judge of {text.name}: {refused}") from None
            found.judge += [judged] * len(plan.settings)
            if p95:
                written = [
                    estimates[index].p95.output_tokens for estimates in found.settings.values()
                ]
                found.longest += self._longest(text, draft, max(written))
        return found

    def _longest(self, text: ComparedText, draft: str, written: int) -> list[RefinementEstimate]:
        """Return the estimates of judging drafts of so many tokens."""
        length = min(MAX_TEXT, 2 * len(draft) + BYTES_PER_TOKEN * written)
        longest = self._estimate(self._plan.judging(text, "x" * length))
        return [longest] * len(self._plan.settings)

    def _estimate(self, body: Fields) -> RefinementEstimate:
        path = "/v1/estimates"
        return self._patiently(
            lambda: self._client.read(RefinementEstimate, path, method="POST", json=body)
        )

    def known(self) -> dict[str, Snapshot]:
        """Return the refinements of this comparison that there are, by key."""
        found: dict[str, Snapshot] = {}
        named = {"metadata.compare": self._plan.name}
        for snapshot in self._patiently(lambda: [*self._client.snapshots(named)]):
            key = snapshot.metadata.get("compare_key")
            if key is not None and (key not in found or found[key].status == Status.CANCELED):
                found[key] = snapshot
        return found

    def run(
        self,
        wanted: Mapping[str, Fields],
        known: Mapping[str, Snapshot],
        on_ended: Callable[[int], None] = lambda _: None,
    ) -> dict[str, Snapshot | str]:
        """Return how each request ended, by key, or why it was refused.

        A refinement that waits for a reviewer is returned as it is. `on_ended` receives the number
        of ended ones.
        """
        ended: dict[str, Snapshot | str] = {}
        waiting, under_way = deque(wanted), dict[str, str]()
        while waiting or under_way:
            while waiting and len(under_way) < self._concurrency:
                key = waiting.popleft()
                self._settle(key, self._started(key, wanted[key], known.get(key)), ended, under_way)
            on_ended(len(ended))
            if not under_way:
                continue
            self._pause(LOOK_S)
            for key, refinement_id in list(under_way.items()):
                self._settle(key, self._looked_at(refinement_id), ended, under_way)
        on_ended(len(ended))
        return ended

    def _settle(
        self,
        key: str,
        now: Snapshot | str,
        ended: dict[str, Snapshot | str],
        under_way: dict[str, str],
    ) -> None:
        under_way.pop(key, None)
        if isinstance(now, str) or now.status.is_terminal or now.status == Status.PAUSED:
            ended[key] = now
        else:
            under_way[key] = now.id

    def _started(self, key: str, body: Fields, known: Snapshot | None) -> Snapshot | str:
        try:
            if known is None:
                headers = {"Idempotency-Key": f"hone-compare-{self._plan.name}-{key}"}
                return self._posted("/v1/refinements", json=body, headers=headers)
            if known.status == Status.FAILED and self._retries_failed:
                return self._posted(path_of(known.id, "/retry"), json={})
        except ApiError as refused:
            if refused.status in {401, 403}:
                raise
            return str(refused)
        return known

    def _posted(self, path: str, **options: Any) -> Snapshot:
        return self._patiently(lambda: self._client.read(Snapshot, path, method="POST", **options))

    def _looked_at(self, refinement_id: str) -> Snapshot | str:
        try:
            return self._patiently(lambda: self._client.snapshot(refinement_id))
        except ApiError as refused:
            if refused.status != 404:
                raise
            return f"{refinement_id} was erased"

    def iterations(self, refinement_id: str) -> tuple[Iteration, ...]:
        """Return the judged drafts; none of a refinement that was erased."""
        try:
            path = path_of(refinement_id, "/iterations")
            return self._patiently(lambda: self._client.read(IterationList, path)).data
        except ApiError as refused:
            if refused.status not in {404, 409}:
                raise
            return ()

    def _patiently(self, asked: Callable[[], Answer]) -> Answer:
        """Ask again while the server is busy or restarts, within limits.

        A server that has never answered is not asked again.
        """
        waited, wait_s, failures = 0.0, 0.5, 0
        while True:
            try:
                answer = asked()
                self._has_answered = True
                return answer
            except ApiError as refused:
                if refused.status not in REFUSED_FOR_NOW or waited >= PATIENCE_S:
                    raise
                self._pause(wait_s)
                waited, wait_s = waited + wait_s, min(2 * wait_s, 30.0)
            except ServerUnreachable:
                failures += 1
                if failures > RECONNECTS or not self._has_answered:
                    raise
                self._pause(1.0)


FIXES: Mapping[str, str] = {
    "canceled": "Begin it anew with another --name.",
    "budget_exhausted": "Give it a larger budget.",
    "model_refused": "Correct the name of its model, the API key or the settings of the model.",
    "model_unavailable": "See that the server of its model works.",
    "nothing_judged": "Give it a larger budget or more seconds.",
    "reply_cut_off": "Give it a larger max_output_tokens.",
    "unreadable_reply": "See that the server of its model speaks the protocol that is configured.",
    "validator_unavailable": "See that the endpoint or the resource of the validator works.",
}
OTHER_FIX = "Try it with another model or other fields."


@dataclass(frozen=True)
class FailedJudgement:
    """A judgement without a score: the reason, and how it ended if it was submitted."""

    why: str
    ended: Snapshot | None = None

    def __str__(self) -> str:
        """Return the reason, with the id if there is one."""
        return self.why if self.ended is None else f"{self.ended.id}: {self.why}"


@dataclass(frozen=True)
class RefinedText:
    """The refinement of one text with one setting, and its judgements."""

    snapshot: Snapshot | None
    failure: str | None = None
    judgements: tuple[Snapshot, ...] = ()
    not_judged: tuple[FailedJudgement, ...] = ()
    judged: tuple[Iteration, ...] = ()
    ratings: Mapping[str, float] = field(default_factory=dict)
    judged_with: str | None = None
    """The first setting with the same draft, which is judged once for both."""

    @property
    def draft(self) -> str | None:
        """The final draft, if there is one."""
        found = self.snapshot and self.snapshot.result
        return found.draft if found else None

    def outcome(self) -> TextOutcome:
        """Return the figures."""
        now = self.snapshot
        if now is None:
            return TextOutcome(has_text=False, no_score=self._no_score(), cost_usd=0.0)
        estimate = now.result.estimate if now.result else None
        by_criterion: dict[str, list[float]] = {}
        for score in (score for judged in self.judged for score in judged.scores):
            if score.score is not None:
                by_criterion.setdefault(score.criterion, []).append(score.score)
        return TextOutcome(
            has_text=now.result is not None,
            has_ended=now.status.is_terminal,
            judged=tuple(_scores(self.judgements)) if now.status.is_terminal else (),
            no_score=self._no_score(),
            criteria={name: sum(scores) / len(scores) for name, scores in by_criterion.items()},
            cost_usd=now.usage.cost_usd,
            seconds=_seconds(now),
            passed=bool(self.judgements)
            and all(of.outcome is RefinementOutcome.PASSED for of in self.judgements),
            own_score=now.result.score if now.result else None,
            own_estimate=estimate.value if estimate else None,
            own_error=estimate.error if estimate else None,
            ratings=self.ratings,
        )

    def _no_score(self) -> NoScore | None:
        """Return why it has no score, in the same words for all texts, and what to change."""
        now = self.snapshot
        if now is None:
            return NoScore(self.failure or "it was not started", "Mend its request.")
        if not now.status.is_terminal:
            fix = "Answer its reviews, and run the command again."
            return NoScore("it waits for a reviewer", fix, blames_setting=False)
        if now.result is None:
            code = now.error.code if now.error else now.status
            return NoScore(self.failure or "it has no result", FIXES.get(code, OTHER_FIX))
        if self.judgements or not self.not_judged:
            return None
        why = f"not judged: {self.not_judged[0].why}"
        return NoScore(why, "Mend the judge (--judge).", blames_setting=False)


def _scores(judgements: Iterable[Snapshot]) -> Iterator[float]:
    for judgement in judgements:
        if judgement.result is not None and judgement.result.score is not None:
            yield judgement.result.score


def _seconds(now: Snapshot) -> float | None:
    if now.started_at is None or now.ended_at is None:
        return None
    return (now.ended_at - now.started_at).total_seconds()


RefinedTexts = list[dict[str, RefinedText]]


def refined_texts(
    runner: ComparisonRunner, plan: ComparisonPlan, on_progress: Callable[[str, int, int], None]
) -> RefinedTexts:
    """Run the whole plan, and return the refined texts by setting."""
    known = runner.known()
    keys = {(index, name): key_of(body) for index, name, body in plan.run_requests()}
    wanted = {
        keys[index, name]: plan.labelled(body, name, plan.texts[index].name)
        for index, name, body in plan.run_requests()
    }
    runs = runner.run(wanted, known, lambda n: on_progress("refining", n, len(wanted)))
    found = [
        {name: _refined(runs[keys[index, name]]) for name in plan.settings}
        for index in range(len(plan.texts))
    ]
    judged = _judgements(runner, plan, known, found, on_progress)
    done, total = 0, sum(len(of_text) for of_text in found)
    complete: RefinedTexts = []
    for text, of_text in zip(plan.texts, found, strict=True):
        complete.append({})
        firsts: dict[tuple[str, ...], str] = {}
        for name, refined in of_text.items():
            keys_of_draft = tuple(map(key_of, _judgement_bodies(plan, text, refined)))
            seen = _looked_up(runner, refined, [judged[key] for key in keys_of_draft])
            first = firsts.setdefault(keys_of_draft, name) if keys_of_draft else name
            complete[-1][name] = replace(seen, judged_with=None if first == name else first)
            done += 1
            on_progress("reading", done, total)
    return complete


def _refined(ended: Snapshot | str) -> RefinedText:
    if isinstance(ended, str):
        return RefinedText(None, ended)
    if ended.status == Status.PAUSED:
        return RefinedText(ended, f"it waits for a reviewer: hone review {ended.id}")
    kept = "; its best draft is compared" if ended.result else ""
    if ended.error is not None:
        return RefinedText(ended, f"{ended.error.code}: {ended.error.detail}{kept}")
    if ended.status == Status.CANCELED:
        return RefinedText(ended, f"canceled{kept}")
    return RefinedText(ended, None if ended.result else "it has no result")


def _judgement_bodies(
    plan: ComparisonPlan, text: ComparedText, refined: RefinedText
) -> Iterator[dict[str, Any]]:
    now = refined.snapshot
    if refined.draft is None or now is None or not now.status.is_terminal:
        return
    body = plan.judging(text, refined.draft)
    for number in range(1, plan.judgements + 1):
        yield {**body, "metadata": {**(body.get("metadata") or {}), "judgement": str(number)}}


def _judgements(
    runner: ComparisonRunner,
    plan: ComparisonPlan,
    known: Mapping[str, Snapshot],
    found: RefinedTexts,
    on_progress: Callable[[str, int, int], None],
) -> dict[str, Snapshot | str]:
    """Return every judgement by key; drafts of the same words share theirs."""
    wanted = {
        key_of(body): plan.labelled(body, "judge", text.name)
        for text, of_text in zip(plan.texts, found, strict=True)
        for refined in of_text.values()
        for body in _judgement_bodies(plan, text, refined)
    }
    return runner.run(wanted, known, lambda n: on_progress("judging", n, len(wanted)))


def _looked_up(
    runner: ComparisonRunner, refined: RefinedText, judged: Sequence[Snapshot | str]
) -> RefinedText:
    ended = tuple(one for one in judged if isinstance(one, Snapshot) and [*_scores([one])])
    failed = tuple(_why_not_judged(one) for one in judged if one not in ended)
    drafts = runner.iterations(refined.snapshot.id) if refined.snapshot and refined.draft else ()
    return RefinedText(
        refined.snapshot,
        refined.failure,
        judgements=ended,
        not_judged=failed,
        judged=tuple(one for judgement in ended for one in runner.iterations(judgement.id)),
        ratings=_ratings(refined, drafts),
    )


def _why_not_judged(judged: Snapshot | str) -> FailedJudgement:
    if isinstance(judged, str):
        return FailedJudgement(judged)
    if judged.error is not None:
        return FailedJudgement(f"{judged.error.code}: {judged.error.detail}", judged)
    return FailedJudgement(f"{judged.status}, without a score", judged)


def _ratings(refined: RefinedText, drafts: Iterable[Iteration]) -> dict[str, float]:
    """Return what people scored the final draft, by who they are; their last word counts."""
    result = refined.snapshot.result if refined.snapshot else None
    given = [
        rating
        for draft in drafts
        if result is not None and draft.sha256 == result.sha256
        for rating in draft.ratings
    ]
    given.sort(key=lambda rating: rating.event)
    return {rating.by or "": rating.score for rating in given if rating.score is not None}


@dataclass(frozen=True)
class ComparisonStory:
    """A comparison with all facts that its outputs show."""

    plan: ComparisonPlan
    refined: RefinedTexts
    outcomes: Texts
    """Those of the refined texts, and of a baseline."""
    result: ComparedSettings
    judge: Mapping[str, str]
    """The models of the judge, by seat."""
    remarks: tuple[str, ...]

    def judged_by(self) -> str:
        """Return a phrase about the judge."""
        models = ", ".join(f"{seat} {model}" for seat, model in self.judge.items())
        times = "" if self.plan.judgements == 1 else f", each draft {self.plan.judgements} times"
        return f"judged by {models}{times}"

    def gaps(self) -> list[str]:
        """Return a line for each text that lacks a result or a judgement; it is never dropped."""
        return [
            line
            for text, found in zip(self.plan.texts, self.refined, strict=True)
            for name in found
            for line in _gaps_of(text.name, name, found)
        ]

    def gaps_in_score(self, pair: PairedDifference) -> list[tuple[float, str]]:
        """Return the difference of score of each text that has both, with its name."""
        return [
            (one - other, text.name)
            for text, found in zip(self.plan.texts, self.outcomes, strict=True)
            if (one := found[pair.setting].score) is not None
            and (other := found[pair.against].score) is not None
        ]

    def _about_noise(self) -> list[str]:
        """Return how much of the differences is the judge's noise, if that is known."""
        noise = self.result.judge_noise
        if noise is None:
            return []
        notes = [f"The judge's scores of one text vary by {noise:.3f} (standard deviation)."]
        for difference in self.result.differences:
            if difference.score is not None and difference.score.sd:
                share = min(1.0, 2 * noise**2 / self.plan.judgements / difference.score.sd**2)
                notes.append(
                    f"{difference.setting} - {difference.against}: {share:.0%} of the variance"
                    " between texts is that noise, and the interval contains it."
                )
        return notes

    def spent(self) -> dict[str, float | None]:
        """Return what refining and judging cost; None if it is unknown."""
        refined = [one for text in self.refined for one in text.values()]
        failed = [why.ended for one in refined for why in one.not_judged]
        judged = [*(judgement for one in refined for judgement in one.judgements), *failed]
        return {"refining": _cost(one.snapshot for one in refined), "judging": _cost(judged)}

    def notes(self) -> list[str]:
        """Return the reservations: possible favour, noise, and how to run the command again."""
        return [*self.remarks, *self._about_noise(), *self._how_to_go_on()]

    def _how_to_go_on(self) -> list[str]:
        """Return how the command is run again, if a setting has no score at all."""
        if all(setting.score is not None for setting in self.result.settings):
            return []
        command = (
            f"Run it again with --name {self.plan.name}, and with --retry if the files are the"
        )
        return [f"{command} same: what has a result is not paid again."]

    def costs(self) -> str:
        """Return a sentence about what the comparison cost."""
        parts = [f"{what} {_dollars(cost)}" for what, cost in self.spent().items()]
        return f"Cost of the comparison: {', '.join(parts)}."


def _gaps_of(text: str, name: str, found: Mapping[str, RefinedText]) -> Iterator[str]:
    """Yield what a setting lacks of a text; a judgement that settings share is named once."""
    refined, what = found[name], on_one_line(text)
    if refined.failure is not None:
        yield f"{what} with {name}: {on_one_line(refined.failure)}"
    if refined.judged_with is None:
        names = " and ".join(
            (name, *(other for other in found if found[other].judged_with == name))
        )
        yield from (
            f"{what} with {names}, not judged: {on_one_line(str(why))}"
            for why in refined.not_judged
        )


def _cost(of: Iterable[Snapshot | None]) -> float | None:
    """Return what refinements cost together, each once; None if that of one is unknown."""
    return _whole({one.id: one.usage.cost_usd for one in of if one is not None}.values())


def _dollars(cost: float | None) -> str:
    return "unknown" if cost is None else dollars(cost)
