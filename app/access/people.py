"""People who sign in elsewhere: what is known of them, and what their groups allow."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from app.contract.access import Scope
from app.settings import Grant


class SignInFailed(Exception):
    """A person cannot sign in; the message says why, to that person. `status` is that of HTTP."""

    def __init__(self, said: str, status: int = 403) -> None:
        super().__init__(said)
        self.status = status


@dataclass(frozen=True, slots=True)
class Person:
    """What the provider says of a person; `subject` tells people of one issuer apart for good."""

    issuer: str
    subject: str
    name: str
    groups: frozenset[str]

    def key_id(self, tenant: str) -> str:
        """Return the id by which a tenant knows this person: that of a key that has no text."""
        identity = "\n".join((self.issuer, self.subject, tenant)).encode()
        return f"key_{_base36(int.from_bytes(sha256(identity).digest()))[-12:]}"

    def granted(self, grants: Sequence[Grant]) -> Grant:
        """Return the tenant of the first group that the person is in, and the scopes there.

        Raises SignInFailed if no group of the person has any.
        """
        own = [grant for grant in grants if grant.group in {"*", *self.groups}]
        if not own:
            raise SignInFailed(
                "You are in no group that may use this server. An administrator can add you to"
                " one, or name another group in HONE_OIDC_GROUPS."
            )
        first = own[0]
        scopes = {scope for grant in own if grant.tenant == first.tenant for scope in grant.scopes}
        if Scope.READ not in scopes:
            raise SignInFailed("Your groups allow no reading, which the console needs (`read`).")
        return Grant(first.group, first.tenant, tuple(sorted(scopes)))


def _base36(number: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = digits[digit] + text
    return text.rjust(12, "0")
