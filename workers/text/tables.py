"""The editor's data files, read once and only when the first text arrives."""

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

SINGLE_SYLLABLE = re.compile(r"[^aeiou]*[aeiou][^aeiouwxy]")
"""Such verbs double their last letter before -ing: cut, cutting."""


@dataclass(frozen=True, slots=True)
class Verb:
    """The five forms of a verb."""

    base: str
    third: str
    past: str
    participle: str
    ing: str

    def forms(self) -> tuple[str, ...]:
        """Return the forms in the order of the fields."""
        return (self.base, self.third, self.past, self.participle, self.ing)


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


@cache
def verbs() -> dict[str, Verb]:
    """Return the verbs of `verbs.txt` by their base form."""
    return {line.split()[0]: _verb(*line.split()) for line in lines("verbs.txt")}


def verb(base: str) -> Verb:
    """Return the forms of a verb; one that the table does not know is regular."""
    return verbs().get(base) or _verb(base)


@cache
def verbs_by_participle() -> dict[str, Verb]:
    """Return the verbs of `verbs.txt` by their participle."""
    return {known.participle: known for known in verbs().values()}


@cache
def participles() -> frozenset[str]:
    """Return the participles of irregular verbs."""
    irregular = {known.participle for known in verbs().values() if not known.past.endswith("ed")}
    return word_list("participles") | irregular


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


def _verb(base: str, past: str = "", participle: str = "") -> Verb:
    past = past or _past(base)
    return Verb(base, _third(base), past, participle or past, _ing(base, past))


def _third(base: str) -> str:
    if base in {"have", "be"}:
        return {"have": "has", "be": "is"}[base]
    if re.search(r"[^aeiou]y$", base):
        return base[:-1] + "ies"
    return base + ("es" if re.search(r"(s|x|z|ch|sh|o)$", base) else "s")


def _past(base: str) -> str:
    if base.endswith("e"):
        return base + "d"
    return base[:-1] + "ied" if re.search(r"[^aeiou]y$", base) else base + "ed"


def _ing(base: str, past: str) -> str:
    if base.endswith("ee"):
        return base + "ing"
    if base.endswith("e"):
        return base[:-1] + "ing"
    doubles = past == base + base[-1] + "ed" or (
        not past.endswith("ed") and (SINGLE_SYLLABLE.fullmatch(base) or base in {"begin", "forget"})
    )
    return base + (base[-1] if doubles else "") + "ing"
