"""Whether a server can do its work."""

from typing import Literal

from pydantic import Field

from app.contract.model import Contract


class Health(Contract):
    """The process is up."""

    status: Literal["ok"] = "ok"


class Readiness(Contract):
    """Redis answers. A warning is no failure: what is submitted waits."""

    status: Literal["ready"] = "ready"
    workers: int = Field(ge=0, description="Workers that gave a sign of life lately.")
    warnings: tuple[str, ...]
