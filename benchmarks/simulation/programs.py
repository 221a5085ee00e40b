"""A world of real artefacts: programs with injected faults, judged by tests that run.

A draft is the source of a Python module. Its faults are mutations of operators and constants
(DeMillo, Lipton and Sayward 1978). The critic runs a few of the visible tests; the truth is the
share of the hidden ones that pass.
"""

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

REFERENCE = """\
def clamp(x, low, high):
    if x < low:
        return low
    if x > high:
        return high
    return x


def is_leap(year):
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_in_month(month, is_leap):
    if month == 2:
        return 28 + is_leap
    if month < 8:
        return 30 + month % 2
    return 31 - month % 2


def is_prime(n):
    if n < 2:
        return False
    for d in range(2, n):
        if d * d > n:
            break
        if n % d == 0:
            return False
    return True


def sum_of_digits(n):
    total = 0
    for digit in str(abs(n)):
        total = total + int(digit) * 1
    return total


def roman(n):
    text = ''
    for value, sign in ((50, 'L'), (40, 'XL'), (10, 'X'), (9, 'IX'), (5, 'V'), (4, 'IV'), (1, 'I')):
        text = text + sign * (n // value)
        n = n % value
    return text


def grade(points):
    if points >= 90:
        return 'A'
    if points >= 75 and points < 90:
        return 'B'
    if points >= 60 or points == 59:
        return 'C'
    return 'F'


def largest_gap(a, b, c):
    low, high = (min(a, b, c), max(a, b, c))
    middle = a + b + c - low - high
    if high - middle > middle - low:
        return high - middle
    return middle - low
"""

CASES: Mapping[str, Callable[[Random], tuple[int, ...]]] = {
    "clamp": lambda luck: (luck.randrange(-5, 15), 0, luck.randrange(5, 10)),
    "is_leap": lambda luck: (luck.choice((1900, 2000, 2024, luck.randrange(1800, 2200))),),
    "days_in_month": lambda luck: (luck.randrange(1, 13), luck.randrange(2)),
    "is_prime": lambda luck: (luck.randrange(60),),
    "sum_of_digits": lambda luck: (luck.randrange(-999, 10_000),),
    "roman": lambda luck: (luck.randrange(1, 90),),
    "grade": lambda luck: (luck.choice((59, 60, 75, 90, luck.randrange(101))),),
    "largest_gap": lambda luck: tuple(luck.randrange(30) for _ in range(3)),
}
CASES_EACH = 40
"""Test cases of every function; every fourth is visible."""
VISIBLE = 4

SWAPS: Mapping[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.And: ast.Or,
    ast.Or: ast.And,
}

Faults = frozenset[tuple[str, int]]
"""Functions, and the numbers of places in them that are mutated."""


class _Mutator(ast.NodeTransformer):
    """Mutates the places with these numbers; `places` counts all places."""

    def __init__(self, numbers: frozenset[int]) -> None:
        self._numbers = numbers
        self.places = 0

    def visit(self, node: ast.AST) -> ast.AST:
        self.generic_visit(node)
        is_number = isinstance(node, ast.Constant) and type(node.value) is int
        if type(node) not in SWAPS and not is_number:
            return node
        self.places += 1
        if self.places - 1 not in self._numbers:
            return node
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return ast.Constant(node.value + 1)
        return SWAPS[type(node)]()


_FAULTS: dict[str, frozenset[int]] = {}
"""The faults in the source of a function, of every source that was made."""


@cache
def _function(name: str, numbers: frozenset[int]) -> str:
    """Return the source of a function with faults at these places."""
    (found,) = (it for it in ast.parse(REFERENCE).body if getattr(it, "name", "") == name)
    source = ast.unparse(_Mutator(numbers).visit(found))
    _FAULTS[source] = numbers
    return source


def places() -> tuple[tuple[str, int], ...]:
    """Return every place where a fault can be."""
    found = []
    for it in ast.parse(REFERENCE).body:
        if isinstance(it, ast.FunctionDef):
            mutator = _Mutator(frozenset())
            mutator.visit(it)
            found += [(it.name, number) for number in range(mutator.places)]
    return tuple(found)


def source_of(faults: Faults) -> str:
    """Return the module with these faults."""
    of = {name: frozenset(number for at, number in faults if at == name) for name in CASES}
    return "\n\n\n".join(_function(name, numbers) for name, numbers in of.items())


def faults_in(source: str) -> Faults:
    """Return the faults of a module that `source_of` made."""
    functions = zip(CASES, source.split("\n\n\n"), strict=True)
    return frozenset((name, it) for name, function in functions for it in _FAULTS[function])


@cache
def _cases(name: str) -> tuple[tuple[int, ...], ...]:
    luck = Random(name)
    return tuple(CASES[name](luck) for _ in range(CASES_EACH))


@cache
def _passed(name: str, function: str) -> tuple[bool, ...]:
    """Run the tests of a function: its results against those of the reference."""
    ours, reference = _run(name, function), _run(name, _function(name, frozenset()))
    return tuple(one == other for one, other in zip(ours, reference, strict=True))


def _run(name: str, function: str) -> list[Any]:
    """Return the result of a function in every case; an exception is a result of its own."""
    module: dict[str, Any] = {}
    exec(function, module)  # a mutation of the reference above
    results: list[Any] = []
    for case in _cases(name):
        try:
            results.append(module[name](*case))
        except (ArithmeticError, TypeError, ValueError) as error:
            results.append(type(error))
    return results


def passed(source: str) -> tuple[bool, ...]:
    """Return for every test whether a module passes it; every fourth is visible."""
    functions = zip(CASES, source.split("\n\n\n"), strict=True)
    return tuple(it for name, function in functions for it in _passed(name, function))


@dataclass(frozen=True)
class Programmer:
    """Mends up to `mends` faults, and makes up to `most_made` with probability `errs`.

    A revision always changes something: one that mends nothing makes a fault.
    """

    name: str
    mends: int
    errs: float
    most_made: int = 1


@dataclass(frozen=True)
class Tester:
    """Runs so many visible tests: the same ones each time, or others."""

    name: str
    tests: int
    is_fixed: bool


@dataclass(frozen=True)
class ProgramWorld:
    """The programmer and the tester of one seed."""

    seed: int
    reviser: Programmer
    critic: Tester

    def write(self, key: str) -> str:
        """Return a first draft with 6 to 12 faults."""
        luck = self._luck(key)
        return source_of(frozenset(luck.sample(PLACES, luck.randrange(6, 13))))

    def revise(self, key: str, text: str) -> str:
        """Return a program with faults mended and made."""
        luck, faults = self._luck(key), faults_in(text)
        most = min(len(faults), luck.randrange(self.reviser.mends + 1))
        mended = luck.sample(sorted(faults), most)
        made: list[tuple[str, int]] = []
        if luck.random() < self.reviser.errs or not mended:
            sound = sorted(set(PLACES) - faults)
            made = luck.sample(sound, luck.randrange(1, self.reviser.most_made + 1))
        return source_of((faults - set(mended)) | set(made))

    def score(self, key: str, text: str) -> float:
        """Return the share of the tests that pass."""
        luck = self._luck("tests" if self.critic.is_fixed else key)
        results = luck.sample(passed(text)[::VISIBLE], self.critic.tests)
        return sum(results) / len(results)

    def quality(self, text: str) -> float:
        """Return the share of the hidden tests that pass."""
        results = [it for number, it in enumerate(passed(text)) if number % VISIBLE]
        return sum(results) / len(results)

    def _luck(self, key: str) -> Random:
        return Random(f"{self.seed} {key}")


PLACES = tuple(it for it in places() if not all(passed(source_of(frozenset({it})))))
"""Every place where a fault shows."""

PROGRAMMERS = (
    Programmer("mends", mends=3, errs=0.2),
    Programmer("mends and errs", mends=3, errs=0.6, most_made=2),
    Programmer("errs", mends=2, errs=0.7, most_made=3),
)

TESTERS = (
    Tester("8 tests, always the same", 8, is_fixed=True),
    Tester("24 tests, always the same", 24, is_fixed=True),
    Tester("8 tests, others each time", 8, is_fixed=False),
    Tester("24 tests, others each time", 24, is_fixed=False),
)
