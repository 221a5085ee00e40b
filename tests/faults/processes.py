"""The processes of a run: those of the service, kept running, and the model server."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from app.local.parent_death import dying_with_parent
from benchmarks.model_replies import AskedPrompt, Behaviour, ModelServerReply, improving
from benchmarks.model_server import ScriptedModelServer


def slow_model(fastest_s: float, slowest_s: float) -> Behaviour:
    """Return a model whose reply and latency depend on nothing but the call's key and content."""

    def reply(asked: AskedPrompt) -> ModelServerReply:
        key = asked.header("Idempotency-Key") or ""
        share = int.from_bytes(sha256(key.encode()).digest()[:4], "big") / 2**32
        return replace(improving(asked), delay_s=fastest_s + share * (slowest_s - fastest_s))

    return reply


class ModelServerThread(ScriptedModelServer):
    """A model server in a thread of its own, so that it answers whatever the event loop does."""

    loop: asyncio.AbstractEventLoop

    def open(self) -> None:
        """Listen; after the first time on the same port."""
        asyncio.run_coroutine_threadsafe(self.__aenter__(), self.loop).result()

    def close(self) -> None:
        """Listen no more, and reset every connection."""
        asyncio.run_coroutine_threadsafe(self.__aexit__(), self.loop).result()

    @contextmanager
    def unreachable(self) -> Iterator[None]:
        """Refuse connections until the end of the block; calls under way count as refused."""
        for call in self.record or ():
            call.is_refused |= call.ended_at is None  # an answer on its way is lost, too
        self.close()
        try:
            yield
        finally:
            self.open()


@contextmanager
def model_server(fastest_s: float, slowest_s: float) -> Iterator[ModelServerThread]:
    """Run a model server."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = ModelServerThread(slow_model(fastest_s, slowest_s), record=[])
    server.loop = loop
    server.open()
    try:
        yield server
    finally:
        server.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class KeptProcess:
    """A process of the service that is started again whenever it has ended."""

    def __init__(
        self,
        name: str,
        module: tuple[str, ...],
        env: Mapping[str, str],
        log: Path,
        release: Path | None = None,
    ) -> None:
        self.name = name
        self.is_wanted = True
        self.release = release
        """The directory whose code it runs; None stands for the code of this process."""
        self._command = [sys.executable, "-m", *module]
        self._env = env
        self._log = log
        self.start()

    @property
    def is_running(self) -> bool:
        """Whether it is alive, or stopped by a signal."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """Its process id; new with every start."""
        return self._process.pid

    def start(self) -> None:
        """Start it."""
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                dying_with_parent(self._command, signal.SIGKILL),
                env=self._env,
                cwd=self.release,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        self._process.send_signal(number)

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait for its end."""
        self._process.wait(timeout_s)
