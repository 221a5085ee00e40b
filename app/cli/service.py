"""All of Hone as child processes: Redis, API and worker."""

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator

from app.child import Emit
from app.cli.client import Client
from app.cli.failures import ServiceFailed
from app.cli.processes import check_port, programs
from app.embedded import EmbeddedRedis
from app.interrupts import Interrupts
from app.settings import Settings
from app.supervisor import Supervisor

MARGIN_S = 5.0  # what a process needs to end after its own grace period


@contextlib.contextmanager
def service(settings: Settings, emit: Emit, interrupts: Interrupts) -> Iterator[Supervisor]:
    """Run an API and a worker, and a Redis unless the settings name one; end them on leaving.

    Raises ServiceFailed if the port is taken, and what EmbeddedRedis.start raises.
    """
    check_port(settings.host, settings.port)
    redis = None if settings.redis_url else EmbeddedRedis.start(settings.data_dir)
    with redis or contextlib.nullcontext():
        url = redis.url if redis else settings.redis_url
        with Supervisor(
            programs(settings.model_copy(update={"redis_url": url})),
            emit,
            redis=redis,
            grace_s=settings.grace_s + MARGIN_S,
            in_a_hurry=lambda: interrupts.in_a_hurry,
        ) as supervisor:
            yield supervisor


def wait_until_ready(client: Client, meanwhile: Callable[[], None]) -> None:
    """Return once the API answers; `meanwhile` is called in between and may raise."""
    while not client.is_ready():
        meanwhile()
        time.sleep(0.1)


class Vigil:
    """Watches over a service that nobody else looks after: a crash in it is the end."""

    def __init__(self) -> None:
        self._log: deque[str] = deque(maxlen=30)

    def emit(self, name: str, line: str) -> None:
        """Keep a line of output for the case that it explains something."""
        self._log.append(f"{name}: {line}")

    def look(self, supervisor: Supervisor) -> None:
        """Raise ServiceFailed, with the last lines of output, if a process has crashed."""
        supervisor.tick()
        for keeper in supervisor.keepers:
            if keeper.crashes:
                raise ServiceFailed("\n".join([f"{keeper.name} has crashed:", *self._log]))
