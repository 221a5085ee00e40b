"""Kinds of validators that a server runs only when it is told to."""

from collections.abc import Mapping

from app.settings import Settings


def switched_off(settings: Settings) -> Mapping[str, str]:
    """Return the kinds that a request cannot name here, each with what would have to be set."""
    reasons = {}
    if not settings.python_tests:
        reasons["python_tests"] = "this server runs no tests: its HONE_PYTHON_TESTS is off"
    if not settings.secret_key:
        reasons["http"] = "this server calls no endpoints: its HONE_SECRET_KEY is not set"
    return reasons
