"""The caller's endpoints that a server can call."""

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
    Field(pattern=r"^https?://[^\s/?#@\\]+([/?#]\S*)?$", max_length=2_000),
    AfterValidator(_with_an_address),
]
"""An HTTP URL without user and password, which a log might show."""

TimeoutS = Annotated[float, Field(gt=0, le=60, description="Timeout in seconds, retries included.")]


MAX_RESULT = 20_000
"""Characters of a tool's answer that a plan observes."""

MAX_PARAMETERS = 20_000
"""Characters of the JSON Schema of the arguments: every revision of a plan reads it."""


def _is_short_enough(parameters: dict[str, Any]) -> dict[str, Any]:
    if len(json.dumps(parameters)) > MAX_PARAMETERS:
        raise ValueError(f"the schema must have at most {MAX_PARAMETERS} characters")
    return parameters


class Tool(Contract):
    """An endpoint of the caller that does one thing; only `plan_execute` calls it.

    It receives `{"tool": "<name>", "arguments": {...}}` by POST, signed according to Standard
    Webhooks with HONE_SECRET_KEY, with an `Idempotency-Key` made of refinement and step, and must
    answer 2xx with text (JSON or any other, UTF-8), of which the plan observes the first 20,000
    characters. Any other answer is a failed step of the plan, which is then revised. Only public
    addresses are called, and redirects are not followed.
    """

    name: PartName
    description: str = Field(
        min_length=1, max_length=2_000, description="What it does and when to use it."
    )
    url: Url
    parameters: Annotated[dict[str, Any], AfterValidator(_is_short_enough)] = Field(
        description="JSON Schema of the arguments, an object; invalid arguments are never sent."
    )
    timeout_s: TimeoutS = 10
