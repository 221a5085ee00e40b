"""The prompts of a refinement: each is kept once, in parts that prompts share, compressed.

A hash holds `prompt:SHA256` -> its parts, and the id of a part -> its text. Texts of a client stand
between tags on lines of their own, so a part is the text between two tags: a document or a draft is
stored once however many prompts have it, and what stands in the request or in a recorded reply is
not stored again. Everything is named by what it is, so that writing it again changes nothing.
"""

import re
import zlib
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import chain
from types import MappingProxyType
from typing import Any

from pydantic_core import from_json, to_json

from app.contract.drafts import draft_of
from app.contract.requests import RefinementRequest
from app.contract.values import value

TAG = re.compile(r"(\n?^</?data-[0-9a-f]{64}>$\n?)", re.MULTILINE)
"""The tags around texts in prompts without a nonce."""

MASK = "*" * 6
PROMPT = b"prompt:"
SHORT = 80
"""Characters up to which a text is cheaper among the parts of its prompt than as one of them."""

ID_BYTES = 9
LEVEL = 6


@value(slots=True)
class KeptPrompt:
    """What a model was sent; `schema` is the JSON Schema of the reply, if it had to have one."""

    system: str
    user: str
    schema: Mapping[str, Any] | None = None


def known_texts(request: RefinementRequest) -> tuple[str, ...]:
    """Return the texts of a request, which prompts repeat: they are stored with it already."""
    return (
        request.task or "",
        request.draft or "",
        *(document.text for document in request.context),
    )


class PromptKeeper:
    """Encodes the prompts of one refinement; what has been kept is not encoded again.

    The nonce of their tags is masked: what knows it can forge a tag.
    """

    def __init__(self, nonce: str | None = None, known: Sequence[str] = ()) -> None:
        self._nonce = nonce
        self._known = [(f"@{place}", text) for place, text in enumerate(known) if len(text) > SHORT]
        self._kept: set[bytes] = set()
        self._listed: dict[str, list[str]] = {}
        self._named: dict[str, str] = {}
        self._pending: dict[bytes, tuple[str, bytes]] = {}

    def fields(self, sha256_: str, prompt: KeptPrompt, shared: int = 0) -> dict[bytes, bytes]:
        """Return the fields for a prompt whose text has this SHA-256, but those that are kept.

        The first `shared` characters of its user message are those of other prompts as well.
        """
        name = _name(sha256_)
        if name in self._kept:
            return {}
        schema = [] if prompt.schema is None else self._parts_again(to_json(prompt.schema).decode())
        system = self._parts_again(prompt.system)
        user = [*self._parts_again(prompt.user[:shared]), *self._parts(prompt.user[shared:])]
        fields = {name: _listing(to_json([system, user, schema]))}
        for field, (part, content) in self._pending.items():
            if part in system or part in user or part in schema:
                fields[field] = content
        return fields

    def kept(self, fields: Iterable[bytes]) -> None:
        """Note that fields have been written."""
        self._kept.update(fields)
        for field in fields:
            self._pending.pop(field, None)

    def replied(self, reply: str) -> None:
        """Note that a reply is written with or before what is kept next: its draft is not kept."""
        draft = draft_of(reply)
        if len(draft) > SHORT:
            self._named.setdefault(draft, f"&{_id_of(draft)}")

    def _parts_again(self, passage: str) -> list[str]:
        """Return the parts of a passage that other prompts have as well."""
        if passage not in self._listed:
            self._listed[passage] = self._parts(passage)
        return self._listed[passage]

    def _parts(self, passage: str) -> list[str]:
        """Return the parts of a passage; short texts and tags between two others are one."""
        parts: list[str] = []
        short = ""
        for text, tag in self._split(passage):
            if len(text) <= SHORT:
                short += text + tag
                continue
            if short:
                parts.append(f"={short}")
            parts += (self._named[text],) if text in self._named else self._encoded(text)
            short = tag
        if short:
            parts.append(f"={short}")
        return parts

    def _split(self, passage: str) -> list[tuple[str, str]]:
        """Return the texts of a passage, each with the tag after it."""
        if self._nonce is None:
            pieces = TAG.split(passage)
            return list(zip(pieces[::2], [*pieces[1::2], ""], strict=True))
        text, *rest = passage.split(self._nonce)
        split: list[tuple[str, str]] = []
        for piece in rest:
            at, end = text.rfind("<", -LONGEST_TAG - 1), END_OF_TAG.match(piece)
            if at < 0 or end is None or ">" in text[at:] or "\n" in text[at:]:
                text = f"{text}{self._nonce}{piece}"
                continue
            if text[at - 1 : at] == "\n":
                at -= 1
            split += [(text[:at], f"{text[at:]}{MASK}{end[0]}")]
            text = piece[end.end() :]
        return [*split, (text, "")]

    def _encoded(self, text: str) -> list[str]:
        """Return the parts of a text that has not been kept."""
        for place, passage in self._known:
            if passage in text:
                head, _, rest = text.partition(passage)
                return [*self._parts(head), place, *self._parts(rest)]
        part, field, content = _part_of(text) if len(text) <= SMALL else _new_part_of(text)
        self._named[text] = part
        self._pending[field] = part, content
        return [part]


END_OF_TAG = re.compile(r"[^<>\n]{0,20}>\n?")
LONGEST_TAG = 60
"""Characters between the bracket that opens a tag and its nonce."""

SMALL_LISTING = 512
"""Bytes of a list of parts up to which compression saves next to nothing."""

SMALL = 4_096
"""Bytes up to which a window of that size serves; it takes a tenth of the time to set up."""


def _new_part_of(text: str) -> tuple[str, bytes, bytes]:
    """Return a part, and the field that it is kept in with its content."""
    id_ = _id_of(text)
    return f"#{id_}", id_.encode(), _compressed(text.encode())


_part_of = lru_cache(maxsize=512)(_new_part_of)
"""The same for instructions and schemas, which many refinements have in common."""


def plain_fields(stored: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return what a refinement's hash of prompts holds, decompressed. Raises zlib.error."""
    return {name: _plain(content) for name, content in stored.items()}


def compressed_fields(plain: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return what such a hash holds, from the same decompressed."""
    return {
        name: _listing(content) if name.startswith(PROMPT) else _compressed(content)
        for name, content in plain.items()
    }


def _listing(plain: bytes) -> bytes:
    return plain if len(plain) <= SMALL_LISTING else _compressed(plain)


def _plain(stored: bytes) -> bytes:
    """Return a list of parts, or a part: a compressed one does not begin with a bracket."""
    return stored if stored.startswith(b"[") else zlib.decompress(stored)


def _compressed(content: bytes) -> bytes:
    window, memory = (12, 5) if len(content) <= SMALL else (zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL)
    compressor = zlib.compressobj(LEVEL, zlib.DEFLATED, window, memory)
    return compressor.compress(content) + compressor.flush()


def _id_of(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()[:ID_BYTES]).decode()


def _id_in(part: str) -> bytes:
    return part[1:].encode()


def _name(sha256_: str) -> bytes:
    return PROMPT + sha256_.encode()


def names_of(prompts: Sequence[str]) -> list[bytes]:
    """Return the fields in which the parts of these prompts are listed."""
    return [_name(prompt) for prompt in prompts]


def parts_of(listed: bytes) -> list[list[str]]:
    """Return the parts of a prompt.

    Each is a text after `=`, the id of one in a field of its own after `#`, or of the draft in a
    recorded reply after `&`, or after `@` its place among the known texts.
    """
    parts: list[list[str]] = from_json(_plain(listed))
    return parts


def ids_in(parts: Sequence[Sequence[str]]) -> list[bytes]:
    """Return the ids of the parts that stand in fields of their own."""
    return [_id_in(part) for part in chain.from_iterable(parts) if part.startswith("#")]


def drafts_in(replies: Iterable[str]) -> dict[str, str]:
    """Return the drafts of recorded replies by the parts that stand for them."""
    return {f"&{_id_of(draft)}": draft for draft in map(draft_of, replies) if len(draft) > SHORT}


def decode_prompt(
    parts: Sequence[Sequence[str]],
    texts: Mapping[bytes, bytes | None],
    known: Sequence[str] = (),
    drafts: Mapping[str, str] = MappingProxyType({}),
) -> KeptPrompt | None:
    """Return a prompt from its parts, or None if one of the `texts` or `drafts` is missing."""

    def text(part: str) -> str | None:
        match part[:1]:
            case "=":
                return part[1:]
            case "@":
                return known[int(part[1:])]
            case "&":
                return drafts.get(part)
        kept = texts.get(_id_in(part))
        return None if kept is None else zlib.decompress(kept).decode()

    messages: list[str] = []
    for message in parts:
        found = [text(part) for part in message]
        if None in found:
            return None
        messages.append("".join(content for content in found if content is not None))
    system, user, schema = messages
    return KeptPrompt(system, user, from_json(schema) if schema else None)
