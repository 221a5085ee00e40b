"""What installed packages add to Hone: by entry points, without a change of Hone itself.

| group | an entry point is |
|---|---|
| `hone.contract` | a module that declares strategies, validators or providers |
| `hone.play` | a module with what a worker runs for them |
| `hone.routes` | a router of FastAPI |
| `hone.commands` | a function of which typer makes a command of `hone` |

The groups are separate: an API process loads nothing that only workers run.
"""

import re
from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, PackageNotFoundError, entry_points, version
from typing import Any

_END_OF_NAME = re.compile(r"[^A-Za-z0-9._-]")


class PluginFailed(ImportError):
    """An installed package adds to Hone and cannot be loaded; the message names it."""

    def __init__(self, entry: EntryPoint, why: object) -> None:
        place = f"{entry.group}: {entry.name} = {entry.value}"
        super().__init__(f"the installed package {_package(entry)} ({place}): {why}")


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "without a name"


@cache
def installed(group: str) -> EntryPoints:
    """Return the entry points of a group in all installed packages."""
    return entry_points(group=group)


def load(entry: EntryPoint) -> Any:
    """Return what an entry point names. Raises `PluginFailed`."""
    try:
        return entry.load()
    except Exception as error:
        raise PluginFailed(entry, f"{type(error).__name__}: {error}") from error


def missing_requirements(entry: EntryPoint) -> Iterator[str]:
    """Yield what is not installed of the extra that has the name of an entry point.

    `scipy>=1.16` for the entry point `compare` of a package with the extra `compare`.
    """
    for line in (entry.dist.requires or ()) if entry.dist is not None else ():
        requirement, _, marker = line.partition(";")
        if marker.replace('"', "'").strip() != f"extra == '{entry.name}'":
            continue
        try:
            version(_END_OF_NAME.split(requirement.strip(), maxsplit=1)[0])
        except PackageNotFoundError:
            yield requirement.strip()
