"""The prompts of a refinement: for each step that asked a model, the list of what its prompt has.

A hash holds such a list under the name of the step, and others under the hashes of what they hold:
system message, beginning and instructions of user messages, and schemas are those of many prompts.
The texts between two tags follow, on lines of their own. What is stored already stands in a list
as a reference: a text of the request, the draft in a recorded reply, a text in the list of another
step. Nothing refers to a list before that is written; writing one again changes nothing.
"""

import zlib
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from hashlib import sha256
from typing import Any

from pydantic_core import from_json, to_json

from app.contract.drafts import draft_of
from app.contract.requests import RefinementRequest
from app.contract.values import value

MASK = "*" * 6
SHORT = 80
"""Characters up to which a text takes less than a reference to it."""

ID_BYTES = 9
LEVEL = 6

Reference = int | str | list[str | int]
"""The place of a text of the request; the field of a list that is the text; or the step in whose
reply the draft is it, and with a number the step in whose list it stands there."""


@value(slots=True)
class KeptPrompt:
    """What a model was sent; `schema` is the JSON Schema of the reply, if it had to have one."""

    system: str
    user: str
    schema: Mapping[str, Any] | None = None


FIRST_IN_TAGS = 5
"""The place in the list of a step at which the first text between two tags may stand."""


def known_texts(request: RefinementRequest) -> tuple[str, ...]:
    """Return the texts of a request, which prompts repeat: they are stored with it already."""
    return (
        request.task or "",
        request.draft or "",
        *(document.text for document in request.context),
    )


def step_name(key: str, voided: int) -> str:
    """Return the name under which a step is kept of which so many replies were voided before."""
    return f"{key};retry={voided}" if voided else key


class PromptKeeper:
    """Encodes the prompts of one refinement; what has been kept is not encoded again.

    The nonce of their tags is masked: what knows it can forge a tag.
    """

    def __init__(self, nonce: str | None = None, known: Sequence[str] = ()) -> None:
        self._nonce = nonce
        places = {text: place for place, text in enumerate(known) if len(text) > SHORT}
        self._known = sorted(places.items(), key=lambda pair: -len(pair[0]))
        self._kept: dict[str, Reference | None] = {"": None, **places}
        self._pending: dict[str, dict[str, Reference]] = {}
        """The references to what is in a field, once that is written."""
        self._schema: tuple[Mapping[str, Any] | None, str] = (None, "")

    def fields(
        self, step: str, prompt: KeptPrompt, shared: int = 0, worded: int = 0
    ) -> dict[str, bytes]:
        """Return the fields for the prompt of a step, but those that are kept.

        The first `shared` characters of its user message are those of other prompts as well, and
        up to `worded` other refinements have the same.
        """
        if prompt.schema is not self._schema[0] and prompt.schema is not None:
            self._schema = prompt.schema, to_json(prompt.schema).decode()
        schema = "" if prompt.schema is None else self._schema[1]
        user, rest = prompt.user, prompt.user[worded:]
        fields: dict[str, bytes] = {}
        listed: list[Any] = [
            self._kept[text] if text in self._kept else self._added(text, fields)
            for text in (prompt.system, schema, user[:shared], user[shared:worded])
        ]
        listed += rest.split(self._nonce) if self._nonce else (rest,)
        found = self._pending[step] = {}
        for place in range(FIRST_IN_TAGS, len(listed), 2):
            text, label = _in_tags(listed[place])
            if text in self._kept:
                listed[place] = [self._kept[text], label]
            elif len(text) > SHORT:
                found[text] = [step, place]
        fields[step] = _stored(to_json(listed))
        return fields

    def kept(self, fields: Iterable[str]) -> None:
        """Note that fields have been written: later ones may refer to what they hold."""
        for field in fields:
            self._kept |= self._pending.pop(field)

    def replied(self, step: str, reply: str) -> None:
        """Note that the reply to a step is written with its prompt: its draft is not kept."""
        draft = draft_of(reply)
        if len(draft) > SHORT:
            self._pending[step][draft] = [step]

    def _added(self, text: str, fields: dict[str, bytes]) -> str:
        """Return a reference to a text that has not been kept, and add the field for it."""
        pieces: list[str | int] = [text.replace(self._nonce, MASK) if self._nonce else text]
        for passage, place in self._known:
            for at, piece in enumerate(pieces):
                if isinstance(piece, str) and passage in piece:
                    head, _, rest = piece.partition(passage)
                    pieces[at : at + 1] = head, place, rest
                    break
        field, fields[field] = _part(to_json(pieces))
        self._pending[field] = {text: field}
        return field


def _in_tags(piece: str) -> tuple[str, str]:
    """Return the text of what is between the nonces of two tags, and what names the second one."""
    text, _, label = piece.rpartition("\n</")
    return text[2:], label


@lru_cache(maxsize=512)
def _part(content: bytes) -> tuple[str, bytes]:
    """Return the field of a list and what it holds; many refinements have the same instructions."""
    return f"#{b64encode(sha256(content).digest()[:ID_BYTES]).decode()}", _stored(content)


SMALL_LIST = 512
"""Bytes of a list up to which compression saves next to nothing."""

SMALL = 4_096
"""Bytes up to which a window of that size serves; it takes a tenth of the time to set up."""


def plain_fields(stored: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return what a refinement's hash of prompts holds, decompressed. Raises zlib.error."""
    return {name: _plain(content) for name, content in stored.items()}


def compressed_fields(plain: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return what such a hash holds, from the same decompressed."""
    return {name: _stored(content) for name, content in plain.items()}


def _plain(stored: bytes) -> bytes:
    """Return a list: a compressed one does not begin with a bracket."""
    return stored if stored.startswith(b"[") else zlib.decompress(stored)


def _stored(plain: bytes) -> bytes:
    if len(plain) <= SMALL_LIST:
        return plain
    window, memory = (12, 5) if len(plain) <= SMALL else (zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL)
    compressor = zlib.compressobj(LEVEL, zlib.DEFLATED, window, memory)
    return compressor.compress(plain) + compressor.flush()


def decode_prompts(
    stored: Mapping[bytes, bytes],
    steps: Iterable[str],
    known: Sequence[str],
    replies: Mapping[str, str],
) -> dict[str, KeptPrompt]:
    """Return the prompts of steps by their names, but those that were not kept.

    `known` are the texts of the request, and `replies` those in the journal by names of steps.
    """

    @cache
    def listed(field: str) -> list[Any]:
        found: list[Any] = from_json(_plain(stored[field.encode()]))
        return found

    def text(reference: Reference | None) -> str:
        match reference:
            case int(place):
                return known[place]
            case str(field):
                parts = listed(field)
                return "".join([known[part] if isinstance(part, int) else part for part in parts])
            case [str(step)]:
                return draft_of(replies[step])
            case [str(step), int(place)]:
                return _in_tags(listed(step)[place])[0]
        return ""

    def prompt(step: str) -> KeptPrompt:
        system, schema, shared, worded, *pieces = listed(step)
        rest = MASK.join(
            piece if isinstance(piece, str) else f">\n{text(piece[0])}\n</{piece[1]}"
            for piece in pieces
        )
        form = from_json(text(schema)) if schema else None
        return KeptPrompt(text(system), f"{text(shared)}{text(worded)}{rest}", form)

    return {step: prompt(step) for step in steps if step.encode() in stored}
