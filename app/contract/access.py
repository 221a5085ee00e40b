"""API keys: who may do what, as the API shows it."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field, field_validator

from app.contract import Contract, Instant, ListPage, patterns
from app.contract.endpoints import HeaderValue

TENANT_NAME = patterns.TENANT_NAME.regex
"""No `:`, which separates the parts of a Redis key: no two tenants share a key."""

OPERATOR = "default"
"""The tenant of requests without a key. Its administrators manage the keys of every tenant."""

TenantName = Annotated[str, Field(pattern=TENANT_NAME, examples=["acme"])]


class Scope(StrEnum):
    """A group of operations that a key allows."""

    SUBMIT = "submit"
    READ = "read"
    REVIEW = "review"
    ADMIN = "admin"


MEANINGS = {
    Scope.SUBMIT: "submit, change, finish, cancel, continue, retry and erase refinements",
    Scope.READ: "read refinements and everything about them",
    Scope.REVIEW: "decide reviews and rate drafts",
    Scope.ADMIN: "manage keys, see quotas and the audit log",
}
WITHOUT_ADMIN = (Scope.SUBMIT, Scope.READ, Scope.REVIEW)
KeyName = Annotated[str, Field(max_length=100, description="What it is for, for people.")]


class KeyRequest(Contract):
    """A key to create."""

    tenant: TenantName | None = Field(
        None,
        description="Tenant of the key; default: that of the caller. Only administrators of"
        f" `{OPERATOR}` can name another one, which then exists.",
    )
    scopes: tuple[Scope, ...] = Field(
        WITHOUT_ADMIN,
        min_length=1,
        max_length=len(Scope),
        description="; ".join(f"`{scope}`: {meaning}" for scope, meaning in MEANINGS.items()),
    )
    name: KeyName = ""
    expires_at: Instant | None = Field(None, description="When it stops working.")

    @field_validator("scopes")
    @classmethod
    def _are_named_once(cls, scopes: tuple[Scope, ...]) -> tuple[Scope, ...]:
        if len(set(scopes)) < len(scopes):
            raise ValueError("each scope must be named once")
        return scopes


class Rotation(Contract):
    """The replacement of a key or a secret by a new one."""

    overlap_s: int = Field(
        86_400,
        ge=0,
        le=30 * 86_400,
        description="Seconds for which the old one goes on working, unless it expires before.",
    )


class ApiKey(Contract):
    """A key, without the secret part."""

    id: str = Field(examples=["key_3f8k2m9q7w1x"])
    tenant: str
    scopes: tuple[Scope, ...]
    name: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None = Field(description="To within a minute.")
    replaced_by: str | None = Field(description="The key that a rotation made of it.")
    outdated: bool = Field(
        description="Whether it was made under a secret key of the server that is gone: it does not"
        " work, and a new one has to be created."
    )


class IssuedKey(ApiKey):
    """A new key. `key` is shown in this response only."""

    key: str = Field(examples=["hone_3f8k2m9q7w1x_..."], repr=False)


class KeyList(ListPage):
    """One page of the keys that an administrator manages, the newest first."""

    data: tuple[ApiKey, ...]


LONGEST_TOKEN_S = 3_600


class TokenRequest(Contract):
    """A read token to create."""

    expires_in_s: int = Field(
        600, ge=1, le=LONGEST_TOKEN_S, description="Seconds for which it works."
    )


class IssuedToken(Contract):
    """A token that reads one refinement."""

    token: str = Field(description="For the query parameter `token`.", repr=False)
    refinement_id: str
    expires_at: datetime


ModelPattern = Annotated[str, Field(pattern=patterns.MODEL.regex, max_length=200)]


class Quotas(Contract):
    """The most that a tenant may use; null is without a limit, but for `watchers`."""

    requests_per_minute: int | None = Field(None, ge=1, description="Requests in a minute of UTC.")
    watchers: int | None = Field(
        None,
        ge=1,
        description="Event streams that are open at a time; if null, 1,000 for each API process.",
    )
    queued: int | None = Field(None, ge=1, description="Refinements in the status `queued`.")
    in_flight: int | None = Field(
        None, ge=1, description="Refinements in the status `queued`, `running` or `canceling`."
    )
    bytes_stored: int | None = Field(
        None,
        ge=1,
        description="Bytes of memory that its refinements take, as they were when each was created"
        " and when it ended.",
    )
    tokens_per_day: int | None = Field(
        None, ge=1, description="Input and output tokens of all model calls in a day of UTC."
    )
    cost_usd_per_day: float | None = Field(
        None, gt=0, description="Dollars in a day of UTC, for the calls whose cost is known."
    )
    models: tuple[ModelPattern, ...] | None = Field(
        None,
        max_length=100,
        description="Models that requests may use: `provider:name`, or `provider:*` for all of a"
        " provider.",
    )

    def allows(self, model: str) -> bool:
        """Return whether requests may use a model."""
        provider = model.partition(":")[0]
        return self.models is None or model in self.models or f"{provider}:*" in self.models


class ProviderKeyRequest(Contract):
    """A key of the tenant's own for a provider of models."""

    api_key: HeaderValue = Field(description="It is stored encrypted, and shown nowhere.")


class ProviderKey(Contract):
    """A key of the tenant's own for a provider; no response shows the key itself."""

    provider: str
    set_at: datetime


class ProviderKeyList(Contract):
    """The keys of a tenant for providers of models, by provider."""

    data: tuple[ProviderKey, ...]


class TenantUse(Contract):
    """The consumption of a tenant now."""

    requests: int = Field(ge=0, description="Requests in this minute; 0 if they are not limited.")
    watchers: int = Field(ge=0, description="Open event streams; 0 without the quota.")
    queued: int = Field(ge=0)
    in_flight: int = Field(ge=0)
    bytes_stored: int = Field(ge=0)
    tokens_today: int = Field(ge=0, description="Tokens since the day of UTC began.")
    cost_usd_today: float = Field(ge=0, description="Dollars of calls whose cost is known.")


class TenantOverview(Contract):
    """The quotas of a tenant, and its consumption now."""

    name: str
    quotas: Quotas
    use: TenantUse


class TenantList(ListPage):
    """One page of tenants, by name."""

    data: tuple[TenantOverview, ...]


class AuditEntry(Contract):
    """One action, and who did it. It holds no text of a refinement."""

    at: datetime
    by: str = Field(description="Id of the API key, or `command line` for the operator's commands.")
    action: str = Field(
        description="The operation, as in this document, such as `eraseRefinement`; `signIn` and"
        " `signOut` of the console; the command; or `refused`."
    )
    about: str = Field(
        description="Id of the refinement or key, or name of the tenant; or empty. Of `refused`:"
        " the HTTP statuses."
    )
    count: int = Field(
        1, ge=1, description="Refused requests of a key in a minute; of all other actions 1."
    )


class AuditPage(ListPage):
    """One page of the audit log of a tenant, newest first."""

    data: tuple[AuditEntry, ...]
