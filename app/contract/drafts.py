"""A draft, its identity, and how it is read out of a model's reply."""

import hashlib
import re

MAX_TEXT = 200_000
"""Characters of a draft at most."""

FENCED = re.compile(r"\A\s*```[^\n`]*\n(?P<body>.*?)\n?```\s*\Z", re.DOTALL)


def sha256_of(text: str) -> str:
    """Return the SHA-256 (hex) of the UTF-8 bytes of `text`: the identity of a draft."""
    return hashlib.sha256(text.encode()).hexdigest()


def draft_of(reply: str) -> str:
    """Return the draft in a model's reply: without outer white space and one enclosing code fence.

    A reply with fences inside it, or with text around them, is left as it is.
    """
    fenced = FENCED.match(reply)
    if fenced and "```" not in fenced["body"]:
        return fenced["body"].strip("\n")
    return reply.strip()
