"""The files below a directory, kept equal in two processes that have no directory in common.

Only regular files and directories go over. They are written below the directory and nowhere else.
"""

import os
import time
from collections.abc import Iterator
from typing import Any

KEPT_BACK = ("draft.py", "__pycache__")
opened = open
"""The built-in function, whatever tests replace it by."""

RACY_NS = 100_000_000
"""A file changed so recently may change again without a newer time (the clock of file systems)."""


class SharedFiles:
    """The files below `root`, and what the other process was last told of them."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._told: dict[str, tuple[tuple[int, ...], bytes | None]] = {}

    def changed(self) -> list[tuple[str, str | None, bool]]:
        """Return path, content (None for a directory) and whether it is there, of what changed."""
        if not self._told and all(name in KEPT_BACK for name in os.listdir(self._root)):  # noqa: PTH208
            return []
        found, changes = dict(self._found(self._root)), []
        for path, state in found.items():
            before = self._told.get(path)
            is_racy = state[0] > time.time_ns() - RACY_NS
            if before and before[0] == state and not is_racy:
                continue
            content = None if state[1] < 0 else self._read(path)
            if before is None or before[1] != content:
                text = None if content is None else content.decode("latin-1")
                changes.append((path, text, True))
            self._told[path] = (state, content)
        for path in [it for it in reversed(self._told) if it not in found]:
            del self._told[path]
            changes.append((path, None, False))
        return changes

    def apply(self, changes: list[tuple[str, str | None, bool]]) -> None:
        """Make the changes of the other process. Raises `ValueError` for what is no path below."""
        for path, text, is_there in changes:
            parts = path.split("/")
            if any(it in ("", ".", "..", *KEPT_BACK) for it in parts):
                raise ValueError(path)
            for end in range(1, len(parts) + 1):
                if os.path.islink(self._at("/".join(parts[:end]))):  # noqa: PTH114
                    raise ValueError(path)
            self._change(path, None if text is None else text.encode("latin-1"), is_there)

    def _change(self, path: str, content: bytes | None, is_there: bool) -> None:
        place = self._at(path)
        if not is_there:
            self._told.pop(path, None)
            if os.path.isdir(place):  # noqa: PTH112
                os.rmdir(place)  # noqa: PTH106
            elif os.path.exists(place):  # noqa: PTH110
                os.unlink(place)  # noqa: PTH108
            return
        if content is None:
            os.makedirs(place, exist_ok=True)  # noqa: PTH103
        else:
            with opened(place, "wb") as out:
                out.write(content)
        self._told[path] = (_state(os.lstat(place)), content)

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _read(self, path: str) -> bytes:
        with opened(self._at(path), "rb") as file:
            return file.read()

    def _found(self, folder: str) -> Iterator[tuple[str, tuple[int, ...]]]:
        for entry in os.scandir(folder):
            if entry.name in KEPT_BACK:
                continue
            path = entry.path.removeprefix(f"{self._root}/")
            if entry.is_dir(follow_symlinks=False):
                yield path, (0, -1)
                yield from self._found(entry.path)
            elif entry.is_file(follow_symlinks=False):
                yield path, _state(entry.stat(follow_symlinks=False))


def _state(found: Any) -> tuple[int, ...]:
    return found.st_mtime_ns, found.st_size, found.st_ino
