"""What a server has only when a setting says so; some validators, and every tool, need it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that a worker opens when the setting is on, under its name."""

    name: str
    setting: str
    missing: str
    """Why a request that needs it is refused where the setting is off."""


SANDBOX = Resource(
    "sandbox", "python_tests", "this server runs no tests: its HONE_PYTHON_TESTS is off"
)
ENDPOINTS = Resource(
    "endpoints", "secret_key", "this server calls no endpoints: its HONE_SECRET_KEY is not set"
)
RESOURCES = (SANDBOX, ENDPOINTS)
