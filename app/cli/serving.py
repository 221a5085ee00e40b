"""`hone serve`: the whole service in one terminal."""

import contextlib
import sys
import threading

from rich.console import Console

from app.cli.client import Client
from app.cli.processes import free_port, url_of
from app.cli.service import service, wait_until_ready
from app.cli.words import say
from app.interrupts import Interrupts
from app.settings import Settings


def serve(settings: Settings, console: Console) -> None:
    """Run until interrupted: one Ctrl-C ends everything, a second one at once.

    With port 0 it listens on a free one.
    """
    if settings.port == 0:
        settings = settings.model_copy(update={"port": free_port(settings.host)})
    log = PrefixedLog(console)
    url = url_of(settings)
    redis = settings.data_dir.expanduser() if not settings.redis_url else "HONE_REDIS_URL"
    with (
        contextlib.suppress(KeyboardInterrupt),
        Interrupts() as interrupts,
        service(settings, log, interrupts) as supervisor,
        Client(url) as client,
    ):
        wait_until_ready(client, supervisor.tick)
        say(
            console, f"Hone is ready: {url}  documentation: {url}/docs  data: {redis}", "bold green"
        )
        say(console, "Ctrl-C ends it.")
        supervisor.run()
    say(console, "Hone has ended.")


class PrefixedLog:
    """Prints what the processes write, each line with the name of its writer."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()

    def __call__(self, name: str, line: str) -> None:
        # A terminal that was closed must not keep the service from ending in order.
        with self._lock, contextlib.suppress(OSError):
            say(self._console, f"{name:<6} | {line}")
            sys.stdout.flush()
