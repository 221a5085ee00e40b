"""The validators of a request: run in the order of their scopes, in this process or another."""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

from app.contract.drafts import lacking
from app.contract.judgement import (
    CriterionScore,
    Finding,
    FindingsReply,
    FixMade,
    OnFail,
    Span,
    TextChange,
)
from app.contract.regexes import PatternError
from app.contract.validators import SANDBOX, AnyValidator, ItemValidators, Resource
from app.settings import Settings
from app.store import open_signing
from workers.outbound.guarded_client import EndpointClient, EndpointWaits, open_endpoints
from workers.text.edits import Edit
from workers.validators import Documents, first_findings, said_of_check, start
from workers.validators.check_process import CheckProcess, shared_check_process, too_expensive
from workers.validators.sandbox import Sandbox, open_sandbox
from workers.validators.violation import (
    HIDES_OTHERS,
    CheckFailed,
    Measurement,
    ValidatorUnavailable,
    Violation,
    abbreviated,
    sound,
)

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ServerResources:
    """The resources of this worker, each under its name in the contract."""

    sandbox: Sandbox | None = None
    endpoints: EndpointClient | None = None
    check_cpu_s: float = math.inf
    """CPU time that all checks of one refinement may use."""


NO_RESOURCES = ServerResources()
MOST_CHANGES = 20
"""Changes of one validator that are recorded."""

SHOWN = 200
"""Characters of a change that are recorded."""

NOT_CHECKED = "nothing in the draft: this validator could not run"


@asynccontextmanager
async def open_server_resources(settings: Settings) -> AsyncIterator[ServerResources]:
    """Open the resources that the settings allow. Raises `RunsAsRoot`."""
    sandbox = open_sandbox(allowed=settings.python_tests)
    if not settings.secret_key:
        yield ServerResources(sandbox, check_cpu_s=settings.check_cpu_s)
        return
    async with (
        open_signing(settings) as signing,
        open_endpoints(
            signing.of, allowed=settings.outbound_allow, egress_proxy=settings.egress_proxy
        ) as endpoints,
    ):
        yield ServerResources(sandbox, endpoints, settings.check_cpu_s)


class RequestValidators:
    """All validators of one request: by scope, and in it by the source of their findings."""

    def __init__(
        self,
        sources: Mapping[str, Mapping[str, AnyValidator]],
        documents: Documents,
        check_process: CheckProcess | None,
        resources: ServerResources,
        locked: Sequence[str] = (),
    ) -> None:
        self._locked = tuple(locked)
        self._sources = sources
        self._documents = tuple(documents)
        self._check_process = check_process
        self._is_slow = False
        self._used_s = 0.0
        self._resources = resources

    async def run(self, draft: str, key: str = "") -> tuple[Finding, ...]:
        """Return the findings of `examine` alone."""
        return (await self.examine(draft, key)).findings

    async def examine(
        self, draft: str, key: str = "", scopes: Sequence[str] = ("",), *, corrects: bool = True
    ) -> FindingsReply:
        """Return the findings on the draft, in the order of the validators, and their scores.

        Unless it `corrects`, the draft is checked as it is.

        The call blocks the event loop for a few milliseconds at most. A validator that is too
        expensive for this draft is a finding too: a draft that could not be checked has not passed.
        `key` is the same whenever the same step is repeated. Raises `ValidatorUnavailable` when a
        validator cannot run, whatever the draft, and `EndpointWaits` when an endpoint is away; of
        one that only warns either is a finding.
        """
        findings: list[Finding] = []
        scores: list[CriterionScore] = []
        validators = list(chain.from_iterable(self._sources[scope].items() for scope in scopes))
        text, fixes = await self._fixed(validators if corrects else (), draft, key)
        for source, validator in validators:
            for finding in await self._check(source, validator, text, key):
                if isinstance(finding, Violation):
                    findings.append(_finding(source, validator, finding))
                elif criterion := validator.counts_as():
                    scores.append(_score(criterion.name, finding))
        return FindingsReply(
            findings=tuple(findings),
            scores=tuple(scores),
            text=text if fixes else None,
            fixes=fixes,
        )

    async def _fixed(
        self, validators: Sequence[tuple[str, AnyValidator]], draft: str, key: str
    ) -> tuple[str, tuple[FixMade, ...]]:
        """Return the draft as those validators correct it that are asked to, and what they did.

        A correction of a locked text is left out, with all others of its validator.
        """
        text, fixes = draft, list[FixMade]()
        for source, validator in validators:
            if validator.on_fail is not OnFail.FIX:
                continue
            # Not the quick one, in which a correction would be left out for want of time.
            process = self._check_process or shared_check_process(is_slow=True)
            try:
                edits = await self._asked(process, key, process.fix, validator, text)
            except CheckFailed:
                log.exception("a correction failed", extra={"step": f"{key}/{source}"})
                continue
            changed, made = corrected_text(text, edits)
            if (
                made
                and changed.strip()
                and not set(lacking(changed, self._locked)) - set(lacking(text, self._locked))
            ):
                shown = tuple(made[:MOST_CHANGES])
                fix = FixMade(source=source, kind=validator.kind, count=len(made), changes=shown)
                text, fixes = changed, [*fixes, fix]
        return text, tuple(fixes)

    async def _check(
        self, source: str, validator: AnyValidator, draft: str, key: str
    ) -> tuple[Violation | Measurement, ...]:
        step = f"{key}/{source}"
        try:
            return await self._found(validator, draft, step)
        except PatternError as error:
            return (Violation(str(error), "correct the pattern of the validator"),)
        except CheckFailed as error:
            log.exception("a check failed", extra={"step": step})
            return (_broken(validator.kind, error),)
        except (ValidatorUnavailable, EndpointWaits) as error:
            if validator.on_fail is not OnFail.WARN:
                raise
            message = f"the draft was not checked: {error.detail}"
            return (Violation(message, NOT_CHECKED, skipped=True),)

    async def _found(
        self, validator: AnyValidator, draft: str, step: str
    ) -> tuple[Violation | Measurement, ...]:
        if self._is_used_up(validator, draft):
            return (_used_up(self._resources.check_cpu_s),)
        if validator.needs:
            return await self._with(validator.needs, validator, draft, step)
        if validator.is_quick(draft):
            return first_findings(validator, draft, self._documents)
        return await self._in_process(validator, draft, step)

    def _is_used_up(self, validator: AnyValidator, draft: str) -> bool:
        uses_cpu = validator.needs is SANDBOX or not (validator.needs or validator.is_quick(draft))
        return uses_cpu and self._used_s >= self._resources.check_cpu_s

    def _spend(self, cpu_s: float) -> None:
        self._used_s += cpu_s

    async def _in_process(
        self, validator: AnyValidator, draft: str, key: str
    ) -> tuple[Violation | Measurement, ...]:
        """Check in the quick process; what takes long there, and all that follows, in the slow one.

        So a hostile validator holds the checks of other refinements once, for a tenth of a second.
        """
        documents = self._documents if validator.reads_documents else ()
        if not (self._check_process or self._is_slow):
            process = shared_check_process()
            found = await self._asked(process, key, process.check, validator, draft, documents)
            if found != (too_expensive(validator.kind),):
                return found
            self._is_slow = True
        process = self._check_process or shared_check_process(is_slow=True)
        return await self._asked(process, key, process.check, validator, draft, documents)

    async def _asked(
        self, process: CheckProcess, key: str, does: Callable[..., tuple[T, ...]], *given: Any
    ) -> tuple[T, ...]:
        """Ask in the turn of the refinement that the key belongs to, and count the CPU time."""
        async with process.turns.turn(owner=key.partition("/")[0]):
            before = process.used_s
            loop = asyncio.get_running_loop()
            try:
                return await loop.run_in_executor(process.executor, does, *given)
            finally:
                self._spend(process.used_s - before)

    async def _with(
        self, needed: Resource, validator: AnyValidator, draft: str, step: str
    ) -> tuple[Violation | Measurement, ...]:
        resource = getattr(self._resources, needed.name)
        if resource is None:
            raise ValidatorUnavailable(needed.missing)
        if isinstance(resource, Sandbox):
            resource = resource.counted(self._spend)
        found = await start(validator, draft, self._documents, resource, step)
        with said_of_check():
            return tuple(sound(each, draft) for each in found)


def _broken(kind: str, failure: CheckFailed) -> Violation:
    return Violation(
        f"could not be checked: the check of {kind} failed with {abbreviated(str(failure), 300)}",
        "nothing in the draft: the operator of this server finds more in the worker's log",
        weight=HIDES_OTHERS,
        skipped=True,
    )


def _used_up(cpu_s: float) -> Violation:
    return Violation(
        f"was not checked: the checks of this refinement have used their {cpu_s:g} s of CPU time",
        "shorten the draft; simplify its validators or its tests",
        weight=HIDES_OTHERS,
        skipped=True,
    )


def compile_validators(
    validators: Sequence[AnyValidator],
    check_process: CheckProcess | None = None,
    *,
    context: Documents = (),
    resources: ServerResources = NO_RESOURCES,
    items: Sequence[ItemValidators] = (),
    locked: Sequence[str] = (),
) -> RequestValidators:
    """Return the checks of a request, whose context they may read, and those of its items.

    Expensive checks run in the check process that all requests share; checks that need a resource
    of the server use `resources`. No correction changes a `locked` text.
    """
    sources = {"": {f"validators/{index}": validator for index, validator in enumerate(validators)}}
    for item in items:
        sources[item.scope] = {
            item.source(n): validator for n, validator in enumerate(item.validators)
        }
    return RequestValidators(sources, context, check_process, resources, locked)


def corrected_text(text: str, edits: Iterable[Edit]) -> tuple[str, list[TextChange]]:
    """Return the text with all edits that change it and do not overlap, and what they changed."""
    parts, made, end = list[str](), list[TextChange](), 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        old = text[edit.start : edit.end]
        if edit.start < end or old == edit.new:
            continue
        parts += text[end : edit.start], edit.new
        end = edit.end
        made.append(_change(old, edit.new))
    return "".join((*parts, text[end:])), made


def _change(old: str, new: str) -> TextChange:
    """Return a change as it is recorded; of long texts, from where they differ."""
    at = 0
    if max(len(old), len(new)) > SHOWN:
        same = (n for n, (one, other) in enumerate(zip(old, new, strict=False)) if one != other)
        at = next(same, min(len(old), len(new)))
    return TextChange(before=abbreviated(old[at:], SHOWN), after=abbreviated(new[at:], SHOWN))


def _score(name: str, measured: Measurement) -> CriterionScore:
    return CriterionScore(criterion=name, score=measured.score, reason=measured.reason)


def _finding(source: str, validator: AnyValidator, violation: Violation) -> Finding:
    return Finding(
        source=source,
        kind=validator.kind,
        message=violation.message,
        fix=violation.fix,
        span=Span(start=violation.span[0], end=violation.span[1]) if violation.span else None,
        quote=violation.quote,
        on_fail=OnFail.VETO if validator.on_fail is OnFail.FIX else validator.on_fail,
        weight=violation.weight,
        skipped=violation.skipped,
    )
