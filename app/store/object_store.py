"""The object store that holds the archive: a directory, or a bucket of S3, Google Cloud or Azure.

The library and its threads are loaded with the first object: a process that was forked since could
not use them.
"""

import asyncio
import atexit
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from app.contract.values import value
from app.store.state import ArchiveAway

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Objects

ANSWER_S = 10.0
"""Seconds that the store has for one object; no command of Hone waits for longer."""
CONNECT_S = "3s"
ENDING_S = 0.1
"""Seconds in which the library's threads are done with Python, before it ends: they would abort the
process (PyO3/pyo3-async-runtimes#40)."""
TRIES = {"max_retries": 2, "retry_timeout": timedelta(seconds=ANSWER_S)}


@value(slots=True)
class StoredObject:
    """An object in a list."""

    path: str
    written_at: datetime


class ObjectStore:
    """Objects by path below a URL. Every method raises ArchiveAway if the store cannot be used."""

    def __init__(self, url: str) -> None:
        if find_spec("obstore") is None:
            raise ArchiveAway("the extra `archive` is missing: pip install 'obstore>=0.12,<0.13'")
        parts = urlsplit(url)
        self._url = url
        self._directory = Path(unquote(parts.path)) if parts.scheme == "file" else None

    async def put(self, path: str, content: bytes) -> None:
        """Write an object, in place of the one at this path: readers see one or the other."""
        with _reported():
            async with asyncio.timeout(ANSWER_S):
                await self._objects.put_async(path, content)
                if self._directory is not None:
                    await asyncio.to_thread(_reach_disk, self._directory / path)

    async def get(self, path: str) -> bytes | None:
        """Return an object; None if there is none."""
        with _reported():
            async with asyncio.timeout(ANSWER_S):
                try:
                    found = await self._objects.get_async(path)
                except FileNotFoundError:
                    return None
                return bytes(await found.bytes_async())

    async def delete(self, path: str) -> None:
        """Delete an object, if there is one."""
        with _reported():
            async with asyncio.timeout(ANSWER_S):
                try:
                    await self._objects.delete_async(path)
                except FileNotFoundError:
                    return

    async def listed(self, below: str) -> AsyncIterator[StoredObject]:
        """Yield the objects below a path, in any order."""
        with _reported():
            async for page in self._objects.list(below):
                for found in page:
                    yield StoredObject(found["path"], found["last_modified"])

    @cached_property
    def _objects(self) -> "Objects":
        from obstore.store import from_url  # noqa: PLC0415 - see above

        atexit.register(time.sleep, ENDING_S)
        if self._directory is not None:
            return from_url(self._url, mkdir=True)
        times = {"timeout": f"{ANSWER_S:g}s", "connect_timeout": CONNECT_S}
        options: Any = {**times, "allow_http": True}  # if that is what the address says
        tries: Any = TRIES
        return from_url(self._url, client_options=options, retry_config=tries)


def _reach_disk(path: Path) -> None:
    """Return when the file is on the disk, and its name in the directory."""
    for name in (path, path.parent):
        descriptor = os.open(name, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _reported() -> Iterator[None]:
    """Raise what the library raises as ArchiveAway, with its first line."""
    from obstore.exceptions import BaseError  # noqa: PLC0415 - see above

    try:
        yield
    except TimeoutError as error:
        raise ArchiveAway("the object store does not answer") from error
    except (BaseError, OSError, ValueError) as error:
        first_line = str(error).strip().partition("\n")[0]
        raise ArchiveAway(f"the object store refuses: {first_line}") from error
