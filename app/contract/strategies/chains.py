"""Chains of numbered steps: what is before step n, and what follows."""

import re
from dataclasses import dataclass

STEP = re.compile(r"(?m)^(\d{1,4})\.[ \t]")
"""How a step begins: at the start of a line, with its number, a full stop and a space."""


class NotAChain(ValueError):
    """The steps do not count 1, 2, 3 ...; the text says where."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A text whose lines that begin with a number and a full stop count 1, 2, 3 ... in order.

    What stands before step 1 is the preamble. `starts` holds where each step begins.
    """

    text: str
    starts: tuple[int, ...]

    def before(self, step: int) -> str:
        """Return the preamble and every step before this one, byte for byte."""
        return self.text[: self.starts[step - 1]]

    def ends(self, step: int) -> int:
        """Return where a step ends: where the next one begins, or the text ends."""
        return self.starts[step] if step < len(self.starts) else len(self.text)

    def step_at(self, place: int) -> int:
        """Return the number of the step that begins there."""
        return self.starts.index(place) + 1


def chain_of(text: str) -> Chain:
    """Return the chain that a text is, or raise `NotAChain`."""
    return Chain(text, _starts(text, 1))


def steps_from(text: str, first: int) -> str:
    """Return the steps from `first` on, without what stands before them, or raise `NotAChain`."""
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
