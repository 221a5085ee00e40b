"""The port: the validators of a request, ready to check its drafts."""

import asyncio
from collections.abc import Sequence
from itertools import chain

from app.contract.judgement import Finding, Span
from app.contract.regexes import PatternError
from app.contract.validators import AnyValidator
from workers.validators.aside import Aside, shared
from workers.validators.kinds import Documents, is_quick, reads_documents, violations
from workers.validators.violation import Violation


class Checks:
    """All validators of one request."""

    def __init__(
        self, validators: Sequence[AnyValidator], documents: Documents, aside: Aside
    ) -> None:
        self._validators = tuple(validators)
        self._documents = tuple(documents)
        self._aside = aside

    async def run(self, draft: str) -> tuple[Finding, ...]:
        """Return what is wrong with the draft, in the order of the validators; empty when all pass.

        It holds the event loop for a few milliseconds at most. A validator that is too expensive
        for this draft is a finding as well: what could not be checked has not passed. Raises
        `ValidatorUnavailable` when a validator fails whatever the draft.
        """
        found = [await self._check(*each, draft) for each in enumerate(self._validators)]
        return tuple(chain.from_iterable(found))

    async def _check(self, index: int, validator: AnyValidator, draft: str) -> list[Finding]:
        try:
            if is_quick(validator, draft):
                found = tuple(violations(validator, draft))
            else:
                found = await asyncio.get_running_loop().run_in_executor(
                    self._aside.executor,
                    self._aside.check,
                    validator,
                    draft,
                    self._documents if reads_documents(validator) else (),
                )
        except PatternError as error:
            found = (Violation(str(error), "correct the pattern of the validator"),)
        return [_finding(index, validator, each) for each in found]


def compile_validators(
    validators: Sequence[AnyValidator],
    aside: Aside | None = None,
    *,
    context: Documents = (),
) -> Checks:
    """Return the checks of a request, whose context they may read.

    What is expensive runs in the process that all share.
    """
    return Checks(validators, context, aside or shared())


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
