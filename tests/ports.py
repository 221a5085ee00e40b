"""Ports for processes that a test starts: free until they listen, and whenever they do not."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved_port(host: str = "127.0.0.1") -> Iterator[int]:
    """Keep a port for a server with SO_REUSEADDR, which may listen on it as often as it likes.

    The kernel gives a port that is bound to nobody else who asks for any. Connections are refused
    while no server listens. A port that was merely free a moment ago may be another test's by now.
    """
    with socket.socket() as reserving:
        reserving.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserving.bind((host, 0))
        port: int = reserving.getsockname()[1]
        yield port
