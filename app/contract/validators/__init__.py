"""The validators a request can name: checks that need no model, one class for each kind.

A class declares everything that the rest of the system needs about its kind: parameters, cost, what
it reads and requires. Each module of this package, or of an entry point `validators.NAME` of the
group `hone.contract`, is a family of validators. A module of the same name runs them: in
`workers/validators`, or an entry point of the group `hone.play`.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from json import dumps
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from app.contract import Contract
from app.contract.judgement import Criterion, Name, OnFail
from app.contract.plugins import declared_kinds
from app.contract.values import value

Schema = dict[str, Any] | bool

_FAMILIES: dict[str, str] = {}
"""The name of each family by the module that declares it."""


@value(slots=True)
class Resource:
    """A resource that a worker opens under this name if the setting is on."""

    name: str
    setting: str
    missing: str
    """The message for a request that needs the resource while the setting is off."""


SANDBOX = Resource(
    "sandbox", "python_tests", "this server cannot run drafts: HONE_PYTHON_TESTS is off"
)
ENDPOINTS = Resource(
    "endpoints", "secret_key", "this server cannot call endpoints: HONE_SECRET_KEY is not set"
)
RESOURCES = (SANDBOX, ENDPOINTS)


class Regex(NamedTuple):
    """A regular expression in RE2 syntax."""

    pattern: str
    case_sensitive: bool


def quoted_list(texts: Iterable[str]) -> str:
    """Return texts in quotation marks, in one line."""
    return ", ".join(dumps(text, ensure_ascii=False) for text in texts)


class ScoreUse(Contract):
    """What the score of a validator counts as."""

    as_: Literal["criterion", "decides"] = Field(
        alias="as",
        description="`criterion`: it counts in the score beside the request's criteria; `decides`:"
        " it is the score, and the scores of critics do not count.",
    )
    name: Name | None = Field(None, description="Name beside the criteria; the kind if null.")
    weight: float = Field(1.0, gt=0, le=1_000)


class Validator(Contract):
    """A check of the draft that needs no model."""

    on_fail: OnFail = Field(
        OnFail.VETO,
        description="`veto`: the draft cannot pass; `revise`: a finding for the reviser; `warn`: a"
        " finding for the reader only; `fix`: what has only one correction is corrected before the"
        " draft is judged, and vetoes otherwise.",
    )
    kind: str

    reads_documents: ClassVar[bool] = False
    """Whether the check reads the documents of the request as well."""

    needs: ClassVar[Resource | None] = None
    """The optional resource of a server that the check requires, if any."""

    caveat: ClassVar[str | None] = None
    """Why its verdict can be forged by a hostile draft; None if it cannot."""

    @model_validator(mode="after")
    def _fixes_only_what_it_can(self) -> Self:
        if self.on_fail is OnFail.FIX and not self.can_fix():
            raise ValueError("fix is not supported here: no rule says how to correct the draft")
        return self

    def can_fix(self) -> bool:
        """Return whether it knows corrections of a draft: `on_fail` may then be `fix`."""
        return False

    def counts_as(self) -> Criterion | None:
        """Return under which name and weight its score counts; None if it gives none."""
        return None

    @property
    def decides(self) -> bool:
        """Whether its score is the draft's, whatever critics say."""
        return False

    def in_words(self) -> str | None:
        """Return what it demands of the text, for the model that writes it.

        It completes "The text ...". None if there is nothing that a writer could heed.
        """
        return None

    @classmethod
    def family(cls) -> str:
        """Return the name of the module that declares the kind, and of the one that runs it."""
        return _FAMILIES[cls.__module__]

    def is_quick(self, draft: str) -> bool:
        """Return whether the check takes at most a few milliseconds, for any input of a client.

        Such a check runs on the event loop of its worker, all others in a separate process.
        """
        return False

    def regexes(self) -> Mapping[str, Regex]:
        """Return the regular expressions that must compile, by JSON Pointer in the validator."""
        return {}

    def json_schemas(self) -> Mapping[str, Schema]:
        """Return the schemas that the draft must satisfy, by JSON Pointer in the validator."""
        return {}


class ScoringValidator(Validator):
    """A check that can also say how good a draft is."""

    score: ScoreUse | None = Field(
        None, description="What its score, from 0 to 1, counts as; null if it does not count."
    )

    def counts_as(self) -> Criterion | None:
        if self.score is None:
            return None
        return Criterion(name=self.score.name or self.kind, weight=self.score.weight)

    @property
    def decides(self) -> bool:
        return self.score is not None and self.score.as_ == "decides"


class SandboxedValidator(ScoringValidator):
    """A check that runs the draft in a sandbox."""

    needs = SANDBOX

    timeout_s: int = Field(
        10,
        ge=1,
        le=60,
        description="CPU seconds, for `python_cases` of each case; all cases or tests together have"
        " twice that in real time.",
    )
    visible: bool = Field(
        True,
        description="Whether the model that writes is shown the tests, or the cases, also those"
        " that failed.",
    )


class ItemValidators(NamedTuple):
    """The validators of one stage, pass or part of a strategy."""

    scope: str
    """The path of the item, such as `stages/outline`."""

    pointer: str
    """Where they stand in the strategy, as a JSON Pointer."""

    validators: Sequence[Validator]

    def source(self, index: int) -> str:
        """Return the source of the findings of one of them."""
        return f"validators/{self.scope}/{index}"


VALIDATORS: dict[str, type[Validator]] = {}
"""Every validator by its kind."""

for _family, _kind, _declared in declared_kinds(__name__, __path__, "validators", Validator):
    VALIDATORS[_kind], _FAMILIES[_declared.__module__] = _declared, _family

if TYPE_CHECKING:
    AnyValidator = Validator
else:
    AnyValidator = Annotated[reduce(or_, VALIDATORS.values()), Field(discriminator="kind")]
