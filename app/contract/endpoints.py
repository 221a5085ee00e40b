"""Endpoints of the caller that a server may be asked to call."""

import re
from ipaddress import IPv6Address
from typing import Annotated

from pydantic import AfterValidator, Field

MAX_LABEL = 63
"""Characters between two dots of a host name (RFC 1035, section 2.3.4)."""

AUTHORITY = re.compile(
    r"https?://(?:\[(?P<v6>[^\s\]]*)\]|(?P<name>[^\s/?#@\\:\[\]]+))(?::(?P<port>[0-9]{0,5}))?(?:[/?#]|\Z)"
)


def _with_an_address(url: str) -> str:
    """Refuse what nobody could connect to: resolvers raise on it whatever they please."""
    found = AUTHORITY.match(url)
    if found is None:
        raise ValueError("the URL has no host and port that can be read")
    if found["port"] and not 0 < int(found["port"]) < 65_536:
        raise ValueError("the port of the URL is none between 1 and 65535")
    if found["v6"] is not None:
        IPv6Address(found["v6"])
        return url
    if not all(0 < len(label) <= MAX_LABEL for label in found["name"].removesuffix(".").split(".")):
        raise ValueError(f"every part of the host's name has 1 to {MAX_LABEL} characters")
    return url


Url = Annotated[
    str,
    Field(pattern=r"^https?://[^\s/?#@\\]+([/?#]\S*)?$", max_length=2_000),
    AfterValidator(_with_an_address),
]
"""Without user and password, which a log might show."""

TimeoutS = Annotated[float, Field(gt=0, le=60, description="Seconds, all tries together.")]
