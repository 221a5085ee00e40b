"""Waits for a model or an endpoint: why it cannot be called now, and until when it is awaited."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal, Self

from pydantic import Field

from app.contract import Contract
from app.contract.judgement import Usage
from app.contract.providers import BY_NAME

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

OF_KEY: frozenset[WaitReason] = frozenset({"unauthorized", "quota_exhausted"})
"""Waits that last until somebody does something about a key or its account."""

NEWS_AFTER = timedelta(minutes=1)
MOST_SAID = 2_000


def in_words(awaited: str, reason: WaitReason, said: str) -> str:
    """Return what a model or endpoint did, what its server said, and who must do what about it."""
    *owner, provider, name = _parts(awaited)
    remedy = "It is called again without anybody's doing."
    if reason in OF_KEY:
        whose, key = "The operator of this server", _key_variable(provider)
        if owner:
            whose, key = f"Tenant {owner[0]}", f"its own key for {provider}"
        must = f"replace {key}, or get it access" if reason == "unauthorized" else f"pay for {key}"
        remedy = f"{whose} must {must}; then the call is made again by itself."
    called = f"{provider}:{name}" if name else provider
    return f"{called} {REFUSALS[reason]}: {said.rstrip('. ')[:MOST_SAID]}. {remedy}"


def _parts(awaited: str) -> list[str]:
    """Return the tenant if the key is its own, the provider, and the name of the model."""
    if awaited.startswith(OWN_KEY_OF):
        return awaited.removeprefix(OWN_KEY_OF).split(":", 2)
    provider, _, name = awaited.partition(":")
    return [provider, name]


def _key_variable(provider: str) -> str:
    known = BY_NAME.get(provider)
    return known.key_variable if known else f"HONE_PROVIDER_{provider.upper()}_API_KEY"


class Waiting(Contract):
    """A step waits for a model, or for the endpoint of a validator.

    Nothing is wrong with the call, which is made again later.

    One wait lasts from the first refusal of a step until the step has a reply or has failed.
    """

    key: str = Field(description="Key of the step that waits.")
    reason: WaitReason
    model: str = Field(
        description="What is waited for: a model, `provider:name`, or `own:TENANT:provider:name`"
        " under the tenant's own key, `endpoint:HOST/PATH#TENANT`, or the quota of the day of a"
        " tenant, `quota:TENANT`."
    )
    until: datetime = Field(description="When a call was expected to be possible, at first.")
    since: datetime | None = Field(None, description="When this was first the reason.")
    detail: str = Field(
        "", description="What was refused, what the server said, and who must do what about it."
    )
    lost: Usage | None = Field(
        None, description="What replies consumed that broke off; the step's usage will contain it."
    )

    @property
    def called(self) -> str:
        """The name of the model, without whose key it was called with."""
        is_own = self.model.startswith(OWN_KEY_OF)
        return self.model.split(":", 2)[2] if is_own else self.model

    def is_news_after(self, known: "Waiting") -> bool:
        """Return whether the need to act on a key has changed since `known`.

        If both waits have a time, a change within a minute does not count: two fallbacks that
        refuse in turn, one for its key, are not news each time.
        """
        is_other = (known.reason in OF_KEY) != (self.reason in OF_KEY)
        if not is_other or known.since is None or self.since is None:
            return is_other
        return self.since - known.since >= NEWS_AFTER

    def without_loss(self) -> Self:
        """Return this wait without `lost`, because the step's entry already contains that usage."""
        return self.model_copy(update={"lost": None})
