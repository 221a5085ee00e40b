"""A strategy is declared in one place: nothing can be left out, and no other code names it."""

import ast
from collections.abc import Iterator
from inspect import iscoroutinefunction
from pathlib import Path
from pkgutil import iter_modules
from typing import ClassVar, Literal

import pytest

import workers.engine.strategies
from app.contract.calls import Rates, at_most
from app.contract.errors import Internal
from app.contract.requests import RefinementRequest
from app.contract.strategies import STRATEGIES, LanguageNeed, Strategy
from app.contract.strategies.loops import DEFAULT
from workers.engine.pipeline import function_of

ROOT = Path(__file__).parent.parent
DECLARATIONS = "app/contract/strategies/"
EXAMPLES = "app/api/examples.py"
"""Requests that OpenAPI shows: they name strategies as a client does."""

AMBIGUOUS = {"critique"}
"""Kinds whose word also says where a score comes from, and stands in the paths of steps."""


def test_what_a_declaration_leaves_out_is_named_when_it_is_imported() -> None:
    with pytest.raises(TypeError, match="does not declare: needs_language, judges_criteria, calls"):

        class Silent(Strategy):
            """It says little."""

            kind: Literal["silent"]


class Complete(Strategy):
    """It says what it must."""

    kind: Literal["complete"]
    needs_language: ClassVar[LanguageNeed | None] = None
    judges_criteria: ClassVar[bool] = True

    def calls(self, rates: Rates, max_iterations: int, draft: str | None) -> int:
        return rates.search(max_iterations, has_draft=draft is not None)


def test_a_declaration_that_names_no_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="Nameless does not declare: kind: Literal"):

        class Nameless(Complete):
            """It has no kind that a request could name."""

            kind: str  # type: ignore[assignment]


def test_a_declaration_without_a_description_is_refused() -> None:
    with pytest.raises(TypeError, match="Undescribed does not declare: a docstring"):

        class Undescribed(Complete):
            kind: Literal["undescribed"]  # type: ignore[assignment]


def test_every_declared_strategy_has_an_engine_module_and_every_module_a_declaration() -> None:
    modules = {it.name for it in iter_modules(workers.engine.strategies.__path__)}
    assert modules == STRATEGIES.keys()
    assert all(iscoroutinefunction(function_of(kind)) for kind in STRATEGIES)


def test_a_strategy_that_is_not_implemented_is_named() -> None:
    with pytest.raises(ImportError, match=r"workers\.engine\.strategies\.unwritten"):
        function_of("unwritten")


PART_OF = {"workers/engine/strategies/nested.py": "nested"}
"""Modules that one strategy is made of, beside its own."""


def names_of_strategies(path: str, source: str) -> list[str]:
    """Return where a source names a strategy that it should read a declaration of."""
    if path.startswith(DECLARATIONS) or path == EXAMPLES:
        return []
    own = PART_OF.get(path) or path.removeprefix("workers/engine/strategies/").removesuffix(".py")
    kinds = STRATEGIES.keys() - AMBIGUOUS - {own}
    classes = {it.__name__ for kind, it in STRATEGIES.items() if kind != own}
    return [f"{path}: {it}" for it in _words(ast.parse(source)) if it in kinds or it in classes]


def _words(tree: ast.AST) -> Iterator[str]:
    """Give the names and the texts of a source; docstrings are whole sentences."""
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) | ast.Name(id=text) | ast.Attribute(attr=text):
                yield text
            case ast.alias(name=text):
                yield text.rpartition(".")[2]


def test_no_code_but_its_own_names_a_strategy() -> None:
    sources = sorted(
        str(it.relative_to(ROOT))
        for room in ("app", "workers")
        for it in (ROOT / room).rglob("*.py")
    )
    found = [it for path in sources for it in names_of_strategies(path, (ROOT / path).read_text())]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        'if request.strategy.kind == "plan_execute": ...',
        'TABLE = {"nested": 1}',
        "from app.contract.strategies.parts import NestedStrategy",
        "isinstance(strategy, loops.BestOfNStrategy)",
        "from workers.engine.strategies.iterative import iterative",
    ],
)
def test_a_name_elsewhere_is_noticed(source: str) -> None:
    assert names_of_strategies("app/service/admission.py", source)
    assert names_of_strategies("workers/engine/strategies/stepwise.py", source)


def test_the_default_is_a_strategy_that_the_editor_can_play() -> None:
    assert STRATEGIES[DEFAULT.kind].needs_language is None


class Fractional(Complete):
    """It counts half a call."""

    kind: Literal["fractional"]  # type: ignore[assignment]

    def calls(self, rates: Rates, max_iterations: int, draft: str | None) -> int:
        return rates.ask / 2  # type: ignore[return-value] # the mistake


class Uncounted(Complete):
    """It cannot count its calls."""

    kind: Literal["uncounted"]  # type: ignore[assignment]

    def calls(self, rates: Rates, max_iterations: int, draft: str | None) -> int:
        raise LookupError("unknown")


@pytest.mark.parametrize("strategy", [Fractional(kind="fractional"), Uncounted(kind="uncounted")])
def test_a_strategy_that_does_not_count_its_calls_is_named(strategy: Strategy) -> None:
    request = RefinementRequest(task="Explain refunds.").model_copy(update={"strategy": strategy})
    with pytest.raises(Internal, match=f"the strategy {strategy.kind} does not declare its calls"):
        at_most(request)
