"""Connections between simulated processes and one Redis, with the faults of a network."""

import asyncio
import hashlib
import re
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from random import Random
from socket import AF_UNIX, SOCK_STREAM, socket
from typing import Any

import hiredis

from app.store.redis.keys import COMMANDS
from app.store.redis.scripts import SCRIPTS
from tests.simulation.event_loop import SimulatedLoop, current_process

EPOCH_MS = 1_700_000_000_000  # the time of Redis when a simulation begins
REDIS_CLOCK = "redis.call('TIME')"
GIVEN_CLOCK = "{ KEYS[1], KEYS[2] }"
DRAWN = re.compile(r"redis\.call\('SRANDMEMBER', (.+?), (.+?)\)")
FIRST = r"redis.call('SORT', \1, 'LIMIT', 0, \2, 'ALPHA')"
RESET = "Connection reset by peer"
CLOSED = "unable to perform operation on <TCPTransport closed=True reading=False simulated>"

Command = list[bytes]


def with_given_clock(text: str) -> str:
    """Return a script whose one clock reads its keys, seconds and microseconds, not TIME.

    It also draws no random members, but the first in order.
    """
    assert text.count(REDIS_CLOCK) <= 1, "a script has no clock but that of clock.lua"
    return DRAWN.sub(FIRST, text.replace(REDIS_CLOCK, GIVEN_CLOCK))


def packed(command: Sequence[bytes]) -> bytes:
    """Encode a command in the protocol of Redis."""
    words = [b"$%d\r\n%b\r\n" % (len(word), word) for word in command]
    return b"*%d\r\n%b" % (len(command), b"".join(words))


class Trace:
    """What reached Redis and what it answered, and a hash that two equal runs share."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self._lines: list[tuple[float, str, tuple[Any, ...]]] = []

    def add(self, who: object, *what: Any) -> None:
        """Note an event."""
        self._lines.append((self.loop.time(), str(who), what))

    @property
    def sha256(self) -> str:
        """The hash of all events."""
        return hashlib.sha256("\n".join(self.last(len(self._lines))).encode()).hexdigest()

    def last(self, count: int) -> list[str]:
        """Return the last events as lines to read."""
        return [
            f"{at:9.4f} {who:<10} {' '.join(map(_readable, what))}"
            for at, who, what in self._lines[-count:]
        ]


def _readable(what: object) -> str:
    if isinstance(what, list):
        return "[" + " ".join(map(_readable, what)) + "]"
    if not isinstance(what, bytes):
        return str(what)
    text = what.decode(errors="replace")
    if len(text.rpartition(":")[2]) in (32, 40):
        return "~"  # the hash of a script, or a random id
    return text if len(text) <= 60 else f"{text[:60]}..."


class RealRedis:
    """A Redis that one blocking socket asks, one command at a time."""

    def __init__(self, path: str) -> None:
        self._commands, self._messages = _connected(path), _connected(path)
        self._reader, self._pushed = hiredis.Reader(), hiredis.Reader()
        self._messages.sendall(packed([b"SUBSCRIBE", COMMANDS.encode()]))
        self._next_push()

    def ask(self, *command: bytes) -> tuple[bytes, Any]:
        """Return the answer as it was sent, and decoded."""
        self._commands.sendall(packed(command))
        sent = b""
        while True:
            received = self._commands.recv(65536)
            sent += received
            self._reader.feed(received)
            answer = self._reader.gets()
            if answer is not False:
                return sent, answer

    def published(self) -> list[bytes]:
        """Return the ids for which commands were published since the last call."""
        found = []
        self._messages.sendall(packed([b"PING"]))
        while (push := self._next_push())[0] == b"message":
            found.append(push[2])
        return found

    def close(self) -> None:
        """Close both connections."""
        self._commands.close()
        self._messages.close()

    def _next_push(self) -> Any:
        while True:
            push = self._pushed.gets()
            if push is not False:
                return push
            self._pushed.feed(self._messages.recv(65536))


def _connected(path: str) -> socket:
    connection = socket(AF_UNIX, SOCK_STREAM)
    connection.settimeout(30)
    connection.connect(path)
    return connection


@dataclass
class ServerConnection:
    """The server's end of a connection."""

    transport: "SimulatedTransport"
    reader: Any
    transaction: list[Command] | None = None
    is_subscribed: bool = False
    is_open: bool = True


ScriptEdit = Callable[[str], str]


class SimulatedServer:
    """Executes commands in a real Redis, whose scripts read the simulated time.

    `edit` changes the text of every script before it runs.
    """

    def __init__(
        self, redis: RealRedis, loop: SimulatedLoop, trace: Trace, edit: ScriptEdit
    ) -> None:
        self.redis = redis
        self.skew_ms = 0
        self.connections: list[ServerConnection] = []
        self.on_job: Callable[[], None] = lambda: None
        self.fenced: dict[tuple[str, bytes, bytes], float] = {}  # worker, id, token -> since when
        self.executed: list[tuple[float, Command]] = []
        self.loop = loop
        self._trace = trace
        self._edit = edit
        self._scripts: dict[bytes, tuple[bytes, str]] = {}

    def execute(self, connection: ServerConnection, command: Command) -> bytes:
        """Return the answer to one command of a connection."""
        name = command[0].upper()
        if name == b"MULTI":
            connection.transaction = []
            return b"+OK\r\n"
        if name == b"EXEC":
            assert connection.transaction is not None
            queued, connection.transaction = connection.transaction, None
            answers = [self._run(connection, it) for it in queued]
            return b"*%d\r\n%b" % (len(answers), b"".join(answers))
        if connection.transaction is not None:
            connection.transaction.append(command)
            return b"+QUEUED\r\n"
        return self._of_the_server(connection, command) or self._run(connection, command)

    def _of_the_server(self, connection: ServerConnection, command: Command) -> bytes | None:
        """Answer what concerns the connection or the time, and not the data."""
        match command[0].upper():
            case b"TIME":
                return packed(self._clock())
            case b"CLIENT":
                return b"+OK\r\n"
            case b"SUBSCRIBE":
                connection.is_subscribed = True
                return packed([b"subscribe", command[1]]).replace(b"*2", b"*3", 1) + b":1\r\n"
        return None

    def forget_scripts(self) -> None:
        """Lose every script, as a restart does."""
        self._scripts.clear()

    def forget_since(self, seconds: float) -> None:
        """Lose what was written in the last seconds, as a crash before the AOF was synced does."""
        kept = [it for it in self.executed if it[0] <= self.loop.time() - seconds]
        self.redis.ask(b"FLUSHALL")
        for _, command in kept:
            self.redis.ask(*command)
        self.executed = kept

    def refuse_writes(self, setting: bytes, value: bytes) -> None:
        """Change a setting of Redis so that it refuses writes, or no longer does."""
        self.redis.ask(b"CONFIG", b"SET", setting, value)

    def _run(self, connection: ServerConnection, command: Command) -> bytes:
        name, publishes = command[0].upper(), False
        label = name.decode()
        if name == b"SCRIPT":
            return b"$40\r\n%b\r\n" % self._loaded(command[2].decode())
        if name in (b"EVAL", b"EVALSHA"):
            sha = self._loaded(command[1].decode()) if name == b"EVAL" else command[1]
            if sha not in self._scripts:
                return b"-NOSCRIPT No matching script.\r\n"
            real_sha, text = self._scripts[sha]
            label, publishes = NAMES.get(sha, "script"), "PUBLISH', COMMANDS" in text
            command = [b"EVALSHA", real_sha, b"2", *self._clock(), *command[3:]]
        sent, answer = self.redis.ask(*command)
        self.executed.append((self.loop.time(), command))
        shown = command[5:] if name.startswith(b"EVAL") else command[1:]
        # Fields of a hash and members of a set come in another order in every server.
        read = "..." if label in HIDDEN else answer
        self._trace.add(connection.transport.process, label, *shown, "->", read)
        if label == "append" and answer == b"FENCED":
            claim = (str(connection.transport.process), shown[0], shown[1])
            self.fenced.setdefault(claim, self.loop.time())
        if publishes:
            self._publish()
        is_left = label == "take_jobs" and isinstance(answer, list) and answer[0] > 0
        if label in ("create", "enqueue") or is_left:
            self.on_job()
        return sent

    def _loaded(self, text: str) -> bytes:
        sha = hashlib.sha1(text.encode()).hexdigest().encode()
        if sha not in self._scripts:
            real = self._edit(with_given_clock(text))
            _, real_sha = self.redis.ask(b"SCRIPT", b"LOAD", real.encode())
            assert isinstance(real_sha, bytes), real_sha
            self._scripts[sha] = (real_sha, text)
        return sha

    def now_ms(self) -> int:
        """Return the time of Redis."""
        return EPOCH_MS + self.skew_ms + int(self.loop.time() * 1000)

    def _clock(self) -> tuple[bytes, bytes]:
        seconds, rest = divmod(self.now_ms(), 1000)
        return b"%d" % seconds, b"%d" % (rest * 1000)

    def _publish(self) -> None:
        channel = COMMANDS.encode()
        for refinement_id in self.redis.published():
            message = packed([b"message", channel, refinement_id])
            for connection in self.connections:
                if connection.is_subscribed and connection.is_open:
                    connection.transport.network.answer(connection, message)


HIDDEN = {"create", "snapshot", "events", "HGETALL", "SMEMBERS", "INFO"}
NAMES = {script.sha.encode(): name for name, script in SCRIPTS.items()}


@dataclass
class NetworkFaults:
    """How often a packet meets each fault; all end at `until`, in simulated seconds."""

    until: float = 0.0
    lost_request: float = 0.0  # the connection is reset before the request takes effect
    lost_answer: float = 0.0  # it is reset after that
    part: float = 0.0  # it is reset after some commands of a pipeline took effect
    silent: float = 0.0  # the request may take effect; no answer ever comes on this connection
    late_request: float = 0.0
    late_answer: float = 0.0


class SimulatedTransport(asyncio.Transport):
    """The client's end of a connection, which reports a reset as uvloop does."""

    def __init__(self, network: "SimulatedNetwork", protocol: Any) -> None:
        super().__init__()
        self.network = network
        self.process = current_process()
        self.context = copy_context()
        self.server = ServerConnection(self, hiredis.Reader())
        self.is_silent = False
        self.arrives_at = 0.0
        self.answered_at = 0.0
        self._protocol = protocol
        self._is_closed = False
        protocol.connection_made(self)

    def write(self, data: Any) -> None:
        if self._is_closed:
            raise RuntimeError(CLOSED)
        self.network.send(self, bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def receive(self, data: bytes) -> None:
        """Deliver an answer."""
        if not self._is_closed:
            self._protocol.data_received(data)

    def reset(self) -> None:
        """Report that the connection was reset."""
        self._lose(ConnectionResetError(104, RESET))

    def close(self) -> None:
        self._lose(None)

    def abort(self) -> None:
        self._lose(None)

    def _lose(self, error: Exception | None) -> None:
        if not self._is_closed:
            self._is_closed = True
            loop = self.network.loop
            loop.call_soon(self._protocol.connection_lost, error, context=self.context)

    def is_closing(self) -> bool:
        return self._is_closed

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class SimulatedNetwork:
    """Delivers requests and answers in order per connection, after a delay, or not at all."""

    def __init__(
        self, loop: SimulatedLoop, server: SimulatedServer, chance: Random, trace: Trace
    ) -> None:
        self.server = server
        self.faults = NetworkFaults()
        self.is_down = False
        self.loop = loop
        self._chance = chance
        self._trace = trace

    async def connect(self, protocol_factory: Callable[[], Any]) -> tuple[Any, Any]:
        """Open a connection for the process that asks."""
        await asyncio.sleep(self._delay())
        if self.is_down:
            raise ConnectionRefusedError(111, "Connection refused")
        protocol = protocol_factory()
        transport = SimulatedTransport(self, protocol)
        self.server.connections.append(transport.server)
        return transport, protocol

    def send(self, transport: SimulatedTransport, data: bytes) -> None:
        """Deliver a request later; it arrives even if its sender is dead by then."""
        if transport.is_silent:
            return
        fault = self._fault()
        if fault:
            self._trace.add(transport.process, f"({fault})")
        wait = self._chance.uniform(0.3, 9.0) if fault == "late_request" else self._delay()
        transport.arrives_at = max(transport.arrives_at, self.loop.time() + wait)
        self._at(transport.arrives_at, self._arrive, transport.server, data, fault)

    def answer(self, connection: ServerConnection, data: bytes, wait: float = 0.0) -> None:
        """Deliver an answer or a message later, in order."""
        transport = connection.transport
        if transport.is_silent:
            return
        when = self.loop.time() + wait + self._delay()
        transport.answered_at = max(transport.answered_at, when)
        self.loop.call_at(transport.answered_at, transport.receive, data, context=transport.context)

    def reset(self, connection: ServerConnection) -> None:
        """Break a connection; what is under way in either direction is lost."""
        connection.is_open = False
        transport = connection.transport
        if not transport.is_silent:
            when = self.loop.time() + self._delay()
            self.loop.call_at(when, transport.reset, context=transport.context)

    def reset_all(self) -> None:
        """Break every connection."""
        for connection in self.server.connections:
            if connection.is_open:
                self.reset(connection)
        self.server.connections.clear()

    def _arrive(self, connection: ServerConnection, data: bytes, fault: str) -> None:
        if not connection.is_open:
            return
        if self.is_down or fault == "lost_request":
            self.reset(connection)
            return
        connection.reader.feed(data)
        commands = []
        while (command := connection.reader.gets()) is not False:
            commands.append(command)
        if fault == "part":
            commands = commands[: self._chance.randint(0, len(commands))]
        elif fault == "silent" and self._chance.random() < 0.3:
            commands = []
        answers = b"".join([self.server.execute(connection, it) for it in commands])
        if fault in ("part", "lost_answer"):
            self.reset(connection)
        elif fault == "silent":
            connection.transport.is_silent = True
        else:
            late = self._chance.uniform(0.3, 9.0) if fault == "late_answer" else 0.0
            self.answer(connection, answers, late)

    def _fault(self) -> str:
        if self.loop.time() >= self.faults.until:
            return ""
        drawn = self._chance.random()
        for kind in KINDS:
            drawn -= getattr(self.faults, kind)
            if drawn < 0:
                return kind
        return ""

    def _delay(self) -> float:
        return self._chance.uniform(0.0001, 0.002)

    def _at(self, when: float, callback: Callable[..., None], *args: Any) -> None:
        self.loop.call_at(when, callback, *args, context=self.loop.outside)


KINDS = ("lost_request", "lost_answer", "part", "silent", "late_request", "late_answer")
