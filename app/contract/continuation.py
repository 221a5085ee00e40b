"""Going on from what a refinement came to, with a new one."""

from typing import Any

from pydantic import Field

from app.contract.limits import MaxIterations, Stop, Threshold
from app.contract.model import Contract
from app.contract.models import Models
from app.contract.requests import MetadataKey, MetadataValue
from app.contract.reviews import ReviewPlan
from app.contract.strategies import AnyStrategy


class Continuation(Contract):
    """What is different from the request of the refinement that is continued; the rest is kept."""

    threshold: Threshold | None = None
    max_iterations: MaxIterations | None = None
    stop: Stop | None = None
    metadata: dict[MetadataKey, MetadataValue] | None = Field(
        None, max_length=16, json_schema_extra={"additionalProperties": False}
    )
    strategy: AnyStrategy | None = None
    models: Models | None = None
    review: ReviewPlan | None = Field(None, description="An explicit `null` asks for no review.")

    def changes(self) -> dict[str, Any]:
        """Return the fields of a request that it replaces, by name."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return {name: it for name, it in given.items() if it is not None or name == "review"}
