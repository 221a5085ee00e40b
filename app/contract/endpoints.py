"""Endpoints of the caller that a server may be asked to call."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

MAX_LABEL = 63
"""Characters between two dots of a host name (RFC 1035, section 2.3.4)."""


def _with_an_address(url: str) -> str:
    """Refuse what nobody could connect to: resolvers raise on it whatever they please."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"the URL has no host and port that can be read: {error}") from None
    if not host or port == 0:
        raise ValueError("the URL names no host, or port 0")
    if not all(0 < len(label) <= MAX_LABEL for label in host.removesuffix(".").split(".")):
        raise ValueError(f"every part of the host's name has 1 to {MAX_LABEL} characters")
    return url


Url = Annotated[
    str,
    Field(pattern=r"^https?://[^\s/?#@\\]+([/?#]\S*)?$", max_length=2_000),
    AfterValidator(_with_an_address),
]
"""Without user and password, which a log might show."""

TimeoutS = Annotated[float, Field(gt=0, le=60, description="Seconds, all tries together.")]
