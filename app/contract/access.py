"""API keys: who may do what, as the API shows it."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, Field, field_validator

from app.contract import Contract

TENANT_NAME = "^[a-z0-9][a-z0-9_-]{0,62}$"
"""No `:`, which separates the parts of a Redis key: no two tenants share a key."""

OPERATOR = "default"
"""The tenant of requests without a key. Its administrators manage the keys of every tenant."""

TenantName = Annotated[str, Field(pattern=TENANT_NAME, examples=["acme"])]


class Scope(StrEnum):
    """What a key allows."""

    SUBMIT = "submit"
    READ = "read"
    REVIEW = "review"
    ADMIN = "admin"


MEANINGS = {
    Scope.SUBMIT: "submit, change, finish, cancel, continue, retry and erase refinements",
    Scope.READ: "read refinements and everything about them",
    Scope.REVIEW: "decide reviews and rate drafts",
    Scope.ADMIN: "manage keys",
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
    expires_at: AwareDatetime | None = Field(None, description="When it stops working.")

    @field_validator("scopes")
    @classmethod
    def _are_named_once(cls, scopes: tuple[Scope, ...]) -> tuple[Scope, ...]:
        if len(set(scopes)) < len(scopes):
            raise ValueError("each scope must be named once")
        return scopes


class KeyRotation(Contract):
    """How a key is replaced by a new one."""

    overlap_s: int = Field(
        86_400,
        ge=0,
        le=30 * 86_400,
        description="Seconds for which the old key goes on working, unless it expires before.",
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


class IssuedKey(ApiKey):
    """A new key. `key` is shown in this response only."""

    key: str = Field(examples=["hone_3f8k2m9q7w1x_..."], repr=False)


class KeyList(Contract):
    """The keys that an administrator manages, the newest first."""

    data: tuple[ApiKey, ...]


class TokenRequest(Contract):
    """A read token to create."""

    expires_in_s: int = Field(600, ge=1, le=3_600, description="Seconds for which it works.")


class IssuedToken(Contract):
    """A token that reads one refinement."""

    token: str = Field(description="For the query parameter `token`.", repr=False)
    refinement_id: str
    expires_at: datetime
