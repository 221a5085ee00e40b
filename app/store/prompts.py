"""The prompts of a refinement: each is kept once, in parts that prompts share, compressed.

A hash holds `prompt:SHA256` -> its parts, and the id of a part -> its text. Texts of a client stand
between tags on lines of their own, so a part is the text between two tags: a document or a draft is
stored once however many prompts have it, and what stands in the request is not stored again.
Everything is named by what it is, so that writing it again changes nothing.
"""

import re
import zlib
from base64 import b64encode
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from typing import Any

from pydantic_core import from_json, to_json

from app.contract.requests import RefinementRequest

TAG = re.compile(r"(\n?^</?(?:data-[0-9a-f]{64}|[^<>\n]{1,60} \*{6})>$\n?)", re.MULTILINE)
"""The tags around texts: with a SHA-256, or with a nonce that is masked."""

MASK = "*" * 6
SHORT = 80
"""Characters up to which a text is cheaper among the parts of its prompt than as one of them."""

ID_BYTES = 9
LEVEL = 6


@dataclass(frozen=True, slots=True)
class KeptPrompt:
    """What a model was sent; `schema` is the JSON Schema of the reply, if it had to have one."""

    system: str
    user: str
    schema: Mapping[str, Any] | None = None

    def masked(self, nonce: str | None) -> "KeptPrompt":
        """Return it with the nonce of its tags masked: what knows it can forge a tag."""
        if nonce is None:
            return self
        tag = re.compile(rf"(<[^<>\n]{{0,60}}){re.escape(nonce)}([^<>\n]{{0,20}}>)")
        system, user = (tag.sub(rf"\g<1>{MASK}\2", text) for text in (self.system, self.user))
        return KeptPrompt(system, user, self.schema)


def known_texts(request: RefinementRequest) -> tuple[str, ...]:
    """Return the texts of a request, which prompts repeat: they are stored with it already."""
    return (request.task or "", request.draft or "", *(it.text for it in request.context))


def encode_prompt(
    sha256_: str, prompt: KeptPrompt, known: Sequence[str] = (), before: Container[bytes] = ()
) -> dict[bytes, bytes]:
    """Return the fields for a prompt whose text has this SHA-256, but those kept `before`."""
    if _name(sha256_) in before:
        return {}
    parts: dict[bytes, bytes] = {}

    def kept(text: str) -> Iterator[str]:
        if len(text) <= SHORT:
            yield f"={text}"
            return
        for place, it in enumerate(known):
            if len(it) > SHORT and it in text:
                head, _, rest = text.partition(it)
                yield from (*kept(head), f"@{place}", *kept(rest))
                return
        name = b64encode(sha256(text.encode()).digest()[:ID_BYTES])
        if name not in before:
            parts[name] = zlib.compress(text.encode(), LEVEL)
        yield f"#{name.decode()}"

    schema = "" if prompt.schema is None else to_json(prompt.schema).decode()
    texts = (TAG.split(prompt.system), TAG.split(prompt.user), [schema])
    listed = [[it for text in split for it in kept(text)] for split in texts]
    return {_name(sha256_): zlib.compress(to_json(listed), LEVEL)} | parts


def _name(sha256_: str) -> bytes:
    return f"prompt:{sha256_}".encode()


def names_of(prompts: Sequence[str]) -> list[bytes]:
    """Return the fields in which the parts of these prompts are listed."""
    return [_name(it) for it in prompts]


def parts_of(listed: bytes) -> list[list[str]]:
    """Return the parts of a prompt.

    Each is a text after `=`, its id after `#`, or after `@` its place among the known texts.
    """
    parts: list[list[str]] = from_json(zlib.decompress(listed))
    return parts


def ids_in(parts: Sequence[Sequence[str]]) -> list[bytes]:
    """Return the ids of the parts that stand in fields of their own."""
    return [it[1:].encode() for it in chain.from_iterable(parts) if it.startswith("#")]


def decode_prompt(
    parts: Sequence[Sequence[str]], texts: Mapping[bytes, bytes | None], known: Sequence[str] = ()
) -> KeptPrompt | None:
    """Return a prompt from its parts, or None if one of the `texts` is missing."""
    if any(texts.get(it) is None for it in ids_in(parts)):
        return None

    def text(part: str) -> str:
        if part.startswith("@"):
            return known[int(part[1:])]
        if part.startswith("="):
            return part[1:]
        return zlib.decompress(texts[part[1:].encode()] or b"").decode()

    system, user, schema = ("".join(map(text, it)) for it in parts)
    return KeptPrompt(system, user, from_json(schema) if schema else None)
