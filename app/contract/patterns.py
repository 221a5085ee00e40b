"""The patterns that texts of clients and operators must match, each with what it demands in words.

Messages have the words: a regular expression tells few people what is allowed.
"""

from typing import NamedTuple


class Pattern(NamedTuple):
    """A regular expression, and the sentence about a text that does not match it."""

    regex: str
    words: str


_ULID = "[0-9A-HJKMNP-TV-Z]{26}"

PART_NAME = Pattern(
    r"^[a-z0-9][a-z0-9_-]*$",
    "may have small letters, digits, `_` and `-` only, and begins with a letter or a digit",
)
PRESET_NAME = Pattern(
    r"^[a-z0-9][a-z0-9._-]{0,63}$",
    "must be 1 to 64 small letters, digits, `.`, `_` and `-`, and begin with a letter or a digit",
)
TENANT_NAME = Pattern(
    r"^[a-z0-9][a-z0-9_-]{0,62}$",
    "must be 1 to 63 small letters, digits, `_` and `-`, and begin with a letter or a digit",
)
METADATA_KEY = Pattern(
    r"^[A-Za-z0-9_.-]+$", "may have ASCII letters, digits, `.`, `_` and `-` only"
)
HEADER_NAME = Pattern(
    r"^[A-Za-z0-9_-]{1,64}$", "must be 1 to 64 ASCII letters, digits, `_` and `-`"
)
MODEL = Pattern(
    r"^[a-z0-9_]+:.+$", "must be of the form `provider:name`, such as `openai:gpt-5-mini`"
)
REVIEWER_NAME = Pattern(
    r"^\S([^\x00-\x1f]*\S)?$", "must be one line that neither begins nor ends with a space"
)
RUFF_RULE = Pattern(
    r"^[A-Z]{1,4}[0-9]{0,4}$", "must be a rule of Ruff, or what rules begin with, such as `F`"
)
PYTHON_NAME = Pattern(r"^[A-Za-z_][A-Za-z0-9_]*$", "must be a name in Python, in ASCII letters")
HEADING = Pattern(r"^#{0,6}\s*[^#\s]", "must be a heading, such as `## Usage` or `Usage`")
URL = Pattern(
    r"^https?://[^\s/?#@\\]+([/?#]\S*)?$",
    "must be a URL with http:// or https:// and a host, without user, password and spaces",
)
BASE_URL = Pattern(r"^https?://[^\s/?#]", "must begin with http:// or https:// and have a host")
PROVIDER_NAME = Pattern(r"^[a-z0-9_]+$", "may have small letters, digits and `_` only")
PROVIDER_IN_PATH = Pattern("^[a-z0-9_]{1,64}$", "must be 1 to 64 small letters, digits and `_`")
QUEUE_NAME = Pattern(r"^[A-Za-z0-9_-]+$", "may have ASCII letters, digits, `_` and `-` only")
ROOT_PATH = Pattern(
    r"^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$",
    "must be a path such as `/hone`, without a `/` at its end",
)
REFINEMENT_ID = Pattern(f"^ref_{_ULID}$", "must be the id of a refinement")
BATCH_ID = Pattern(f"^batch_{_ULID}$", "must be the id of a batch")
PROPOSAL_ID = Pattern(f"^prop_{_ULID}$", "must be the id of a proposal")
WEBHOOK_ID = Pattern(f"^msg_{_ULID}_[0-9]{{1,18}}$", "must be the id of a webhook")
ENDPOINT_ID = Pattern("^ep_[0-9a-f]{24}$", "must be the id of a webhook endpoint")
KEY_ID = Pattern("^key_[0-9a-z]{12}$", "must be the id of an API key")
KEY_CURSOR = Pattern(
    "^[0-9]{1,15}-key_[0-9a-z]{12}$", "must be the `next_cursor` of the previous page"
)
AUDIT_CURSOR = Pattern(
    "^[0-9]{1,15}-[0-9]{1,15}$", "must be the `next_cursor` of the previous page"
)

IN_WORDS = {
    pattern.regex: pattern.words
    for pattern in tuple(globals().values())
    if isinstance(pattern, Pattern)
}
"""The words of every pattern, by its regular expression."""
