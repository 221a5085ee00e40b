"""The port: the validators of a request, ready to check its drafts."""

import asyncio
from collections.abc import Sequence
from itertools import chain

from app.contract.judgement import Finding, Span
from app.contract.regexes import PatternError
from app.contract.validators import AnyValidator, HttpValidator, PythonTestsValidator
from workers.validators.check_process import CheckProcess, shared
from workers.validators.http import check_http
from workers.validators.kinds import Documents, is_quick, reads_documents, violations
from workers.validators.python_tests import check_python_tests
from workers.validators.resources import NO_RESOURCES, ServerResources
from workers.validators.violation import Violation


class RequestValidators:
    """All validators of one request."""

    def __init__(
        self,
        validators: Sequence[AnyValidator],
        documents: Documents,
        check_process: CheckProcess,
        resources: ServerResources,
    ) -> None:
        self._validators = tuple(validators)
        self._documents = tuple(documents)
        self._check_process = check_process
        self._resources = resources

    async def run(self, draft: str, key: str = "") -> tuple[Finding, ...]:
        """Return what is wrong with the draft, in the order of the validators; empty when all pass.

        It holds the event loop for a few milliseconds at most. A validator that is too expensive
        for this draft is a finding as well: what could not be checked has not passed. `key` is the
        same whenever the same step runs again. Raises `ValidatorUnavailable` when a validator
        fails whatever the draft.
        """
        found = [await self._check(*each, draft, key) for each in enumerate(self._validators)]
        return tuple(chain.from_iterable(found))

    async def _check(
        self, index: int, validator: AnyValidator, draft: str, key: str
    ) -> list[Finding]:
        try:
            if isinstance(validator, HttpValidator):
                step = f"{key}/validators/{index}"
                found = await check_http(validator, draft, self._resources.endpoints, step)
            elif isinstance(validator, PythonTestsValidator):
                found = await check_python_tests(validator, draft, self._resources.sandbox)
            elif is_quick(validator, draft):
                found = tuple(violations(validator, draft))
            else:
                found = await asyncio.get_running_loop().run_in_executor(
                    self._check_process.executor,
                    self._check_process.check,
                    validator,
                    draft,
                    self._documents if reads_documents(validator) else (),
                )
        except PatternError as error:
            found = (Violation(str(error), "correct the pattern of the validator"),)
        return [_finding(index, validator, each) for each in found]


def compile_validators(
    validators: Sequence[AnyValidator],
    check_process: CheckProcess | None = None,
    *,
    context: Documents = (),
    resources: ServerResources = NO_RESOURCES,
) -> RequestValidators:
    """Return the checks of a request, whose context they may read.

    What is expensive runs in the process that all share; what needs more of the server than that
    is `outside`.
    """
    return RequestValidators(validators, context, check_process or shared(), resources)


def _finding(index: int, validator: AnyValidator, violation: Violation) -> Finding:
    return Finding(
        source=f"validators/{index}",
        kind=validator.kind,
        message=violation.message,
        fix=violation.fix,
        span=Span(start=violation.span[0], end=violation.span[1]) if violation.span else None,
        quote=violation.quote,
        on_fail=validator.on_fail,
    )
