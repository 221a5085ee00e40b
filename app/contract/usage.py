"""What ended refinements have consumed, by day, and as `GET /v1/statistics?of=usage` shows it."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date
from enum import StrEnum
from typing import NamedTuple, Self

from pydantic import ConfigDict, Field

from app.contract import Contract
from app.contract.judgement import Usage
from app.contract.outcome import RefinementOutcome

NANO = 1_000_000_000
"""Costs are added up in whole billionths of a dollar, so that sums do not depend on the order."""

UNKNOWN_MODEL = "unknown"
"""Stands for a model that the journal does not name: of a failed step."""

OTHER = "other"
"""Stands for the keys and models of a day for which there was no room any more."""


class ModelUse(NamedTuple):
    """What calls have consumed; `unpriced_calls` are those whose cost is unknown."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    nano_usd: int = 0
    unpriced_calls: int = 0

    def plus(self, other: Sequence[int]) -> Self:
        """Add another use, by name."""
        return type(self)(*[a + b for a, b in zip(self, other, strict=True)])

    @classmethod
    def of(cls, usage: Usage) -> Self:
        """Return what the usage of one step counts for."""
        cost_usd = usage.cost_usd
        return cls(
            usage.calls,
            usage.input_tokens,
            usage.output_tokens,
            usage.cached_tokens,
            round((cost_usd or 0) * NANO),
            usage.calls if cost_usd is None else 0,
        )


NO_USE = ModelUse()


class UsageGrouping(StrEnum):
    """What usage is added up by."""

    DAY = "day"
    TENANT = "tenant"
    KEY = "key"
    MODEL = "model"
    STRATEGY = "strategy"
    OUTCOME = "outcome"


class UsageCell(NamedTuple):
    """What the endings of one day have in common that are added up in the store.

    `model` is empty for the refinements themselves, which are counted whatever they called.
    """

    day: date
    tenant: str
    key: str
    model: str
    strategy: str
    outcome: str
    """That of the refinement, or `erased`: deleted while it ran."""


class UsageSums(Contract):
    """What was consumed."""

    refinements: int = Field(
        description="Endings of refinements: one that ended again after a retry counts twice, the"
        " second time with what it has consumed since. By model, those that called it."
    )
    calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int = Field(description="Input tokens that a provider read from its cache.")
    cost_usd: float | None = Field(
        description="Dollars of the calls whose cost is known; null if there are calls, and that of"
        " none is known."
    )
    unpriced_calls: int = Field(description="Calls whose cost is unknown.")

    @classmethod
    def of(cls, refinements: int, use: ModelUse) -> Self:
        """Return the sums of a number of endings."""
        calls, input_tokens, output_tokens, cached_tokens, nano_usd, unpriced_calls = use
        return cls(
            refinements=refinements,
            calls=calls,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cached_tokens=cached_tokens,
            cost_usd=None if calls and calls == unpriced_calls else nano_usd / NANO,
            unpriced_calls=unpriced_calls,
        )


class UsageTotal(UsageSums):
    """What was consumed, and which part of it by refinements that did not pass."""

    not_passed: UsageSums = Field(
        description="Of this, by refinements that missed a threshold, a floor or a validator, that"
        " failed, that were canceled, or that were erased before they ended."
    )


class UsageRow(UsageTotal):
    """The sums of one group."""

    group: dict[UsageGrouping, str | None] = Field(
        description="The value of each grouping; null for a key if there was none."
    )


class UsageReport(Contract):
    """What was consumed in some days, group by group."""

    model_config = ConfigDict(serialize_by_alias=True)

    from_: date = Field(alias="from", description="First day that counts, in UTC.")
    to: date = Field(description="Last day that counts, in UTC.")
    data: tuple[UsageRow, ...] = Field(description="Groups, in the order of their values.")
    total: UsageTotal


class _Sums:
    """Endings and uses, of all refinements and of those that did not pass."""

    def __init__(self) -> None:
        self.refinements = [0, 0]
        self.use = [NO_USE, NO_USE]

    def add(self, outcome: str, refinements: int, use: ModelUse) -> None:
        for i in range(1 if outcome == RefinementOutcome.PASSED else 2):
            self.refinements[i] += refinements
            self.use[i] = self.use[i].plus(use)

    def shown(self) -> dict[str, object]:
        whole, part = map(UsageSums.of, self.refinements, self.use)
        return {**whole.model_dump(), "not_passed": part}


class UsageGroups:
    """Adds up cells by some groupings.

    A group of a model counts the refinements that called it; the cells that count refinements
    whatever they called belong to no model.
    """

    def __init__(self, by: Sequence[UsageGrouping]) -> None:
        self._by = by
        self._groups = defaultdict[tuple[str, ...], _Sums](_Sums)
        self._total = _Sums()

    def __len__(self) -> int:
        return len(self._groups)

    def add(self, cells: Iterable[tuple[UsageCell, int, ModelUse]]) -> None:
        """Add cells, each with the number of endings."""
        is_by_model = UsageGrouping.MODEL in self._by
        for cell, endings, use in cells:
            is_of_model = bool(cell.model)
            self._total.add(cell.outcome, 0 if is_of_model else endings, use)
            if is_of_model or not is_by_model:
                values = tuple(str(getattr(cell, it)) for it in self._by)
                counted = endings if is_of_model == is_by_model else 0
                self._groups[values].add(cell.outcome, counted, use)

    def rows(self) -> tuple[UsageRow, ...]:
        """Return the sums of each group, in the order of their values."""
        return tuple(
            UsageRow.model_validate({"group": self._named(it)} | self._groups[it].shown())
            for it in sorted(self._groups)
        )

    def _named(self, values: Sequence[str]) -> dict[UsageGrouping, str | None]:
        return {name: value or None for name, value in zip(self._by, values, strict=True)}

    def total(self) -> UsageTotal:
        """Return the sums of all cells."""
        return UsageTotal.model_validate(self._total.shown())
