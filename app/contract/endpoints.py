"""Clients' endpoints, and which addresses a server may call beside public ones."""

import base64
import binascii
import re
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    Field,
    PlainSerializer,
    SecretStr,
    SerializationInfo,
    WithJsonSchema,
)

from app.contract import Contract, patterns
from app.contract.values import value

MAX_LABEL = 63
"""Characters between two dots of a host name (RFC 1035, section 2.3.4)."""

AUTHORITY = re.compile(
    r"https?://(?:\[(?P<v6>[^\s\]]*)\]|(?P<name>[^\s/?#@\\:\[\]]+))(?::(?P<port>[0-9]{0,5}))?(?:[/?#]|\Z)"
)


def _with_an_address(url: str) -> str:
    """Reject a URL without a valid host and port: resolvers raise arbitrary errors for it."""
    found = AUTHORITY.match(url)
    if found is None:
        raise ValueError("the URL must have a valid host and port")
    if found["port"] and not 0 < int(found["port"]) < 65_536:
        raise ValueError("the port of the URL must be between 1 and 65535")
    if found["v6"] is not None:
        IPv6Address(found["v6"])
        return url
    if not all(0 < len(label) <= MAX_LABEL for label in found["name"].removesuffix(".").split(".")):
        raise ValueError(f"every label of the host name must have 1 to {MAX_LABEL} characters")
    return url


Url = Annotated[
    str,
    Field(pattern=patterns.URL.regex, max_length=2_000),
    AfterValidator(_with_an_address),
]
"""An HTTP URL without user and password, which a log might show."""

TimeoutS = Annotated[float, Field(gt=0, le=60, description="Timeout in seconds, retries included.")]

MASK = "**********"
REVEALED = {"reveal": True}
"""Context with which `model_dump_json` writes secrets as they are, and no mask instead."""


def _masked(secret: SecretStr, info: SerializationInfo) -> str:
    return secret.get_secret_value() if info.context == REVEALED else MASK


def _no_mask(secret: SecretStr) -> SecretStr:
    if secret.get_secret_value() == MASK:
        raise ValueError("this is the mask of a secret: send the secret itself")
    return secret


def _is_field_value(value: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[!-~]([ -~]{0,3998}[!-~])?", value.get_secret_value()):
        raise ValueError("a header needs 1 to 4000 printable ASCII characters, no space around")
    return value


def _signs(secret: SecretStr) -> SecretStr:
    try:
        key = signing_key(secret.get_secret_value())
    except binascii.Error:
        key = b""
    if not secret.get_secret_value().startswith(PREFIX) or not 24 <= len(key) <= 64:
        raise ValueError("a signing secret is whsec_ and the base64 of 24 to 64 bytes")
    return secret


PREFIX = "whsec_"
OWN_FIELDS = re.compile(
    r"accept-encoding|connection|content-.*|expect|host|idempotency-key|keep-alive|proxy-.*|te"
    r"|trailer|transfer-encoding|upgrade|webhook-.*",
    re.IGNORECASE,
)


def _is_free(name: str) -> str:
    if OWN_FIELDS.fullmatch(name):
        raise ValueError(f"{name} is one that Hone sets itself")
    return name


def _differ(headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
    if len({name.lower() for name in headers}) < len(headers):
        raise ValueError("two headers have the same name")
    return headers


# Not "writeOnly", as pydantic says: responses have the mask.
Secret = Annotated[
    SecretStr,
    AfterValidator(_no_mask),
    PlainSerializer(_masked, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "password"}, mode="validation"),
]
HeaderName = Annotated[str, Field(pattern=patterns.HEADER_NAME.regex), AfterValidator(_is_free)]
HeaderValue = Annotated[Secret, AfterValidator(_is_field_value)]
SigningSecret = Annotated[Secret, AfterValidator(_signs)]


def signing_key(secret: str) -> bytes:
    """Return the bytes of a signing secret of Standard Webhooks: base64 after `whsec_`.

    Raises binascii.Error if that is no base64.
    """
    return base64.b64decode(secret.removeprefix(PREFIX), validate=True)


class Endpoint(Contract):
    """An endpoint of the client; what is secret is stored encrypted, and shown nowhere."""

    is_cut: ClassVar[bool] = False
    """Whether the beginning of an answer that is too long is used."""

    url: Url
    headers: Annotated[dict[HeaderName, HeaderValue], AfterValidator(_differ)] = Field(
        {},
        max_length=16,
        description="Further header fields of every call, such as `Authorization`. Their values"
        " are secret.",
    )
    secret: SigningSecret | None = Field(
        None,
        description="Signs the calls: `whsec_` and the base64 of 24 to 64 bytes. By default the"
        " secret of the server for it.",
    )
    timeout_s: TimeoutS = 10

    @property
    def tries(self) -> int:
        """How often one call is sent at most, with the same key."""
        return 3

    def secrets(self) -> dict[str, str]:
        """Return what is secret in it, by JSON Pointer."""
        found = {f"/headers/{name}": value for name, value in self.headers.items()}
        found |= {"/secret": self.secret} if self.secret else {}
        return {pointer: secret.get_secret_value() for pointer, secret in found.items()}


_Network = IPv4Network | IPv6Network
_ENTRY = re.compile(r"(?P<host>\[[^\]]+\]|[^\s:\[\]]+)(?::(?P<port>[0-9]{1,5}))?")
_NAME = re.compile(r"(\*\.)?([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?)(\.[a-z0-9_-]{1,63})*")


@value(slots=True)
class AllowedTargets:
    """Hosts and networks that may be called although they are not public, each with its port.

    A port of None stands for every port. A name allows whatever address it resolves to.
    """

    names: frozenset[tuple[str, int | None]] = frozenset()
    networks: tuple[tuple[_Network, int | None], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `hooks.internal:8080 *.corp.example 10.2.0.0/16 [fd00::/8]:443`.

        Entries are separated by spaces or commas. Raises ValueError.
        """
        names, networks = set[tuple[str, int | None]](), list[tuple[_Network, int | None]]()
        for entry in text.replace(",", " ").split():
            host, port = _split(entry)
            if (network := _network(host.strip("[]"))) is not None:
                networks.append((network, port))
            elif _NAME.fullmatch(host.lower().removesuffix(".")):
                names.add((host.lower().removesuffix("."), port))
            else:
                raise ValueError(f"{entry!r} is no host, address or network")
        return cls(frozenset(names), tuple(networks))

    def has_name(self, host: str, port: int) -> bool:
        """Return whether a host may be called by its name; `*.example.com` has all names below."""
        name = host.lower().removesuffix(".")
        labels = name.split(".")
        wild = {f"*.{'.'.join(labels[n:])}" for n in range(1, len(labels))}
        return any((host, to) in self.names for host in {name, *wild} for to in (port, None))

    def has_address(self, address: str, port: int) -> bool:
        """Return whether an address, given as text, belongs to one of the networks."""
        try:
            parsed: Any = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        return any(parsed in network and to in {port, None} for network, to in self.networks)


def _split(entry: str) -> tuple[str, int | None]:
    if _network(entry) is not None:  # an IPv6 address without brackets
        return entry, None
    found = _ENTRY.fullmatch(entry)
    if found is None or (found["port"] and not 0 < int(found["port"]) < 65_536):
        raise ValueError(f"{entry!r} is not of the form HOST, HOST:PORT, NETWORK or [NETWORK]:PORT")
    return found["host"], int(found["port"]) if found["port"] else None


def _network(text: str) -> _Network | None:
    try:
        return ip_network(text)
    except ValueError:
        return None
