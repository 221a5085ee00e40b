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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, EntryPoints, PackageNotFoundError, entry_points, version
from pkgutil import iter_modules
from types import ModuleType
from typing import TypeVar, get_args

from pydantic import BaseModel

Declared = TypeVar("Declared")
Loaded = TypeVar("Loaded")
Kind = TypeVar("Kind", bound=BaseModel)

CONTRACT, PLAY = "hone.contract", "hone.play"
ROOMS = {
    CONTRACT: ("strategies", "validators", "providers"),
    PLAY: ("strategies", "validators", "models"),
}
"""The rooms of the product that a module can be added to: its entry point is `ROOM.NAME`."""

DECLARED_BY: dict[tuple[str, str], EntryPoint] = {}
"""The entry points of installed packages by room and name of what they declare."""

_END_OF_NAME = re.compile(r"[^A-Za-z0-9._-]")


class PluginFailed(ImportError):
    """An installed package adds to Hone and cannot be loaded; the message names it."""

    def __init__(self, entry: EntryPoint, why: object) -> None:
        place = f"{entry.group}: {entry.name} = {entry.value}"
        super().__init__(f"the installed package {_package(entry)} ({place}): {why}")


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "without a name"


@contextmanager
def blaming(entry: EntryPoint | None) -> Iterator[None]:
    """Raise `PluginFailed` for what goes wrong with an entry point; None stands for Hone's own."""
    try:
        yield
    except BaseException as error:  # also SystemExit, and a panic of a library in Rust
        if entry is None or isinstance(error, PluginFailed | KeyboardInterrupt):
            raise
        raise PluginFailed(entry, f"{type(error).__name__}: {error}") from error


@cache
def installed(group: str) -> EntryPoints:
    """Return the entry points of a group in all installed packages."""
    return entry_points(group=group)


def load_entry(entry: EntryPoint, kind: type[Loaded]) -> Loaded:
    """Return what an entry point names. Raises `PluginFailed`, also if it is of another type."""
    with blaming(entry):
        if not isinstance(loaded := entry.load(), kind):
            raise TypeError(f"expected {kind.__name__}, not {type(loaded).__name__}")
        return loaded


def entries_of(group: str, room: str, own: Collection[str] = ()) -> dict[str, EntryPoint]:
    """Return the entry points that installed packages add to a room, by their names there.

    Raises `PluginFailed` for a name that another one or Hone's `own` have, and for a room that
    there is not.
    """
    found: dict[str, EntryPoint] = {}
    for entry in installed(group):
        place, _, name = entry.name.partition(".")
        if place not in ROOMS[group] or not name:
            expected = ", ".join(f"{room_name}.NAME" for room_name in ROOMS[group])
            raise PluginFailed(entry, f"its name is none of {expected}")
        if place == room:
            if name in own or name in found:
                owner = f"the package {_package(found[name])}" if name in found else "Hone"
                raise PluginFailed(entry, f"{owner} has {entry.name}: choose another name")
            found[name] = entry
    return found


def declarations(
    package: str,
    path: Sequence[str],
    room: str,
    found_in: Callable[[ModuleType], Iterator[tuple[str, Declared]]],
) -> Iterator[tuple[str, str, Declared]]:
    """Yield what modules of the contract declare: name of the module, name, and declaration.

    Those of the package come first, then those that others add. Raises TypeError for two of one
    name, and `PluginFailed` for whatever is wrong in the module of an installed package.
    """
    own: dict[str, None] = dict.fromkeys(sorted(info.name for info in iter_modules(path)))
    taken: set[str] = set()
    for place, entry in (own | entries_of(CONTRACT, room, own)).items():
        with blaming(entry):
            found = list(found_in(entry.load() if entry else import_module(f"{package}.{place}")))
            if entry and not found:
                raise TypeError(f"the module declares none of the {room}")
            for name, _ in found:
                if name in taken:
                    raise TypeError(f"two {room} have the name {name}: choose another name")
                taken.add(name)
                if entry:
                    DECLARED_BY[room, name] = entry
        yield from ((place, name, declared) for name, declared in found)


def declared_kind(declared: type[BaseModel]) -> str:
    """Return the kind that a strategy or validator declares; raise TypeError if there is none."""
    kinds = get_args(declared.model_fields["kind"].annotation)
    if len(kinds) != 1:
        raise TypeError(f"{declared.__name__} does not declare kind: Literal[...]")
    if not declared.__doc__ or declared.__doc__ == declared.__base__.__doc__:
        raise TypeError(f"{declared.__name__} has no docstring, which describes it in the API")
    return str(kinds[0])


def declared_kinds(
    package: str, path: Sequence[str], room: str, base: type[Kind]
) -> Iterator[tuple[str, str, type[Kind]]]:
    """Yield the classes that modules declare, as `declarations` does, by their kinds."""

    def found_in(module: ModuleType) -> Iterator[tuple[str, type[Kind]]]:
        for member in vars(module).values():
            is_class = isinstance(member, type) and issubclass(member, base)
            if is_class and member.__module__ == module.__name__:
                yield declared_kind(member), member

    return declarations(package, path, room, found_in)


def playing_module(package: str, room: str, name: str) -> ModuleType:
    """Return the module that plays what is declared: an installed package's, or the product's.

    Raises ImportError if there is none, and `PluginFailed`.
    """
    if entry := entries_of(PLAY, room).get(name):
        return load_entry(entry, ModuleType)
    try:
        return import_module(f"{package}.{name}")
    except ModuleNotFoundError as error:
        raise ImportError(f"{error}, and {PLAY} has no entry point {room}.{name}") from error


def load_added(players: Mapping[str, Callable[[str], object]]) -> None:
    """Load what workers need of installed packages, and see that they play what they declare.

    `players` return by room what plays a declaration of that name. Raises `PluginFailed`.
    """
    for room in ROOMS[PLAY]:
        for entry in entries_of(PLAY, room).values():
            load_entry(entry, ModuleType)
    for (room, name), entry in DECLARED_BY.items():
        with blaming(entry):
            players[room](name)
    declared = {*map(".".join, DECLARED_BY), *installed(CONTRACT).names}
    for entry in installed(PLAY):
        if entry.name not in declared and not entry.name.startswith("models."):
            raise PluginFailed(entry, f"no package declares it in {CONTRACT}")


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
