"""A world of real artefacts: programs with injected faults, judged by tests that run.

A draft is the source of a Python module. Its faults are mutations of operators and constants
(DeMillo, Lipton and Sayward 1978). The critic runs a few of the visible tests; the truth is the
share of the hidden ones that pass.
"""

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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

MASKING = """\
def weekday(year, month, day):
    if month < 3:
        month = month + 12
        year = year - 1
    century = year // 100
    rest = year % 100
    return (day + 13 * (month + 1) // 5 + rest + rest // 4 + century // 4 + 5 * century) % 7


def check_digit(number):
    total = 0
    for place, digit in enumerate(reversed(str(number))):
        value = int(digit)
        if place % 2 == 0:
            value = value * 2
        if value > 9:
            value = value - 9
        total = total + value
    return (10 - total % 10) % 10


def day_of_year(year, month, day):
    days = 275 * month // 9
    if month > 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0):
        days = days - 1
    elif month > 2:
        days = days - 2
    return days + day - 30


def knights_moves(x, y):
    x, y = (max(abs(x), abs(y)), min(abs(x), abs(y)))
    if x == 1 and y == 0:
        return 3
    if x == 2 and y == 2:
        return 4
    apart = x - y
    if y > apart:
        return apart - 2 * ((apart - y) // 3)
    return apart - 2 * ((apart - y) // 4)
"""
"""Functions whose faults mask each other: one that is mended shows only once the others are."""

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
MASKING_CASES: Mapping[str, Callable[[Random], tuple[int, ...]]] = {
    "weekday": lambda luck: (luck.randrange(1900, 2100), luck.randrange(1, 13), _day(luck)),
    "check_digit": lambda luck: (luck.randrange(100, 1_000_000),),
    "day_of_year": lambda luck: (luck.randrange(1896, 2105), luck.randrange(1, 13), _day(luck)),
    "knights_moves": lambda luck: (luck.randrange(-6, 7), luck.randrange(-6, 7)),
}
CASES_EACH, CASES_MASKING = 40, 160
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


def _day(luck: Random) -> int:
    return luck.randrange(1, 29)


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
    module = ast.parse(REFERENCE + MASKING).body
    (found,) = (it for it in module if getattr(it, "name", "") == name)
    source = ast.unparse(_Mutator(numbers).visit(found))
    _FAULTS[source] = numbers
    return source


def places(source: str) -> tuple[tuple[str, int], ...]:
    """Return every place of a reference where a fault can be."""
    found = []
    for it in ast.parse(source).body:
        if isinstance(it, ast.FunctionDef):
            mutator = _Mutator(frozenset())
            mutator.visit(it)
            found += [(it.name, number) for number in range(mutator.places)]
    return tuple(found)


def source_of(faults: Faults, functions: Iterable[str] = CASES) -> str:
    """Return the module of these functions with these faults."""
    of = {name: frozenset(number for at, number in faults if at == name) for name in functions}
    return "\n\n\n".join(_function(name, numbers) for name, numbers in of.items())


def faults_in(source: str) -> Faults:
    """Return the faults of a module that `source_of` made."""
    functions = _functions_in(source)
    return frozenset((name, it) for name, function in functions for it in _FAULTS[function])


def _functions_in(source: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the source of each function of a module."""
    for function in source.split("\n\n\n"):
        yield function[len("def ") : function.index("(")], function


@cache
def _cases(name: str) -> tuple[tuple[int, ...], ...]:
    luck = Random(name)
    if name in CASES:
        return tuple(CASES[name](luck) for _ in range(CASES_EACH))
    return tuple(MASKING_CASES[name](luck) for _ in range(CASES_MASKING))


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
    return tuple(it for named in _functions_in(source) for it in _passed(*named))


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
    is_masking: bool = False
    """Whether a draft is one small function, another one for each seed in turn."""

    def write(self, key: str) -> str:
        """Return a first draft with 6 to 12 faults, or 2 to 5 of a small function."""
        luck = self._luck(key)
        few, many = (2, 6) if self.is_masking else (6, 13)
        return self._source(luck.sample(self._places, luck.randrange(few, many)))

    def revise(self, key: str, text: str) -> str:
        """Return a program with faults mended and made."""
        luck, faults = self._luck(key), faults_in(text)
        most = min(len(faults), luck.randrange(self.reviser.mends + 1))
        mended = luck.sample(sorted(faults), most)
        made: list[tuple[str, int]] = []
        if luck.random() < self.reviser.errs or not mended:
            sound = sorted(set(self._places) - faults)
            count = luck.randrange(1, self.reviser.most_made + 1)
            made = luck.sample(sound, min(count, len(sound)))
        return self._source((faults - set(mended)) | set(made))

    def score(self, key: str, text: str) -> float:
        """Return the share of the tests that pass."""
        luck = self._luck("tests" if self.critic.is_fixed else key)
        results = luck.sample(passed(text)[::VISIBLE], self.critic.tests)
        return sum(results) / len(results)

    def quality(self, text: str) -> float:
        """Return the share of the hidden tests that pass."""
        results = [it for number, it in enumerate(passed(text)) if number % VISIBLE]
        return sum(results) / len(results)

    @property
    def _places(self) -> Sequence[tuple[str, int]]:
        return MASKING_PLACES[self._function] if self.is_masking else PLACES

    @property
    def _function(self) -> str:
        """The small function of this seed."""
        return [*MASKING_CASES][self.seed % len(MASKING_CASES)]

    def _source(self, faults: Iterable[tuple[str, int]]) -> str:
        functions = [self._function] if self.is_masking else CASES
        return source_of(frozenset(faults), functions)

    def _luck(self, key: str) -> Random:
        return Random(f"{self.seed} {key}")


PLACES = tuple(it for it in places(REFERENCE) if not all(passed(source_of(frozenset({it})))))
"""Every place of the module where a fault shows."""
MASKING_PLACES = {
    name: tuple(
        it
        for it in places(MASKING)
        if it[0] == name and not all(passed(source_of(frozenset({it}), [name])))
    )
    for name in MASKING_CASES
}
"""Every place of a small function where a fault shows."""

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
