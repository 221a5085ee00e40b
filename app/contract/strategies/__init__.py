"""The strategies: each declares its parameters, and everything that the rest of the system needs.

Model roles, call counts, budgets, admission, reports and offers read the declarations; none of them
names a strategy. Every `Strategy` in a module of this package, or of an entry point
`strategies.NAME` of the group `hone.contract`, is offered. A module with the name of its `kind`
plays it: in `workers/engine/strategies`, or an entry point of the group `hone.play`.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Union, get_args, get_origin

from pydantic import Field

from app.contract import Contract
from app.contract.calls import Rates
from app.contract.drafts import LONGEST_TEXT, MAX_TEXT, is_long
from app.contract.errors import FieldConflict
from app.contract.judgement import Criterion, Critics
from app.contract.models import ROLES, Role
from app.contract.plugins import declared_kinds
from app.contract.reviews import ReviewPlan
from app.contract.tools import Tool
from app.contract.validators import ItemValidators
from app.contract.values import value

if TYPE_CHECKING:
    from app.contract.requests import RefinementRequest


DEEPEST = 4
"""How many strategies may be within each other at most, the outermost counted."""


@value(slots=True)
class LanguageNeed:
    """What only a language model can do for a strategy, and in which roles."""

    does: str
    """Completes a sentence that begins with the kind, such as "plans and carries out steps"."""
    roles: tuple[Role, ...] = ROLES


class Strategy(Contract):
    """A strategy of refinement; a request names it by its `kind`.

    A subclass must have a docstring, which is its description in the API, a `kind` of its own, and
    every attribute that has no value here; else its definition raises TypeError. The default values
    fit a strategy that drafts, has critics judge, and revises.
    """

    kind: str

    needs_language: ClassVar[LanguageNeed | None]
    """What `offline:editor` cannot do; None if it can play every role."""

    judges_criteria: ClassVar[bool]
    """Whether critics judge drafts on the request's criteria; else criteria and critics are
    rejected."""

    asks_critic: ClassVar[bool] = False
    """Whether it asks the critic for more than judgements: then a panel does not replace it."""

    rewrites: ClassVar[bool] = True
    """Whether a revision may rewrite the client's whole draft, unless `edits` is `delta`."""

    longest_draft: ClassVar[int] = MAX_TEXT
    """Characters of the client's draft at most."""

    counts_scores: ClassVar[bool] = True
    """Whether the score of a validator can count; else `score` of a validator is rejected."""

    follows_feedback: ClassVar[bool] = False
    """Whether it can revise the client's draft by the feedback of the request before it judges
    one; else `feedback` is rejected. Its drafts must come of `propose`."""

    uses_tools: ClassVar[bool] = False
    """Whether it can call the request's tools; else tools are rejected."""

    prepares: ClassVar[int] = 0
    """Minimum calls of the generator before the first draft, each of which reads the reply to the
    previous one: a budget must cover them."""

    plan_steps: ClassVar[tuple[str, ...]] = ()
    """Last parts of the keys of steps whose replies are plans, which a report shows."""

    def roles(self) -> tuple[Role, ...]:
        """Return the roles whose models it can call; without `critic`, judging costs nothing."""
        return ROLES

    @abstractmethod
    def calls(self, rates: Rates, max_iterations: int, draft: str | None) -> int:
        """Return the sum of what `rates` count for its questions, revisions and judged drafts.

        The sum is linear in them, and the maximum unless they ask for what is usual. `draft` is the
        client's. Reviews, comparison, outputs and checklist are counted elsewhere.
        """

    def inner(self) -> tuple["Strategy", ...]:
        """Return the strategies that refine its stages, passes or parts."""
        return ()

    def reviews(self) -> Iterator[tuple[str, ReviewPlan]]:
        """Yield the reviews of its stages, passes and parts, each with its JSON Pointer in it."""
        yield from ()

    def every(self) -> Iterator["Strategy"]:
        """Yield it and every strategy within it, at any depth."""
        yield self
        for body in self.inner():
            yield from body.every()

    def language_need(self) -> LanguageNeed | None:
        """Return what only a language model can do for it with these parameters."""
        return self.needs_language

    def titles(self) -> Iterator[tuple[str, str]]:
        """Yield the path of each stage, pass or part that it names, and what it is to do."""
        yield from ()

    def thresholds(self) -> Iterator[tuple[str, float]]:
        """Yield the path of each stage, pass or part that has a threshold of its own, with that."""
        yield from ()

    def may_call(self, tool: Tool) -> bool:
        """Return whether it may call a tool of the request, with these parameters."""
        return self.uses_tools

    def callable_of(self, tools: Sequence[Tool]) -> tuple[Tool, ...]:
        """Return the tools that it, or a strategy within it, may call."""
        every = tuple(self.every())
        return tuple(tool for tool in tools if any(each.may_call(tool) for each in every))

    def prepared(self) -> int:
        """Return the minimum calls before the first draft, with these parameters."""
        return max(strategy.prepares for strategy in self.every())

    def depth(self) -> int:
        """Return how many strategies are within each other, itself counted."""
        return 1 + max((body.depth() for body in self.inner()), default=0)

    def conflicts(self, request: "RefinementRequest") -> Iterator[FieldConflict]:
        """Yield the conflicts between a request and the strategy; the client receives the first.

        The request has a task, a draft or both. Criteria, critics and tools that the strategy does
        not use need no check here: `refused` yields them after these conflicts.
        """
        yield from ()

    def read_in_parts(self, draft: str | None) -> tuple[str, ...]:
        """Return the parts of a client's draft that is too long for one prompt; none of another.

        They are read one by one before anything is judged.
        """
        return ()

    def stage_paths(self) -> tuple[str, ...]:
        """Return the paths of its stages or passes, for each of which a model may be drawn."""
        return ()

    def replies_in_prompt(self, draft: str | None) -> int:
        """Return the maximum number of replies that one later prompt contains, a draft included.

        `draft` is the client's.
        """
        return 1

    def rubrics(self) -> tuple[tuple[Criterion, ...], ...]:
        """Return the sets of criteria that critics judge on besides the request's."""
        return ()

    def item_validators(self) -> tuple[ItemValidators, ...]:
        """Return the validators of its stages, passes or parts that have some."""
        return ()

    def lacks(self, path: str, draft: str | None) -> tuple[str, ...]:
        """Return the paths of the stages or parts whose text a draft at `path` does not contain.

        `draft` is the client's.
        """
        return ()

    def drawn_at_least(self) -> int:
        """Return the minimum number of drafts it writes; `max_iterations` must be at least that."""
        return 1

    def writes_anew(self) -> bool:
        """Return whether it, or one within it, writes anew even when a draft is given."""
        return any(body.writes_anew() for body in self.inner())

    def can_differ(self, max_iterations: int, *, has_draft: bool) -> bool:
        """Return whether the result can be another draft than the first one judged as a whole."""
        return has_draft or max_iterations > 1

    def escalates(self, max_iterations: int) -> bool:
        """Return whether drafts are revised one after the other, so that another generator may go
        on where one is stuck."""
        return max_iterations > 1

    def refused(self, request: "RefinementRequest") -> Iterator[FieldConflict]:
        """Yield all conflicts between a request and the strategy, those of `conflicts` first."""
        if request.draft is not None and len(request.draft) > self.longest_draft:
            able = _kinds_that(lambda strategy: strategy.longest_draft > self.longest_draft)
            yield FieldConflict(
                "/draft",
                f"the draft has {len(request.draft)} characters, and {self.kind} takes at most"
                f" {self.longest_draft}: use the strategy {able}, which refines up to"
                f" {LONGEST_TEXT} part by part, or shorten the draft",
            )
        yield from self.conflicts(request)
        if not self.judges_criteria:
            if request.criteria:
                yield FieldConflict(
                    "/criteria",
                    f"criteria are not supported by {self.kind}, which asks no critic for scores:"
                    " omit them, and state the requirements in `task`",
                )
            if request.critics != Critics():
                yield FieldConflict(
                    "/critics",
                    f"`critics` is not supported by {self.kind}, which asks no critic for scores",
                )
        if not self.counts_scores:
            for index, validator in enumerate(request.validators):
                if validator.counts_as() is not None:
                    yield FieldConflict(
                        f"/validators/{index}/score",
                        f"the score of a validator does not count in {self.kind}",
                    )
        if request.feedback is not None and not self.follows_feedback:
            able = _kinds_that(lambda strategy: strategy.follows_feedback)
            detail = f"`feedback` is supported only by {able}"
            if is_long(request.draft):
                detail = f"`feedback` needs a draft of at most {MAX_TEXT} characters: omit it"
            yield FieldConflict("/feedback", detail)
        yield from self.refused_tools(request)
        if any(body.asks_before_calls() for body in self.every() if body is not self):
            detail = "`approval` is supported only by the strategy itself, not by one within it"
            yield FieldConflict("/strategy", detail)

    def asks_before_calls(self) -> bool:
        """Return whether a reviewer is asked before a tool is called."""
        return False

    def refused_tools(self, request: "RefinementRequest") -> Iterator[FieldConflict]:
        """Yield the conflicts about tools of the request that no strategy of it may call."""
        callable_tools = self.callable_of(request.tools)
        if request.tools and not any(strategy.uses_tools for strategy in self.every()):
            using = _kinds_that(lambda strategy: strategy.uses_tools)
            yield FieldConflict("/tools", f"`tools` is supported only by the strategy {using}")
            return
        for index, tool in enumerate(request.tools):
            if tool not in callable_tools:
                why = ", which has `effects`" if tool.effects else ""
                detail = f"no strategy of the request may call the tool {tool.name}{why}"
                yield FieldConflict(f"/tools/{index}", detail)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Raise TypeError for an incomplete declaration."""
        super().__pydantic_init_subclass__(**kwargs)
        required = ("needs_language", "judges_criteria")
        lacking = [name for name in required if not hasattr(cls, name)]
        lacking += sorted(cls.__abstractmethods__)
        kind = cls.model_fields["kind"].annotation
        if get_origin(kind) is not Literal or len(get_args(kind)) != 1:
            lacking.insert(0, 'kind: Literal["..."]')
        if not cls.__doc__ or cls.__doc__ == cls.__base__.__doc__:
            lacking.append("a docstring")
        if lacking:
            raise TypeError(f"{cls.__name__} does not declare: {', '.join(lacking)}")


def _kinds_that(able: Callable[[type[Strategy]], bool]) -> str:
    return " or ".join(kind for kind, strategy in STRATEGIES.items() if able(strategy))


STRATEGIES: Mapping[str, type[Strategy]] = {
    kind: declared
    for _, kind, declared in declared_kinds(__name__, __path__, "strategies", Strategy)  # type: ignore[type-abstract]
}
"""Every strategy that a request can name, by its kind."""

if TYPE_CHECKING:
    AnyStrategy = Strategy
else:
    AnyStrategy = Annotated[Union[*STRATEGIES.values()], Field(discriminator="kind")]


def _complete() -> None:
    """Complete the models that name `AnyStrategy`, of which they are parts themselves."""
    modules = {import_module(strategy.__module__) for strategy in STRATEGIES.values()}
    for member in (member for module in modules for member in vars(module).values()):
        is_model = isinstance(member, type) and issubclass(member, Contract)
        if is_model and not member.__pydantic_complete__:
            member.model_rebuild(_types_namespace={"AnyStrategy": AnyStrategy})


_complete()
