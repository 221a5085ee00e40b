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

from pydantic import SecretStr
from standardwebhooks import Webhook, WebhookVerificationError

from app.local.parent_death import dying_with_parent
from app.settings import Settings
from app.store.signing_secrets import EndpointSecrets
from benchmarks.model_replies import AskedPrompt, Behaviour, ModelServerReply, chat, improving
from benchmarks.model_server import ScriptedModelServer
from tests.engine.scripted_replies import plan, revised, step
from tests.faults.history import TENANT

TOOL_PATH = "/tool"
SIGNING = "signing secrets of endpoints"
SECRET_KEY = "a secret key of the fault programme"
SECRETS = EndpointSecrets(Settings(secret_key=SecretStr(SECRET_KEY)).derived_keys(SIGNING))
DONE = "It is done."
REPLIES = {
    "plan": plan(step("Do it.", "act", id=1)),
    "steps/1/replan": revised(met=True, evidence=((1, DONE),)),
}
"""What the planner says, by the key of its step; the plan is the same for every task."""


def slow_model(fastest_s: float, slowest_s: float) -> Behaviour:
    """Return a model whose reply and latency depend on nothing but the call's key and content.

    At `TOOL_PATH` it is an endpoint that verifies signatures by its own clock, with a library.
    """

    def reply(asked: AskedPrompt) -> ModelServerReply:
        key = asked.header("Idempotency-Key") or ""
        share = int.from_bytes(sha256(key.encode()).digest()[:4], "big") / 2**32
        return replace(_said(asked, key), delay_s=fastest_s + share * (slowest_s - fastest_s))

    return reply


def _said(asked: AskedPrompt, key: str) -> ModelServerReply:
    if asked.path == TOOL_PATH:
        return _acted(asked)
    said = REPLIES.get(key.partition("/")[2])
    return improving(asked) if said is None else chat(said)


def _acted(asked: AskedPrompt) -> ModelServerReply:
    fields = {it: asked.header(it) or "" for it in SIGNED_FIELDS}
    try:
        url = f"http://{asked.header('Host')}{TOOL_PATH}"
        Webhook(SECRETS.secret(TENANT, url, 0)).verify(asked.body, fields)
    except WebhookVerificationError as error:
        return ModelServerReply(401, str(error).encode())
    return ModelServerReply(body=DONE.encode())


SIGNED_FIELDS = ("webhook-id", "webhook-timestamp", "webhook-signature")


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
        self._has_begun = False
        self.start()

    @property
    def is_running(self) -> bool:
        """Whether it is alive, or stopped by a signal."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """Its process id; new with every start."""
        return self._process.pid

    @property
    def takes_work(self) -> bool:
        """Whether it is a worker that runs and has begun to take work."""
        if not self._has_begun:
            with self._log.open("rb") as log:
                log.seek(self._begins_at)
                self._has_begun = b"runs up to" in log.read()
        return self._has_begun and self.is_running

    def start(self) -> None:
        """Start it."""
        self._has_begun = False
        with self._log.open("ab") as output:
            self._begins_at = output.tell()
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
