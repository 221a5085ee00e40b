"""Long lists for property tests, drawn at once: Hypothesis takes its time for every single draw."""

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


def lists_of(values: Sequence[T], size: int) -> st.SearchStrategy[list[T]]:
    """Return lists of that size; of more than 256 values only 256, evenly spread, are drawn."""

    def chosen(drawn: bytes) -> list[T]:
        most = len(values) - 1
        if most < 256:
            return [values[byte * len(values) // 256] for byte in drawn]
        return [values[byte * most // 255] for byte in drawn]

    return st.binary(min_size=size, max_size=size).map(chosen)
