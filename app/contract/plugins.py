"""What installed packages add to Hone: by entry points, without a change of Hone itself.

| group | an entry point is |
|---|---|
| `hone.contract` | a module that declares strategies, validators or providers |
| `hone.play` | a module with what a worker runs for them |
| `hone.routes` | a router of FastAPI |
| `hone.commands` | a function of which typer makes a command of `hone`, or a `Typer` |

The groups are separate: an API process loads nothing that only workers run.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, EntryPoints, PackageNotFoundError, entry_points, version
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, TypeVar, get_args

from pydantic import BaseModel

Declared = TypeVar("Declared", bound=BaseModel)

CONTRACT, PLAY = "hone.contract", "hone.play"
ROOMS = {
    CONTRACT: ("strategies", "validators", "providers"),
    PLAY: ("strategies", "validators", "models"),
}
"""The rooms of the product that a module can be added to: its entry point is `ROOM.NAME`."""

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


def load_entry(entry: EntryPoint) -> Any:
    """Return what an entry point names. Raises `PluginFailed`."""
    try:
        return entry.load()
    except Exception as error:
        raise PluginFailed(entry, f"{type(error).__name__}: {error}") from error


def added_modules(group: str, room: str) -> dict[str, ModuleType]:
    """Return the modules that installed packages add to a room, by their names there.

    Raises `PluginFailed`, also for two of the same name, and for a room that there is not.
    """
    found: dict[str, ModuleType] = {}
    for entry in installed(group):
        place, _, name = entry.name.partition(".")
        if place not in ROOMS[group] or not name:
            expected = ", ".join(f"{room_name}.NAME" for room_name in ROOMS[group])
            raise PluginFailed(entry, f"its name is none of {expected}")
        if name in found and place == room:
            raise PluginFailed(entry, "another package has an entry point of this name")
        if place == room:
            found[name] = load_entry(entry)
    return found


def modules(package: str, path: Sequence[str], room: str) -> Iterator[tuple[str, ModuleType]]:
    """Yield the modules of a package of the contract, then those that others add to it."""
    own = sorted(info.name for info in iter_modules(path))
    for name in own:
        yield name, import_module(f"{package}.{name}")
    for name, module in added_modules(CONTRACT, room).items():
        if name in own:
            (entry,) = installed(CONTRACT).select(name=f"{room}.{name}")
            raise PluginFailed(entry, f"{package} has a module of this name")
        yield name, module


def declared_kind(declared: type[BaseModel]) -> str:
    """Return the kind that a strategy or validator declares; raise TypeError if there is none."""
    kinds = get_args(declared.model_fields["kind"].annotation)
    if len(kinds) != 1:
        raise TypeError(f"{declared.__name__} does not declare kind: Literal[...]")
    if not declared.__doc__ or declared.__doc__ == declared.__base__.__doc__:
        raise TypeError(f"{declared.__name__} has no docstring, which describes it in the API")
    return str(kinds[0])


def declared_kinds(
    package: str, path: Sequence[str], room: str, base: type[Declared]
) -> Iterator[tuple[str, str, type[Declared]]]:
    """Yield what the modules of a package declare: name of the module, kind and class.

    They come by module and then in the order of definition. Raises TypeError for two of one kind.
    """
    kinds: set[str] = set()
    for name, module in modules(package, path, room):
        for member in vars(module).values():
            is_class = isinstance(member, type) and issubclass(member, base)
            if is_class and member.__module__ == module.__name__:
                if (kind := declared_kind(member)) in kinds:
                    raise TypeError(f"two {room} have the kind {kind!r}: {member.__name__} is one")
                kinds.add(kind)
                yield name, kind, member


def playing_module(package: str, room: str, name: str) -> ModuleType:
    """Return the module that plays what is declared: an installed package's, or the product's."""
    return added_modules(PLAY, room).get(name) or import_module(f"{package}.{name}")


def load_added() -> None:
    """Load what workers need of installed packages, and see that they play what they declare.

    Raises `PluginFailed`.
    """
    for room in ROOMS[PLAY]:
        added_modules(PLAY, room)
    played = installed(PLAY).names
    for entry in installed(CONTRACT):
        if entry.name.startswith("validators.") and entry.name not in played:
            raise PluginFailed(entry, f"{PLAY} has no entry point of this name")


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
