"""Waits for a model or an endpoint: why it cannot be called now, and until when it is awaited."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, Self

from pydantic import Field

from app.contract import Contract
from app.contract.judgement import Usage

WaitReason = Literal[
    "rate_limited",
    "overloaded",
    "slow",
    "unreachable",
    "unauthorized",
    "quota_exhausted",
    "tenant_quota",
    "error",
]

QUOTA_OF = "quota:"
"""Before the name of a tenant, whose quota of the day is waited for."""


OWN_KEY_OF = "own:"
"""Before the name of a tenant and a model, which is waited for under the tenant's own key."""


def own_key_name(tenant: str, model: str) -> str:
    """Return under which name a model is waited for that is called with a tenant's own key."""
    return f"{OWN_KEY_OF}{tenant}:{model}"


REFUSALS: Mapping[WaitReason, str] = {
    "rate_limited": "took no more calls at that rate",
    "overloaded": "was overloaded",
    "slow": "had not answered the calls under way",
    "unreachable": "could not be reached",
    "unauthorized": "refused the API key",
    "quota_exhausted": "had no credit left",
    "tenant_quota": "was used up for the day",
    "error": "answered with errors",
}
"""What a model did that had to be waited for."""


class Waiting(Contract):
    """A step waits for a model, or for the endpoint of a validator.

    Nothing is wrong with the call, which is made again later.

    One wait lasts from the first refusal of a step until the step has a reply or has failed.
    """

    key: str = Field(description="Key of the step that waits.")
    reason: WaitReason
    model: str = Field(
        description="What is waited for: a model, `provider:name`, or `own:TENANT:provider:name`"
        " under the tenant's own key, `endpoint:HOST/PATH`, or the quota of the day of a tenant,"
        " `quota:TENANT`."
    )
    until: datetime = Field(description="When a call was expected to be possible, at first.")
    lost: Usage | None = Field(
        None, description="What replies consumed that broke off; the step's usage will contain it."
    )

    @property
    def called(self) -> str:
        """The name of the model, without whose key it was called with."""
        is_own = self.model.startswith(OWN_KEY_OF)
        return self.model.split(":", 2)[2] if is_own else self.model

    def without_loss(self) -> Self:
        """Return it without what was lost, where an entry of the step has that."""
        return self.model_copy(update={"lost": None})
