"""The request that continues an ended refinement: what changes in the request of that one."""

from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, create_model
from pydantic_core import PydanticUndefined

from app.contract import Contract
from app.contract.requests import RefinementRequest

KEPT = ("draft", "preset")
"""Fields of a request that no continuation changes: the draft is that of an iteration."""

DISABLED_BY_NULL = tuple(
    name for name, it in RefinementRequest.model_fields.items() if it.default is None
)

DESCRIPTIONS = {
    "start_after": "Time before which no worker takes it; that of the continued one is past.",
    "deadline": "Time at which it ends; that of the continued one does not count.",
    "review": "An explicit `null` disables reviews.",
    "webhook": "An explicit `null` disables it.",
    "retention_s": "An explicit `null` stands for that of the server.",
    "task": "The new task; an explicit `null` leaves the draft without one.",
    "locked": "Passages of the draft that it starts from; those of the continued one are kept, and"
    " must occur in that draft as well.",
}


class _Continued(Contract):
    """Changes to the request of the refinement that is continued; omitted fields are kept."""

    path: str | None = Field(
        None,
        min_length=1,
        max_length=1_000,
        description="Path of the iteration whose draft it starts from, such as `iterations/2`;"
        " without one, that of the result.",
    )

    def changes(self) -> dict[str, Any]:
        """Return the fields of a request that it replaces, by name."""
        given = {name: getattr(self, name) for name in self.model_fields_set - {"path"}}
        return {
            name: it for name, it in given.items() if it is not None or name in DISABLED_BY_NULL
        }


def _optional() -> Iterator[tuple[str, Any]]:
    for name, field in RefinementRequest.model_fields.items():
        if name not in KEPT:
            required = copy(field)
            required.default, required.default_factory = PydanticUndefined, None
            given = Field(None, description=DESCRIPTIONS.get(name))
            yield name, (Annotated[field.annotation, required] | None, given)


if TYPE_CHECKING:

    class Continuation(_Continued): ...

else:
    Continuation = create_model(
        "Continuation", __base__=_Continued, __doc__=_Continued.__doc__, **dict(_optional())
    )
