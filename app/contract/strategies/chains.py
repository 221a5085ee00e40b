"""Chains of numbered steps: the text before step n, and the text from it on."""

import re
from dataclasses import dataclass

STEP = re.compile(r"(?m)^(\d{1,4})\.[ \t]")
"""How a step begins: at the start of a line, with its number, a full stop and a space."""


class NotAChain(ValueError):
    """The steps do not count 1, 2, 3 ...; the message says where."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A text whose lines that begin with a number and a full stop count 1, 2, 3 ... in order.

    The text before step 1 is the preamble. `starts` holds the position of each step.
    """

    text: str
    starts: tuple[int, ...]

    def before(self, step: int) -> str:
        """Return the preamble and every step before this one, byte for byte."""
        return self.text[: self.starts[step - 1]]

    def ends(self, step: int) -> int:
        """Return the end of a step: the start of the next one, or the end of the text."""
        return self.starts[step] if step < len(self.starts) else len(self.text)

    def step_at(self, place: int) -> int:
        """Return the number of the step that starts at a position."""
        return self.starts.index(place) + 1


def chain_of(text: str) -> Chain:
    """Parse a text as a chain, or raise `NotAChain`."""
    return Chain(text, _starts(text, 1))


def steps_from(text: str, first: int) -> str:
    """Return the steps from `first` on, without the text before them, or raise `NotAChain`."""
    begins = next((it.start() for it in STEP.finditer(text) if int(it[1]) == first), len(text))
    steps = text[begins:]
    _starts(steps, first)
    return steps


def _starts(text: str, first: int) -> tuple[int, ...]:
    found = list(STEP.finditer(text))
    if not found:
        raise NotAChain(f'no line begins with "{first}. ": number the steps')
    for number, step in enumerate(found, first):
        if int(step[1]) != number:
            raise NotAChain(f'a line begins with "{step[1]}. " where step {number} is expected')
    return tuple(step.start() for step in found)
