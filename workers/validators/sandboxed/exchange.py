"""Two processes use each other's objects over a socket, and share no memory.

Values of built-in types, and some of the standard library, are copied: they are built anew from
JSON, so that no code comes with them. Lists, dicts and sets are kept equal on both sides: every
message says which have changed. All other objects stay where they are, and the other process has
proxies of them and of their classes.

Ids are even for what belongs to the side that began with an even one, and odd for the other.
"""

import builtins
import json
import operator
import sys
import threading
import types
import weakref
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import IO, Any, NoReturn, cast

MOST_LINES = 200_000
MOST_BYTES = 32 * 1024 * 1024
"""Bytes of one message."""

EXITS = ("__exit__", "__aexit__")
BINARY = "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and or xor"
NUMERIC = {f"__{side}{name}__" for name in BINARY.split() for side in ("", "r", "i")}
ORDER = {"__lt__", "__le__", "__gt__", "__ge__"}
SPECIAL = (
    NUMERIC
    | ORDER
    | {
        f"__{name}__"
        for name in (
            *("call", "len", "iter", "next", "reversed", "contains", "getitem", "setitem"),
            *("delitem", "missing", "enter", "exit", "aenter", "aexit", "aiter", "anext"),
            *("await", "int", "float", "complex", "index", "bool", "round", "trunc", "floor"),
            *("ceil", "neg", "pos", "abs", "invert", "bytes", "fspath"),
        )
    }
)
"""Methods that Python looks up in the class: proxies have those that their objects have."""


class Ended(BaseException):
    """The other process is gone, or sent what no process of Hone sends."""


class NotCarried(Exception):
    """An object cannot be used by the other process; the message says which and why."""


class NotOrdered(NotCarried, TypeError):
    """An object of the other process and a value of this one have no order."""


def _datetime(year: int, month: int, day: int, *more: Any) -> Any:
    *clock, zone, fold = more
    return import_module("datetime").datetime(year, month, day, *clock, zone, fold=fold)


def _time(*fields: Any) -> Any:
    *clock, zone, fold = fields
    return import_module("datetime").time(*clock, zone, fold=fold)


def _building(module: str, name: str) -> Callable[..., Any]:
    """Return a function that calls a class of a module, which is imported when it is needed."""

    def build(*parts: Any, **named: Any) -> Any:
        return getattr(import_module(module), name)(*parts, **named)

    return build


CLOCK = ("hour", "minute", "second", "microsecond", "tzinfo", "fold")
COPIED: dict[str, tuple[Callable[[Any], Iterable[Any]], Callable[..., Any]]] = {
    "frozenset": (list, lambda *items: frozenset(items)),
    "bytes": (lambda it: [it.decode("latin-1")], lambda text: text.encode("latin-1")),
    "complex": (lambda it: [it.real, it.imag], complex),
    "range": (operator.attrgetter("start", "stop", "step"), range),
    "slice": (operator.attrgetter("start", "stop", "step"), slice),
    "dict_keys": (list, lambda *items: dict.fromkeys(items).keys()),
    "dict_values": (list, lambda *items: dict(enumerate(items)).values()),
    "dict_items": (list, lambda *items: dict(items).items()),
    "decimal.Decimal": (lambda it: [str(it)], _building("decimal", "Decimal")),
    "fractions.Fraction": (
        operator.attrgetter("numerator", "denominator"),
        _building("fractions", "Fraction"),
    ),
    "datetime.date": (
        operator.attrgetter("year", "month", "day"),
        _building("datetime", "date"),
    ),
    "datetime.datetime": (operator.attrgetter("year", "month", "day", *CLOCK), _datetime),
    "datetime.time": (operator.attrgetter(*CLOCK), _time),
    "datetime.timedelta": (
        operator.attrgetter("days", "seconds", "microseconds"),
        _building("datetime", "timedelta"),
    ),
    "datetime.timezone": (lambda it: [it.utcoffset(None)], _building("datetime", "timezone")),
    "zoneinfo.ZoneInfo": (lambda it: [it.key], _building("zoneinfo", "ZoneInfo")),
    "uuid.UUID": (lambda it: [str(it)], _building("uuid", "UUID")),
    "re.Pattern": (operator.attrgetter("pattern", "flags"), _building("re", "compile")),
    "pathlib.PosixPath": (lambda it: [str(it)], _building("pathlib", "PosixPath")),
    "pathlib.PurePosixPath": (lambda it: [str(it)], _building("pathlib", "PurePosixPath")),
    "inspect.Parameter": (
        lambda it: [it.name, int(it.kind), it.default, it.annotation],
        lambda name, kind, default, annotation: _building("inspect", "Parameter")(
            name, kind, default=default, annotation=annotation
        ),
    ),
    "inspect.Signature": (
        lambda it: [tuple(it.parameters.values()), it.return_annotation],
        lambda parameters, returned: _building("inspect", "Signature")(
            parameters, return_annotation=returned
        ),
    ),
}
"""Types whose values are copied: what a value is taken apart into, and how it is built anew."""

COPIED_BUILT_IN: dict[type, str] = {
    **{it: it.__name__ for it in (frozenset, bytes, complex, range, slice)},
    **{type(getattr({}, f"{it}")()): f"dict_{it}" for it in ("keys", "values", "items")},
}


def _pairs(value: Any) -> list[Any]:
    return [it for pair in dict.items(value) for it in pair]


def _fill_dict(value: Any, parts: list[Any]) -> None:
    dict.clear(value)
    for key, item in zip(parts[::2], parts[1::2], strict=True):
        dict.__setitem__(value, key, item)


def _fill_ordered(value: Any, parts: list[Any]) -> None:
    OrderedDict.clear(value)
    for key, item in zip(parts[::2], parts[1::2], strict=True):
        OrderedDict.__setitem__(value, key, item)


def _fill_default(value: Any, parts: list[Any]) -> None:
    value.default_factory, *items = parts
    _fill_dict(value, items)


def _fill_list(value: Any, parts: list[Any]) -> None:
    list.__setitem__(value, slice(None), parts)


def _fill_set(value: Any, parts: list[Any]) -> None:
    set.clear(value)
    set.update(value, parts)


def _fill_deque(value: Any, parts: list[Any]) -> None:
    deque.clear(value)
    deque.extend(value, parts)


def _fill_bytes(value: Any, parts: list[Any]) -> None:
    bytearray.__setitem__(value, slice(None), parts[0])


SHARED: dict[type, tuple[Callable[[Any], list[Any]], Callable[[Any, list[Any]], None]]] = {
    Counter: (_pairs, _fill_dict),
    OrderedDict: (lambda it: [x for p in OrderedDict.items(it) for x in p], _fill_ordered),
    defaultdict: (lambda it: [it.default_factory, *_pairs(it)], _fill_default),
    dict: (_pairs, _fill_dict),
    list: (lambda it: list(list.__iter__(it)), _fill_list),
    set: (lambda it: list(set.__iter__(it)), _fill_set),
    deque: (lambda it: list(deque.__iter__(it)), _fill_deque),
    bytearray: (lambda it: [bytes(it)], _fill_bytes),
}
"""Types whose values are kept equal on both sides: their parts, and how parts are put back."""

SHARED_BY_NAME = {it.__name__: it for it in SHARED}
IMMUTABLE = (int, float, str, bytes, tuple, frozenset, complex)
NUMBERS = (int, float, complex)
FLAGS = 0x20 | 0x80 | 0x200
"""Bits of code that say whether it is a generator, a coroutine or both (`inspect`)."""

PLAIN = (bool, *IMMUTABLE, *SHARED, range, slice, object, type, type(None))


COPIED_MODULES = {name.rpartition(".")[0] for name in COPIED} | {"collections", "inspect"}


def is_named(kind: type) -> bool:
    """Return whether both sides use a class of the standard library under its name."""
    if issubclass(kind, BaseException):
        return kind.__module__.partition(".")[0] not in ("unittest", "doctest")
    name = f"{kind.__module__}.{kind.__qualname__}"
    return kind.__module__ == "builtins" or kind in SHARED or name in (*COPIED, "inspect._empty")


def _static(value: Any, name: str) -> Any:
    try:
        return (
            object.__getattribute__(value, name)
            if not isinstance(value, type)
            else getattr(value, name, None)
        )
    except AttributeError:
        return None


def _is_number(value: object) -> bool:
    return isinstance(value, NUMBERS) or type(value).__module__ in ("decimal", "fractions")


class Node:
    """A container that both sides have, and its parts when the other side last heard of them."""

    __slots__ = ("kind", "told", "value")

    def __init__(self, value: Any, kind: type) -> None:
        self.value = value
        self.kind = kind
        self.told: list[Any] | None = None

    def changed(self) -> list[Any] | None:
        """Return the parts if they are others than those that were told."""
        parts, told = SHARED[self.kind][0](self.value), self.told
        if told is not None and len(told) == len(parts):
            same = operator.eq if self.kind is bytearray else operator.is_
            if all(map(same, told, parts)):
                return None
        self.told = parts
        return parts

    def fill(self, parts: list[Any]) -> None:
        """Replace the parts by those of the other side."""
        SHARED[self.kind][1](self.value, parts)
        self.told = SHARED[self.kind][0](self.value)


def peer_of(proxy: Any) -> "Peer":
    """Return the peer that a proxy, or a proxy of a class, belongs to."""
    return cast("Peer", object.__getattribute__(proxy, "_hone_peer"))


def id_of(proxy: Any) -> int:
    """Return the id of the object that a proxy stands for."""
    return cast("int", object.__getattribute__(proxy, "_hone_id"))


def is_proxy(value: object) -> bool:
    """Return whether the value stands for an object of the other process, a class or a module."""
    kind = type(value)
    return kind is RemoteClass or type(kind) is RemoteClass or kind is RemoteModule


class RemoteClass(type):
    """The class of a class of the other process. Classes of this process cannot derive from it."""

    def __new__(cls, name: str, bases: tuple[type, ...], _namespace: dict[str, Any]) -> NoReturn:
        """Refuse: `mirrored` makes these classes."""
        raise NotCarried(
            f"the class {name} derives from {bases[0].__name__}, which is in another process"
        )

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Create an object in the other process."""
        return cls.peer.call(cls, args, kwargs)

    @property
    def peer(cls) -> "Peer":
        """The peer that the class belongs to."""
        return cast("Peer", type.__getattribute__(cls, "_hone_peer"))

    def __getattr__(cls, name: str) -> Any:
        return cls.peer.request("get", cls, name)

    def __setattr__(cls, name: str, value: Any) -> None:
        cls.peer.request("set", cls, name, value)

    def __delattr__(cls, name: str) -> None:
        cls.peer.request("delete", cls, name)

    def __dir__(cls) -> list[str]:
        return cast("list[str]", cls.peer.request("dir", cls))

    def __iter__(cls) -> Iterator[Any]:
        return cast("Iterator[Any]", cls.peer.special(cls, "__iter__"))

    def __len__(cls) -> int:
        return cast("int", cls.peer.special(cls, "__len__"))

    def __bool__(cls) -> bool:
        return True

    def __getitem__(cls, key: Any) -> Any:
        return cls.peer.special(cls, "__getitem__", key)

    def __contains__(cls, item: Any) -> bool:
        return bool(cls.peer.special(cls, "__contains__", item))

    def __or__(cls, other: Any) -> Any:
        return cls.peer.special(cls, "__or__", other)

    def __repr__(cls) -> str:
        return f"<class '{cls.__module__}.{cls.__qualname__}'>"


class ObjectProxy:
    """What proxies have in common; their classes add the special methods of their objects."""

    __slots__ = ()

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        return peer_of(self).request("get", self, "__dict__")

    def __getattr__(self, name: str) -> Any:
        return peer_of(self).request("get", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        peer_of(self).request("set", self, name, value)

    def __delattr__(self, name: str) -> None:
        peer_of(self).request("delete", self, name)

    def __dir__(self) -> list[str]:
        return cast("list[str]", peer_of(self).request("dir", self))

    def __repr__(self) -> str:
        return cast("str", peer_of(self).request("text", self, "repr", ""))

    def __str__(self) -> str:
        return cast("str", peer_of(self).request("text", self, "str", ""))

    def __format__(self, form: str) -> str:
        return cast("str", peer_of(self).request("text", self, "format", form))

    def __copy__(self) -> Any:
        return peer_of(self).request("copy", self, False)

    def __deepcopy__(self, _memo: Any) -> Any:
        return peer_of(self).request("copy", self, True)

    def __reduce_ex__(self, _protocol: Any) -> NoReturn:
        raise NotCarried(f"an object of {type(self).__name__} is pickled outside of its process")

    def __del__(self) -> None:
        with suppress(AttributeError):  # it may not have got its id
            peer_of(self).drop(self)


class ComparedProxy(ObjectProxy):
    """A proxy of an object that has no built-in value: only objects of its process can equal it."""

    __slots__ = ()

    def __eq__(self, other: object) -> Any:
        peer = peer_of(self)
        if peer.is_reading:
            return self is other
        return peer.compare(self, "__eq__", other)

    def __ne__(self, other: object) -> Any:
        return peer_of(self).compare(self, "__ne__", other)

    def __hash__(self) -> int:
        known = object.__getattribute__(self, "_hone_hash")
        if known is None:
            raise TypeError(f"unhashable type: '{type(self).__name__}'")
        return cast("int", known)


class RemoteModule(types.ModuleType):
    """A module of the other process."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("__class__", "__spec__", "__loader__", "__path__", "__name__", "__package__"):
            return super().__getattribute__(name)
        if name == "__all__":
            return peer_of(self).star(self)
        return peer_of(self).request("get", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in ("__spec__", "__loader__", "__path__", "__package__"):
            peer_of(self).request("set", self, name, value)

    def __delattr__(self, name: str) -> None:
        peer_of(self).request("delete", self, name)

    def __dir__(self) -> list[str]:
        return cast("list[str]", peer_of(self).request("dir", self))


def _forwarding(name: str) -> Callable[..., Any]:
    def forwarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        return peer_of(self).special(self, name, *args, **kwargs)

    return forwarded


def _method(name: str) -> Callable[..., Any]:
    def forwarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        peer = peer_of(self)
        return peer.call(peer.request("get", self, name), args, kwargs)

    return forwarded


def _base_of(kind: type) -> type | None:
    """Return the built-in type that a class derives from."""
    known = (*SHARED, *IMMUTABLE)
    return next((it for it in kind.__mro__ if it in known), None)


class Peer:
    """This side's end of the exchange. One thread at a time may use the other side's objects.

    With `is_strict`, nothing that the other side says decides whether one of its objects equals a
    value of this side. Subclasses say what the other side may do (`allows`), and what goes along
    with every message (`attached`, `take`).
    """

    def __init__(self, reader: IO[bytes], writer: IO[bytes], first_id: int, *, is_strict: bool):
        self.is_reading = False
        self.ended = ""
        self.is_strict = is_strict
        self._reader, self._writer = reader, writer
        self._next = first_id
        self._parity = first_id % 2
        self._lock = threading.RLock()
        self._own: dict[int, Any] = {}
        self._ids: dict[int, int] = {}
        self._sent: Counter[int] = Counter()
        self._shared: dict[int, Node] = {}
        self._shared_ids: dict[int, int] = {}
        self._new: list[int] = []
        self._described: dict[int, Any] = {}
        self._known: set[int] = set()
        self._classes: dict[int, Any] = {}
        self._proxies: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._kept: dict[int, Any] = {}
        self._dropped: list[tuple[int, int]] = []
        self._forgotten: list[int] = []
        self._tasks: dict[int, Any] = {}

    # What this side asks of the other

    def call(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call an object of the other side."""
        return self.request("call", target, args, tuple(kwargs.items()))

    def special(self, target: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a special method of an object of the other side."""
        if name == "__call__":
            return self.call(target, args, kwargs)
        if self.is_strict and name in ORDER:
            return self.compare(target, name, args[0])
        if self.is_strict and name in EXITS and isinstance(args[1], (AssertionError, NotCarried)):
            # The other side does not decide that an assertion has held.
            given = (AssertionError, AssertionError(), None)
            left = self.request("special", target, name, given, ())
            return _unswallowed(name, left)
        got = self.request("special", target, name, args, tuple(kwargs.items()))
        is_told = self.is_strict and name in NUMERIC and args and _is_number(args[0])
        if is_told and _is_number(got) and not is_proxy(args[0]):
            raise NotCarried(
                f"an object of {type(target).__name__} and a number made a number ({name}): "
                "convert it with int() or float() before you calculate"
            )
        return got

    def compare(self, one: Any, name: str, other: Any) -> Any:
        """Compare an object of the other side, and ask it only about others of that side."""
        if not self.is_strict or isinstance(other, ComparedProxy):
            return self.request("special", one, name, (other,), ())
        if name in ORDER and type(other) in PLAIN:
            raise NotOrdered(
                f"an object of {type(one).__name__} and a {type(other).__name__} have no order: "
                "compare built-in values"
            )
        return NotImplemented

    def request(self, does: str, *args: Any) -> Any:
        """Have something done, answer what the other side asks meanwhile, and return the result."""
        with self._lock:
            if self.ended:
                raise Ended(self.ended)
            self._send("ask", (does, args))
            while True:
                kind, payload = self._receive()
                if kind == "value":
                    return payload
                if kind == "error":
                    raise self.accepted(payload)
                self._answer(*payload)

    def serve(self) -> None:
        """Answer requests until the other side is gone."""
        try:
            while True:
                with self._lock:  # threads wait: what they ask is heard only during a request
                    kind, payload = self._receive()
                if kind == "ask":
                    self._answer(*payload)
        except Ended:
            return

    async def awaited(self, target: Any) -> Any:
        """Await an awaitable of the other side, and let both event loops run meanwhile."""
        asyncio = import_module("asyncio")
        task = self.request("start", target)
        try:
            while True:
                done, value = self.request("poll", task)
                if done:
                    return value
                await asyncio.sleep(0 if self.is_strict else 0.001)
        except asyncio.CancelledError:
            self.request("cancel", task)
            raise

    def star(self, module: RemoteModule) -> Any:
        """Return the names that `from module import *` takes."""
        return self.request("get", module, "__all__")

    def drop(self, proxy: Any) -> None:
        """Note that a proxy is gone, so that its object need not be kept."""
        self._dropped.append((id_of(proxy), object.__getattribute__(proxy, "_hone_count")))

    # What the other side asks of this one

    def allows(self, does: str, target: Any, name: str) -> bool:
        """Return whether the other side may do that with an object of this side."""
        return True

    def perform(self, does: str, args: tuple[Any, ...]) -> Any:
        """Do what the other side asks. Raises whatever that raises."""
        target, *more = args
        name = more[0] if more and type(more[0]) is str else ""
        if not name and does in ("get", "set", "delete", "special"):
            raise TypeError("names are texts")
        if not self.allows(does, target, name):
            raise AttributeError(f"{name or does} cannot be used from another process")
        done: dict[str, Callable[..., Any]] = {
            "call": lambda it, args, kwargs: it(*args, **dict(kwargs)),
            "get": getattr,
            "set": setattr,
            "delete": delattr,
            "dir": dir,
            "text": _text,
            "copy": _copy,
            "special": _special,
            "start": self._start,
            "poll": self._poll,
            "cancel": self._cancel,
        }
        return done[does](target, *more)

    def _answer(self, does: str, args: tuple[Any, ...]) -> None:
        try:
            answer = ("value", self.perform(does, args))
        except Ended:
            raise
        except BaseException as error:  # noqa: BLE001 - it belongs to the other side
            answer = ("error", self.raised(error))
        try:
            self._send(*answer)
        except Exception as error:  # noqa: BLE001 - the other side waits for an answer
            self._send("error", error)

    def raised(self, error: BaseException) -> BaseException:
        """Return the error that the other side gets for one that was raised here."""
        return error

    def accepted(self, error: BaseException) -> BaseException:
        """Return what to raise here for an error of the other side."""
        return error

    def _start(self, target: Any) -> int:
        task = import_module("asyncio").ensure_future(target, loop=self.loop())
        self._tasks[id(task)] = task
        return id(task)

    def _poll(self, number: int) -> tuple[bool, Any]:
        task = self._tasks[number]
        self.advance(task)
        if not task.done():
            return False, None
        del self._tasks[number]
        return True, task.result()

    def _cancel(self, number: int) -> None:
        self._tasks[number].cancel()

    def loop(self) -> Any:
        """Return the event loop that awaits for the other side."""
        return import_module("asyncio").get_running_loop()

    def advance(self, task: Any) -> None:
        """Let the event loop run for some milliseconds, if nothing else does."""

    # Messages

    def attached(self) -> dict[str, Any]:
        """Return what goes along with the next message."""
        return {}

    def take(self, attached: dict[str, Any]) -> None:
        """Take what came along with a message."""

    def _send(self, kind: str, payload: Any) -> None:
        with self._lock:
            known = set(self._known)
            try:
                message = {kind: self.encode(payload), **self.attached()}
                message["states"] = dict(self._states())
                self._forget()
            except BaseException:
                self._known, self._described, self._new = known, {}, []
                for node in self._shared.values():
                    node.told = None
                raise
            message["classes"], self._described = self._described, {}
            message["dropped"], self._dropped = self._dropped, []
            message["forgotten"], self._forgotten = self._forgotten, []
            data = json.dumps(message, separators=(",", ":")).encode()
            if len(data) > MOST_BYTES:
                raise NotCarried(f"more than {MOST_BYTES >> 20} MiB at once")
            try:
                self._writer.write(len(data).to_bytes(4, "big") + data)
                self._writer.flush()
            except OSError as error:
                self.end("it ended early")
                raise Ended(self.ended) from error

    def _receive(self) -> tuple[str, Any]:
        try:
            size = int.from_bytes(self._reader.read(4), "big")
            if not 0 < size <= MOST_BYTES:
                raise self.end("it sent what is no message" if size else "it ended early")
            data = self._reader.read(size)
        except OSError as error:
            raise self.end("it ended early") from error
        if len(data) < size:
            raise self.end("it ended early")
        self.is_reading = True
        try:
            message = json.loads(data)
            self._take(message)
            kind = next(it for it in ("ask", "value", "error") if it in message)
            payload = self.decode(message[kind])
            return kind, _checked(kind, payload)
        except Exception as error:
            raise self.end("it sent what is no message") from error
        finally:
            self.is_reading = False

    def end(self, why: str) -> Ended:
        """Use the other side no more, and return what to raise."""
        self.ended = self.ended or why
        return Ended(self.ended)

    def _take(self, message: dict[str, Any]) -> None:
        for number, described in message["classes"].items():
            self._classes[int(number)] = self._mirrored(int(number), **described)
        for number, count in message["dropped"]:
            self._sent[number] -= count
            if number in self._own and self._sent[number] <= 0:
                del self._ids[id(self._own.pop(number))], self._sent[number]
        states = {int(number): state for number, state in message["states"].items()}
        for number, (kind, owner, *_) in states.items():
            if number not in self._shared:
                self._created(number, SHARED_BY_NAME[kind], owner)
        for number, (_, _, *parts) in states.items():
            self._shared[number].fill([self.decode(it) for it in parts])
        for number in message["forgotten"]:
            if node := self._shared.pop(number, None):
                self._shared_ids.pop(id(node.value), None)
        self.take(message)

    def _created(self, number: int, kind: type, owner: Any) -> None:
        if number % 2 == self._parity:
            raise LookupError(number)
        value = kind() if owner is None else self._proxy(number, self.decode(owner), None, ())
        self._shared[number] = Node(value, kind)
        self._shared_ids[id(value)] = number

    def _forget(self) -> None:
        """Let go of containers that only this table still holds on this side."""
        if not self.is_strict:
            return
        unused = [n for n, it in self._shared.items() if sys.getrefcount(it.value) <= 2]
        for number in unused:
            node = self._shared.pop(number)
            del self._shared_ids[id(node.value)]
            self._forgotten.append(number)

    # Values as JSON

    def encode(self, value: Any) -> Any:  # noqa: PLR0911 - a case for each sort
        """Return a value as JSON. Raises `NotCarried`."""
        kind = type(value)
        if value is None or kind in (bool, float, str):
            return value
        if kind is int:
            return value if -(1 << 63) < value < 1 << 63 else ["i", hex(value)]
        if kind is tuple:
            return ["t", *map(self.encode, value)]
        if kind in SHARED:
            return ["m", self._share(value, kind)]
        if name := _copied_name(kind):
            return ["c", name, *map(self.encode, COPIED[name][0](value))]
        if kind is types.TracebackType or kind is types.FrameType:
            return None
        if isinstance(value, BaseException):
            return self._encode_error(value)
        if found := self.named(value):
            return ["g", *found]
        if isinstance(value, type):
            return self._encode_class(value)
        return self._encode_object(value)

    def named(self, value: Any) -> tuple[str, str] | None:
        """Return the module and name of a function, class or constant of the standard library."""
        if value is NotImplemented or value is Ellipsis:
            return "builtins", repr(value)
        if is_proxy(value) or not (isinstance(value, type) or self.is_strict):
            return None
        module, name = _static(value, "__module__"), _static(value, "__qualname__")
        if not (isinstance(module, str) and isinstance(name, str)):
            return None
        if not self.is_strict and not is_named(value):
            return None
        if module.partition(".")[0] not in sys.stdlib_module_names:
            return None
        return (module, name) if _found(sys.modules.get(module), name) is value else None

    def _encode_class(self, kind: Any) -> Any:
        if type(kind) is RemoteClass:
            return ["k", type.__getattribute__(kind, "_hone_id")]
        if kind is object or (kind.__module__ == "builtins" and self.named(kind)):
            return ["g", "builtins", kind.__qualname__]
        if issubclass(kind, BaseException) and (found := self.named(kind)):
            nearest = next(it for it in kind.__mro__ if it.__module__ == "builtins")
            return ["g", *found, nearest.__name__]
        number = self._exported(kind)
        if number not in self._known:
            self._known.add(number)
            self._described[number] = self._description(kind)
        return ["k", number]

    def _description(self, kind: type) -> dict[str, Any]:
        base = _base_of(kind)
        mro = [it for it in kind.__mro__ if it is not object and it not in PLAIN]
        names = {name for it in mro for name in vars(it)}
        bases = [it for it in kind.__bases__ if _is_carried_base(it)]
        methods = {name for name in names if name[:1] != "_" and base and hasattr(base, name)}
        return {
            "name": kind.__name__,
            "qualname": kind.__qualname__,
            "module": str(kind.__module__),
            "doc": kind.__doc__ if isinstance(kind.__doc__, str) else None,
            "bases": [self._encode_class(it) for it in bases],
            "base": base.__name__ if base else None,
            "special": sorted(names & SPECIAL),
            "methods": sorted(methods),
            "text": sorted(names & {"__str__", "__repr__", "__format__"}),
        }

    def _encode_object(self, value: Any) -> Any:
        if is_proxy(value):
            return ["o", id_of(value)]
        kind = type(value)
        if self.is_strict and isinstance(value, (types.ModuleType, types.CodeType)):
            raise NotCarried(f"a {kind.__name__} stays in its process")
        if isinstance(value, types.ModuleType):
            return ["o", self._exported(value), None, value.__name__]
        if kind in (types.CoroutineType, ASYNC_NEXT, ASYNC_CLOSE):
            return ["a", self._exported(value)]
        base = _base_of(kind)
        number = self._exported(value)
        parts = []
        if base in SHARED:
            self._share(value, base, number)
        elif base:
            parts = [self.encode(_plain(value, base))]
        elif kind in (types.FunctionType, types.MethodType):
            parts = [value.__code__.co_flags & FLAGS]
        return ["o", number, self._encode_class(kind), _hash(value), *parts]

    def _encode_error(self, error: BaseException) -> Any:
        if is_proxy(error):
            return ["o", id_of(error)]
        kind = self._encode_class(type(error))
        number = self._exported(error) if kind[0] == "k" else 0
        try:
            said = str(error)
        except Exception:  # noqa: BLE001 - whatever a class may raise
            said = ""
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else None
        named = {
            name: value
            for name, value in vars(error).items()
            if name[:1] != "_" and (value is None or type(value) in (str, int, float, tuple, list))
        }
        return [
            "x",
            kind,
            number,
            [self.encode(it) for it in error.args],
            said[:100_000],
            {name: self.encode(value) for name, value in named.items()},
            self.line_of(error),
            cause and self._encode_error(cause),
        ]

    def line_of(self, error: BaseException) -> int | None:
        """Return the line to which an error leads on this side."""
        return None

    def _share(self, value: Any, kind: type, number: int | None = None) -> int:
        known = self._shared_ids.get(id(value))
        if known is not None:
            return known
        number = self._allocated() if number is None else number
        self._shared[number] = Node(value, kind)
        self._shared_ids[id(value)] = number
        self._new.append(number)
        return number

    def _states(self) -> Iterator[tuple[int, Any]]:
        self._new = []
        queue = list(self._shared)
        for number in queue:
            node = self._shared[number]
            parts = node.changed()
            if parts is not None:
                owner = (
                    None if type(node.value) is node.kind else self._encode_class(type(node.value))
                )
                yield number, [node.kind.__name__, owner, *map(self.encode, parts)]
                queue += self._new
                self._new = []

    def _allocated(self) -> int:
        self._next += 2
        return self._next

    def _exported(self, value: Any) -> int:
        number = self._ids.get(id(value))
        if number is None:
            number = self._allocated()
            self._own[number] = value
            self._ids[id(value)] = number
        self._sent[number] += 1
        return number

    def decode(self, said: Any) -> Any:  # noqa: PLR0911 - a case for each tag
        """Return the value of JSON. Raises `LookupError`, `TypeError` or `ValueError`."""
        if not isinstance(said, list):
            if isinstance(said, dict):
                raise TypeError("an object")
            return said
        tag, *more = said
        if tag == "t":
            return tuple(self.decode(it) for it in more)
        if tag == "i":
            return int(more[0], 16)
        if tag == "m":
            return self._shared[more[0]].value
        if tag == "c":
            return COPIED[more[0]][1](*(self.decode(it) for it in more[1:]))
        if tag == "g":
            return self.resolved(*more)
        if tag == "k":
            return self._owned(more[0]) if self._is_own(more[0]) else self._classes[more[0]]
        if tag == "a":
            return self.awaited(self._proxy(more[0], self._awaitable(), None, ()))
        if tag == "x":
            return self._decode_error(*more)
        if tag == "o":
            return self._decode_object(*more)
        raise LookupError(tag)

    def resolved(self, module: str, name: str, nearest: str | None = None) -> Any:
        """Return what the other side named."""
        if module == "builtins" and name in ("NotImplemented", "Ellipsis"):
            return getattr(builtins, name)
        found = _found(
            import_module(module) if not self.is_strict else sys.modules.get(module), name
        )
        if found is None and module in COPIED_MODULES:
            found = _found(import_module(module), name)
        if self.is_strict and not (isinstance(found, type) and is_named(found)):
            found = getattr(builtins, nearest or "")
            if not issubclass(found, BaseException):
                raise LookupError(name)
        if found is None:
            raise LookupError(name)
        return found

    def _is_own(self, number: int) -> bool:
        return number % 2 == self._parity

    def _owned(self, number: int) -> Any:
        return self._own[number]

    def _decode_object(self, number: int, kind: Any = None, *more: Any) -> Any:
        if self._is_own(number):
            return self._owned(number)
        known = self._kept.get(number)
        known = self._proxies.get(number) if known is None else known
        if known is not None:
            object.__setattr__(
                known, "_hone_count", 1 + object.__getattribute__(known, "_hone_count")
            )
            return known
        if kind is None:
            return self._module(number, more[0])
        hashed, *parts = more
        return self._proxy(number, self.decode(kind), hashed, [self.decode(it) for it in parts])

    def _module(self, number: int, name: str) -> RemoteModule:
        module = RemoteModule(name)
        types.ModuleType.__setattr__(module, "_hone_id", number)
        types.ModuleType.__setattr__(module, "_hone_peer", self)
        types.ModuleType.__setattr__(module, "_hone_count", 1)
        self._kept[number] = module
        return module

    def _proxy(self, number: int, kind: Any, hashed: int | None, parts: Iterable[Any]) -> Any:
        if self._is_own(number) or type(kind) is not RemoteClass:
            if type(kind) is RemoteClass or not isinstance(kind, type):
                raise LookupError(number)
            kind = self._wrapping(kind)
        base = _base_of(kind) or object
        given = list(parts)
        proxy = base.__new__(kind, *(given if base is not object else ()))
        object.__setattr__(proxy, "_hone_flags", given[0] if given else 0)
        object.__setattr__(proxy, "_hone_id", number)
        object.__setattr__(proxy, "_hone_count", 1)
        object.__setattr__(proxy, "_hone_hash", hashed)
        try:
            self._proxies[number] = proxy
        except TypeError:  # some built-in types have no weak references
            self._kept[number] = proxy
        return proxy

    def _wrapping(self, kind: type) -> Any:
        """Return the class of proxies of objects whose class is a built-in one."""
        described = self._description(kind)
        described |= {"bases": [], "methods": []}
        known = self._classes.setdefault(-id(kind), None)
        if known is None:
            known = self._classes[-id(kind)] = self._mirrored(-id(kind), **described)
        return known

    def _awaitable(self) -> Any:
        if 0 not in self._classes:
            self._classes[0] = self._mirrored(0, **self._description(types.CoroutineType))
        return self._classes[0]

    def _mirrored(
        self,
        number: int,
        name: str,
        qualname: str,
        module: str,
        doc: str | None,
        bases: list[Any],
        base: str | None,
        special: list[str],
        methods: list[str],
        text: list[str],
    ) -> Any:
        """Return the class of proxies of the objects of a class of the other side."""
        native = next((it for it in (*SHARED, *IMMUTABLE) if it.__name__ == base), None)
        derives = [it for it in map(self.decode, bases) if it is not native]
        if not all(type(it) is RemoteClass or issubclass(it, BaseException) for it in derives):
            raise TypeError("no class of the other process")
        natives = [found for it in derives if (found := _base_of(it))]
        native = natives[0] if natives else native
        is_error = any(issubclass(it, BaseException) for it in derives)
        root = ObjectProxy if native or is_error else ComparedProxy
        namespace: dict[str, Any] = {
            "__qualname__": qualname,
            "__module__": module,
            "__doc__": doc,
            "__dict__": vars(ObjectProxy)["__dict__"],
            "_hone_peer": self,
            "_hone_id": number,
        }
        for each in (set(special) & SPECIAL) - _judged(native):
            namespace[each] = _forwarding(each)
        for each in methods if native in SHARED else ():
            if each.startswith("_"):
                raise ValueError(each)
            namespace[each] = _method(each)
        if is_error or native:
            namespace |= _natively(native, text, is_error=is_error)
        kind = SEEN_AS.get((module, name))
        if kind is not None:
            namespace["__class__"] = property(lambda _: kind)
            namespace["__code__"] = property(_code)
            namespace["__doc__"] = property(lambda it: it.__getattr__("__doc__"))
        ordered = tuple(dict.fromkeys([*derives, root, *([native] if native else [])]))
        try:
            return cast("Any", type).__new__(RemoteClass, name, ordered, namespace)
        except TypeError:  # no order of the bases fits
            first = [it for it in derives if issubclass(it, BaseException)][:1]
            return cast("Any", type).__new__(
                RemoteClass, name, (*first, root, *([native] if native else [])), namespace
            )

    def _decode_error(
        self,
        kind: Any,
        number: int,
        args: list[Any],
        said: str,
        named: dict[str, Any],
        line: int | None,
        cause: Any,
    ) -> BaseException:
        found = self.decode(kind)
        if not (isinstance(found, type) and issubclass(found, BaseException)):
            raise TypeError("no exception")
        given = [self.decode(it) for it in args]
        try:
            is_built_in = found.__module__ == "builtins" and type(found) is not RemoteClass
            error: BaseException = found(*given) if is_built_in else found.__new__(found, *given)
        except Exception:  # noqa: BLE001 - some classes want arguments of their own
            error = found.__new__(found)
        error.args = tuple(given)
        if type(found) is RemoteClass:
            for name, value in {"id": number, "count": 1, "said": said, "hash": None}.items():
                object.__setattr__(error, f"_hone_{name}", value)
        else:
            for name, value in named.items():
                if name[:1] != "_" and name not in dir(BaseException):
                    _set(error, name, self.decode(value))
        if cause is not None:
            error.__cause__ = self._decode_error(*cause[1:]) if cause[0] == "x" else None
        is_line = type(line) is int and 0 < line <= MOST_LINES
        object.__setattr__(error, "_hone_line", line if is_line else None)
        return error


def _function() -> None: ...


def _generator() -> Any:
    yield


async def _coroutine() -> None: ...


async def _asynchronous() -> Any:
    yield


CODES = {
    it.__code__.co_flags & FLAGS: it.__code__
    for it in (_function, _generator, _coroutine, _asynchronous)
}
_begun = _asynchronous()
ASYNC_NEXT, ASYNC_CLOSE = type(_begun.__anext__()), type(_begun.aclose())


def _code(proxy: Any) -> types.CodeType:
    """Return code of the same sort as that of a function of the other side."""
    return CODES.get(object.__getattribute__(proxy, "_hone_flags"), CODES[0])


def _plain(value: Any, base: type) -> Any:
    """Return the value that an object has as one of the built-in type it derives from."""
    if base is str:
        return "".join(str.__iter__(value))
    if base in (tuple, frozenset):
        return base(base.__iter__(value))
    if base is bytes:
        return bytes(bytes.__iter__(value))
    if base is complex:
        return complex(complex.real.__get__(value), complex.imag.__get__(value))
    return int.__add__(value, 0) if base is int else float.__add__(value, -0.0)


SEEN_AS: dict[tuple[str, str], type] = {
    ("builtins", "function"): types.FunctionType,
    ("builtins", "method"): types.MethodType,
}
"""Classes that proxies say they have, for `isinstance` and for `inspect`."""


def _judged(native: type | None) -> set[str]:
    """Return the special methods by which tests judge values of a built-in type.

    What derives from a text or a number is judged as one, whatever its class says.
    """
    if native is None:
        return set()
    if native in SHARED or native in (tuple, frozenset):
        own = {"__len__", "__iter__", "__contains__", "__getitem__", "__bool__"}
        return ORDER if issubclass(native, dict) else ORDER | own
    return SPECIAL - NUMERIC


def _natively(native: type | None, text: list[str], *, is_error: bool) -> dict[str, Any]:
    """Return the methods that a built-in base answers, and not the other side."""
    if is_error:
        return {
            "__str__": lambda self: object.__getattribute__(self, "_hone_said"),
            "__repr__": BaseException.__repr__,
            "__eq__": object.__eq__,
            "__hash__": object.__hash__,
        }
    assert native
    names = ("__eq__", "__ne__", "__hash__", *ORDER)
    kept = {name: getattr(native, name) for name in names}
    shown = {name: getattr(native, name) for name in ("__repr__", "__str__", "__format__")}
    return kept | {name: value for name, value in shown.items() if name not in text}


def _is_carried_base(kind: type) -> bool:
    if issubclass(kind, BaseException):
        return True
    return kind.__module__.partition(".")[0] not in sys.stdlib_module_names


def _copied_name(kind: type) -> str | None:
    if known := COPIED_BUILT_IN.get(kind):
        return known
    module = "pathlib" if kind.__module__ == "pathlib._local" else kind.__module__
    name = f"{module}.{kind.__qualname__}"
    if name not in COPIED or _found(sys.modules.get(module), kind.__qualname__) is not kind:
        return None
    return name


def _found(module: Any, name: str) -> Any:
    for part in name.split("."):
        module = getattr(module, part, None)
    return module


def _hash(value: Any) -> int | None:
    try:
        return hash(value)
    except Exception:  # noqa: BLE001 - whatever a class may raise
        return None


def _set(error: BaseException, name: str, value: Any) -> None:
    try:
        setattr(error, name, value)
    except (AttributeError, TypeError):
        return


def _unswallowed(name: str, left: Any) -> Any:
    """Return what leaves an error as it is, once the other side has left its block."""

    async def leave() -> bool:
        await left
        return False

    return leave() if name == "__aexit__" else False


def _checked(kind: str, payload: Any) -> Any:
    if kind == "error" and not isinstance(payload, BaseException):
        raise TypeError("no exception")
    if kind == "ask" and not (type(payload) is tuple and len(payload) == 2 and payload[1]):
        raise TypeError("no request")
    return payload


def _text(target: Any, form: str, specification: str) -> str:
    if form == "format":
        return format(target, specification)
    return str(target) if form == "str" else repr(target)


def _copy(target: Any, is_deep: bool) -> Any:
    module = import_module("copy")
    return module.deepcopy(target) if is_deep else module.copy(target)


def _special(target: Any, name: str, args: tuple[Any, ...], kwargs: tuple[Any, ...]) -> Any:
    if isinstance(target, type) and name == "__getitem__":
        return operator.getitem(target, args[0])  # type: ignore[call-overload]
    return getattr(type(target), name)(target, *args, **dict(kwargs))
