"""The editor's data files, read once and only when the first text arrives."""

import tomllib
from functools import cache
from importlib.resources import files


def lines(name: str) -> list[str]:
    """Return the lines of a data file without comments and blank lines."""
    return [line for line in _read(name).splitlines() if line.strip() and not line.startswith("#")]


def patterns(name: str) -> dict[str, list[str]]:
    """Return the lists of regular expressions in a data file."""
    return tomllib.loads(_read(name))


def _read(name: str) -> str:
    return (files("workers.text") / "data" / name).read_text(encoding="utf-8")


@cache
def misspellings() -> dict[str, str]:
    """Return the misspellings of `misspellings.txt`, each with the one word that it stands for."""
    table: dict[str, str] = {}
    for line in lines("misspellings.txt"):
        right, _, wrong = line.partition(": ")
        table.update(dict.fromkeys(wrong.split(), right))
    return table


@cache
def known_words() -> frozenset[str]:
    """Return the words of which `misspellings.txt` knows misspellings, without the commonest."""
    return frozenset(misspellings().values()) - word_list("common")


def word_list(name: str) -> frozenset[str]:
    """Return one of the lists of `words.txt`."""
    return _lists()[name]


def alternatives(*names: str) -> str:
    """Return a regular expression for any word of some lists of `words.txt`."""
    found = sorted(frozenset[str]().union(*map(word_list, names)))
    return "|".join(found).replace("'", "['\u2019]")


@cache
def _lists() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    inside: set[str] = set()
    for line in lines("words.txt"):
        if line.startswith("["):
            inside = found.setdefault(line.strip("[]"), set())
        else:
            inside.update(line.split())
    return {name: frozenset(inside) for name, inside in found.items()}
