"""The processes a whole service is made of, and what they are told."""

import os
import socket
import sys
from pathlib import Path

from app.child import Program
from app.cli.environment import environment_of
from app.cli.failures import ServiceFailed
from app.settings import Settings


def programs(settings: Settings) -> tuple[Program, Program]:
    """One API and one worker that run with exactly these settings."""
    environment = os.environ | environment_of(settings) | {"PYTHONUNBUFFERED": "1"}
    return (
        Program("api", (*python(), "-m", "app.cli", "api"), environment),
        Program("worker", (*python(), "-m", "workers"), environment),
    )


def python() -> tuple[str, ...]:
    """This interpreter, importing from where this process does.

    A directory called `app` where somebody happens to stand must not take the place of Hone's.
    """
    return (sys.executable,) if str(Path.cwd()) in sys.path else (sys.executable, "-P")


def check_port(host: str, port: int) -> None:
    """Raise ServiceFailed if nothing could listen there now."""
    with socket.socket(_family(host)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ServiceFailed(
                f"cannot listen on {host}, port {port}: {error.strerror}. Choose another HONE_PORT."
            ) from None


def free_port(host: str) -> int:
    """A port on which nothing listens now."""
    with socket.socket(_family(host)) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def url_of(settings: Settings) -> str:
    """Where the API can be reached from this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
