"""Optional resources of a server, enabled by settings; some validators and all tools need one."""

from app.contract.values import value


@value(slots=True)
class Resource:
    """A resource that a worker opens under this name if the setting is on."""

    name: str
    setting: str
    missing: str
    """The message for a request that needs the resource while the setting is off."""


SANDBOX = Resource(
    "sandbox", "python_tests", "this server cannot run drafts: HONE_PYTHON_TESTS is off"
)
ENDPOINTS = Resource(
    "endpoints", "secret_key", "this server cannot call endpoints: HONE_SECRET_KEY is not set"
)
RESOURCES = (SANDBOX, ENDPOINTS)
