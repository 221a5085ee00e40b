"""Endpoints of the caller that a server may be asked to call."""

import json
import re
from ipaddress import IPv6Address
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from app.contract import Contract
from app.contract.drafts import PartName

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


MAX_RESULT = 20_000
"""Characters of a tool's answer that a plan observes."""

MAX_PARAMETERS = 20_000
"""Characters of JSON that describe the arguments: every revision of a plan reads them."""


def _is_short_enough(parameters: dict[str, Any]) -> dict[str, Any]:
    if len(json.dumps(parameters)) > MAX_PARAMETERS:
        raise ValueError(f"a schema of arguments has at most {MAX_PARAMETERS} characters")
    return parameters


class Tool(Contract):
    """An endpoint of the caller's that does one thing; only `plan_execute` calls it.

    It gets `{"tool": "<name>", "arguments": {...}}` by POST, signed as Standard Webhooks has it
    under HONE_SECRET_KEY, with an `Idempotency-Key` made of refinement and step, and answers 2xx
    with text (JSON or any other, UTF-8): its first 20,000 characters are what the plan observes.
    Any other answer is a failed step of the plan, which is then changed. Only public addresses are
    called, and redirects are not followed.
    """

    name: PartName
    description: str = Field(
        min_length=1, max_length=2_000, description="What it does and when to use it."
    )
    url: Url
    parameters: Annotated[dict[str, Any], AfterValidator(_is_short_enough)] = Field(
        description="JSON Schema of the arguments, an object; what breaks it is never sent."
    )
    timeout_s: TimeoutS = 10
