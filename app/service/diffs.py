"""The difference between two drafts, by lines."""

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Literal

from app.contract.snapshot import Diff, DiffOperation, Iteration

MAX_PAIRS = 500_000
"""Pairs of changed lines that are compared, in about a second; more are one replacement."""

CONTEXT_LINES = 3

Lines = list[str]
Operation = tuple[Literal["equal", "replace", "delete", "insert"], int, int, int, int]


class _Known(SequenceMatcher[str]):
    """Operations that were found already, for difflib to group."""

    def __init__(self, operations: list[Operation]) -> None:
        super().__init__()
        self._operations = operations

    def get_opcodes(self) -> list[Operation]:
        return self._operations


def diff_of(before: Iteration, after: Iteration) -> Diff:
    """Return what makes `after` of `before`: the operations' texts, joined, are the two drafts."""
    old, new = _lines(before.draft), _lines(after.draft)
    operations = _operations(old, new)
    return Diff(
        from_iteration=before.iteration,
        to_iteration=after.iteration,
        operations=tuple(_described(operation, old, new) for operation in operations),
        unified="".join(_unified(operations, old, new, before.path, after.path)),
    )


def _lines(text: str) -> Lines:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _operations(old: Lines, new: Lines) -> list[Operation]:
    """What both drafts begin and end with is set aside: it costs nothing to compare."""
    head = _shared(old, new)
    tail = _shared(old[head:][::-1], new[head:][::-1])
    old_end, new_end = len(old) - tail, len(new) - tail
    operations: list[Operation] = [("equal", 0, head, 0, head)] if head else []
    if (old_end - head) * (new_end - head) > MAX_PAIRS:
        operations.append(("replace", head, old_end, head, new_end))
    else:
        changed = SequenceMatcher(None, old[head:old_end], new[head:new_end])
        operations += [
            (tag, head + i1, head + i2, head + j1, head + j2)
            for tag, i1, i2, j1, j2 in changed.get_opcodes()
        ]
    if tail:
        operations.append(("equal", old_end, len(old), new_end, len(new)))
    return operations


def _shared(old: Lines, new: Lines) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))


def _described(operation: Operation, old: Lines, new: Lines) -> DiffOperation:
    tag, i1, i2, j1, j2 = operation
    return DiffOperation(
        op=tag,
        from_start=i1,
        from_end=i2,
        to_start=j1,
        to_end=j2,
        from_text="".join(old[i1:i2]),
        to_text="".join(new[j1:j2]),
    )


def _unified(
    operations: list[Operation], old: Lines, new: Lines, old_name: str, new_name: str
) -> Iterator[str]:
    """The format of `diff -u`, which `patch` reads; nothing for equal drafts."""
    hunks = _Known(operations).get_grouped_opcodes(CONTEXT_LINES)
    for number, hunk in enumerate(hunks):
        if number == 0:
            yield f"--- {old_name}\n+++ {new_name}\n"
        (_, i1, _, j1, _), (_, _, i2, _, j2) = hunk[0], hunk[-1]
        yield f"@@ -{_range(i1, i2)} +{_range(j1, j2)} @@\n"
        for tag, a1, a2, b1, b2 in hunk:
            if tag == "equal":
                yield from (_marked(" ", line) for line in old[a1:a2])
            else:
                yield from (_marked("-", line) for line in old[a1:a2])
                yield from (_marked("+", line) for line in new[b1:b2])


def _marked(mark: str, line: str) -> str:
    end = "" if line.endswith("\n") else "\n\\ No newline at end of file\n"
    return f"{mark}{line}{end}"


def _range(start: int, end: int) -> str:
    """Lines as `diff -u` counts them: from 1, and from the line before when there are none."""
    length = end - start
    return f"{start + 1 if length else start},{length}"
