"""Models behind a wire format: requests without what the server rejects, responses, and usage.

From the pieces of a stream the body is built that the server would have sent whole, so a reply is
read in one place, however it came. Servers differ, and are read tolerantly: an event may be one
`data:` line without an empty line after it, line ends may be of any kind, comments and unknown
events are skipped, and a server that ignores `stream` and answers whole is understood. A stream
that ends before the model has finished is a failed call.

An error says whether the call can never work, or what it waits for. Providers differ in status,
`error.code`, `error.type` and words, so all four are read: first what is certain for this call
(content, length, model), then what concerns the key or the account, then the status alone. Sources:
the error pages of OpenAI, Anthropic, Azure, Gemini, Bedrock and OpenRouter, and the errors of vLLM,
llama.cpp, Ollama and LiteLLM.
"""

import asyncio
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache, partial
from hashlib import sha256
from math import inf
from time import perf_counter
from typing import Annotated, Any, Literal, Protocol, get_args

from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import core_schema, from_json, to_json

from app.contract.budget import tokens_in
from app.contract.judgement import Usage
from app.contract.models import EFFORTS, ReasoningEffort
from app.contract.plugins import playing_module
from app.contract.providers import TokenCount, capacity_of, price_of
from app.contract.values import value
from app.contract.waiting import WaitReason
from workers.engine.prompts import Prompt
from workers.engine.strict_schema import unbounded
from workers.models.port import (
    BrokenReply,
    ContentFiltered,
    EmptyReply,
    LimitOf,
    ModelCall,
    ModelError,
    ModelRefused,
    ModelReply,
    NotServed,
    PromptTooLong,
    ReplyCutOff,
    ReportedLimit,
    UnknownModel,
    UnreadableReply,
)
from workers.outbound.transport import (
    ErrorResponse,
    Request,
    RequestAttempts,
    RequestRefused,
    RequestUnanswered,
    StatusRejected,
    StreamFailed,
    Transport,
    TransportError,
    UntrustedServer,
    UnusableKey,
    UnusableResponse,
    retry_after_s,
)

STATUS_OF: Mapping[str, int] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "insufficient_quota": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""HTTP status by the type of an error; an error in a stream comes after status 200."""

FAILED = 500
"""The status of every other error: it may pass."""


class StreamParts(ABC):
    """Merges the events of one wire format into one response."""

    def __init__(self) -> None:
        self.is_complete = False
        """Whether the model has finished, so that a missing end of the stream does not matter."""
        self._texts: list[str] = []

    @abstractmethod
    def merge(self, event: Mapping[str, Any]) -> int:
        """Take one event, and return how many characters of text it has. Raises `StreamFailed`."""

    def add(self, text: str) -> None:
        """Take an event that differs from the last one in its text alone."""
        self._texts.append(text)

    def text(self) -> str:
        """Return the text so far, without thinking that the format keeps apart."""
        return "".join(self._texts)

    @abstractmethod
    def body(self) -> bytes:
        """Return the response as one body in the wire format."""


OTHER_TEXT = "another text"


@value(slots=True)
class _Pattern:
    """A line of a stream but for its text, a JSON string: what stands before it and after it.

    Most lines of a stream differ in nothing else, and it takes a third of the time to read them so.
    """

    before: bytes
    after: bytes

    @classmethod
    def of(
        cls, line: bytes, event: Mapping[str, Any], open_parts: Callable[[], StreamParts]
    ) -> "_Pattern | None":
        """Return the pattern of a stream line; None if it is unclear which string is its text.

        If another string replaces that one, the text of the line must be the other string exactly.
        """
        parts = open_parts()
        length = parts.merge(event)
        text = parts.text()
        if not text or length != len(text) or _has_half(line):
            return None
        before, said, after = line.partition(to_json(text))
        if not said or said in after:
            return None
        found = cls(before + b'"', b'"' + after)
        other = _parsed(line.partition(b":")[2].replace(said, to_json(OTHER_TEXT)))
        if not isinstance(other, dict):
            return None
        parts = open_parts()
        parts.merge(other)
        return found if parts.text() == OTHER_TEXT else None

    def texts_in(self, lines: Sequence[bytes]) -> list[str]:
        """Return the texts of the first events, each a line and an empty one; none if in doubt.

        No line has a line end, so that what stands between two texts is as it should be or makes
        the whole no JSON: then each line is read alone. So are texts that end with a backslash or
        have more quotes.
        """
        if not lines[0].startswith(self.before):
            return []
        end = self.after + b"\n"
        *said, last = b"\n".join(lines)[len(self.before) :].split(end + b"\n" + self.before)
        last, ended, rest = last.partition(end)
        if ended and rest[:1] in (b"", b"\n"):
            said.append(last)
        joined = b'["' + b'","'.join(said) + b'"]'
        if b'\\","' in joined:
            return []
        try:
            texts: list[str] = from_json(joined)
        except ValueError:
            return []
        return texts if len(texts) == len(said) else []

    def text_in(self, line: bytes) -> str | None:
        """Return the text of a line that differs in it alone; None for every other line."""
        if not (line.startswith(self.before) and line.endswith(self.after)):
            return None
        said = line[len(self.before) - 1 : len(line) - len(self.after) + 1]
        try:
            text = from_json(said) if len(said) > 1 else None
        except ValueError:
            return None
        return text if isinstance(text, str) else None


MOST_PATTERNS = 4
"""How many patterns are looked for in vain, and one more for every `MOST_PATTERNS` uses: the lines
of some servers differ in more than their text."""


class ResponseInParts:
    """Reads one response, streamed or whole; `held_bytes` is about what it keeps in memory."""

    def __init__(self, open_parts: Callable[[], StreamParts]) -> None:
        self.held_bytes = 0
        self.is_done = False
        self.has_events = False
        """Whether a part of the reply came, if only of the thinking before it."""
        self._open_parts = open_parts
        self._parts = open_parts()
        self._pattern: _Pattern | None = None
        self._patterns = self._uses = 0
        self._whole: list[bytes] | None = None
        self._unread: list[bytes] = []
        self._data: list[bytes] = []
        self._has_begun = False

    @property
    def is_stream(self) -> bool:
        """Whether it is an event stream, as far as it has come."""
        return self._has_begun and self._whole is None

    @property
    def is_complete(self) -> bool:
        """Whether the reply is there, although the stream may not have ended."""
        return self.is_stream and (self.is_done or self._parts.is_complete)

    def feed(self, piece: bytes) -> None:
        """Read the next piece. Raises `StreamFailed` and `UnusableResponse`."""
        if not self._has_begun:
            piece = piece.removeprefix(b"\xef\xbb\xbf").lstrip()
            if not piece:
                return
            self._has_begun = True
            self._whole = [] if piece[:1] == b"{" else None
        self.held_bytes += len(piece)
        if self._whole is not None:
            self._whole.append(piece)
            return
        lines = self._lines(piece)
        at, tried = 0, None
        while at < len(lines) and not self.is_done:
            if lines[at] and self._pattern is not None and self._pattern is not tried:
                tried = self._pattern
                at += self._take_texts(lines[at:])
            if at < len(lines):
                self._take_line(lines[at])
                at += 1

    def text(self) -> str:
        """Return the text so far, as far as it can be encoded; empty for a whole response."""
        return _encodable(self._parts.text(), "ignore")

    def body(self) -> bytes:
        """Return the whole response at its end. Raises `StreamFailed` if it was cut off."""
        if self._whole is not None:
            return well_formed(b"".join(self._whole))
        if self._unread and not self.is_done:
            self._take_line(b"".join(self._unread))
        self._take_lines_of_data()
        if not self.is_complete:
            raise StreamFailed("the stream ended before the reply did", FAILED)
        return well_formed(self._parts.body())

    def _lines(self, piece: bytes) -> list[bytes]:
        """Return the lines that end in this piece, without their ends."""
        if b"\n" not in piece and b"\r" not in piece:
            self._unread.append(piece)
            return []
        if self._unread:
            piece = b"".join([*self._unread, piece])
            self._unread.clear()
        if piece.endswith(b"\n"):
            return piece.splitlines()
        *lines, rest = piece.splitlines(keepends=True)  # a CR at its end may be half of a CRLF
        self._unread.append(rest)
        return [line.rstrip(b"\r\n") for line in lines]

    def _take_texts(self, lines: list[bytes]) -> int:
        """Take the events at the beginning that differ in their text alone; return their lines."""
        assert self._pattern
        texts = self._pattern.texts_in(lines)
        taken = lines[: 2 * len(texts)]
        if texts:
            text = "".join(texts)
            self._uses += len(texts)
            self.held_bytes += len(text) - sum(map(len, taken))
            self._parts.add(text)
        return len(taken)

    def _take_line(self, line: bytes) -> None:
        if not line:
            self._take_lines_of_data()
            return
        self.held_bytes -= len(line)
        if self._pattern and (text := self._pattern.text_in(line)) is not None:
            self._uses += 1
            self.held_bytes += len(text)
            self._parts.add(text)
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            self._pattern = None
            self._take_data(value.strip(), line)
        elif name == b"error":  # llama.cpp, before 2025
            self._parts.merge({"error": _parsed(value.strip()) or value.decode(errors="replace")})

    def _take_data(self, data: bytes, line: bytes) -> None:
        if data == b"[DONE]":
            self.is_done = True
        elif self._data or (event := _parsed(data)) is None:
            self._data.append(data)  # the rest stands in further lines
            self.held_bytes += len(data)
        elif isinstance(event, dict):
            self._merge(event)
            if self._patterns < MOST_PATTERNS + self._uses // MOST_PATTERNS:
                self._patterns += 1
                self._pattern = _Pattern.of(line, event, self._open_parts)

    def _take_lines_of_data(self) -> None:
        if not self._data:
            return
        event = _parsed(b"\n".join(self._data))
        self._data.clear()
        if not isinstance(event, dict):
            raise UnusableResponse("an event of the stream is not JSON")
        self._merge(event)

    def _merge(self, event: Mapping[str, Any]) -> None:
        self.held_bytes += self._parts.merge(event)
        self.has_events = True
        self.is_done = event.get("type") == "message_stop"  # Anthropic's [DONE]


def _parsed(data: bytes) -> Any:
    """Return what is JSON, None for the rest; a text may have half of a character beyond U+FFFF."""
    try:
        return from_json(data)
    except ValueError:
        return _leniently_parsed(data) if _has_half(data) else None


def _leniently_parsed(data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return None


HALF = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")
"""A surrogate, escaped or not: servers that count in UTF-16 cut texts between the two of a pair."""


def _has_half(data: bytes) -> bool:
    """Return whether there is a surrogate; most data needs no regular expression to know."""
    return (b"\\u" in data or b"\xed" in data) and HALF.search(data) is not None


def well_formed(body: bytes) -> bytes:
    """Return a body in which U+FFFD replaces each surrogate without the other one of its pair."""
    if not _has_half(body) or (said := _leniently_parsed(body)) is None:
        return body
    return _encodable(json.dumps(said, ensure_ascii=False), "replace").encode()


def _encodable(text: str, errors: Literal["ignore", "replace"]) -> str:
    """Return a text in which surrogates are joined in pairs; `errors` is what becomes of others."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", errors)
    return text


def failed(error: object) -> StreamFailed:
    """Return the failure that an error in a stream reports, in any common form."""
    if not isinstance(error, Mapping):
        return StreamFailed(str(error), FAILED)
    status = _number(error.get("code")) or _number(error.get("status"))
    if status is None:
        named = (STATUS_OF.get(str(error.get(name))) for name in ("type", "code"))
        status = next((known for known in named if known), FAILED)
    message = error.get("message")
    said = json.dumps({"error": dict(error)})
    return StreamFailed(message if isinstance(message, str) else said, status, said)


def _number(code: object) -> int | None:
    text = str(code)
    return int(text) if len(text) == 3 and text.isdecimal() and 400 <= int(text) < 600 else None


def content_text(content: object) -> str:
    """Return the text of a content: itself, or its parts of the type `text`."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [
        part for part in content if isinstance(part, dict) and part.get("type", "text") == "text"
    ]
    return "".join(part["text"] for part in parts if isinstance(part.get("text"), str))


CODE_FIELDS = ("code", "type", "status", "error_code", "reason", "__type")

FILTERED = frozenset(
    {
        *("content_filter", "content_policy_violation", "responsibleaipolicyviolation"),
        *("content_filtered", "contentfilterviolation", "data_inspection_failed"),
        *("sensitive_content", "prohibited_content", "moderation_blocked", "invalid_prompt"),
    }
)
FILTERED_WORDS = re.compile(
    r"content (management|filtering) policy|content[ _-]?policy|contentpolicyviolation"
    r"|blocked by (the |our )?content filter|safety (system|filter)|flagged (as|by|for) "
)
TOO_LONG = frozenset(
    {
        *("context_length_exceeded", "string_above_max_length", "request_too_large"),
        *("exceed_context_size_error", "context_window_exceeded", "input_too_long"),
        *("model_max_prompt_tokens_exceeded", "contextwindowexceedederror"),
    }
)
TOO_LONG_WORDS = re.compile(
    r"maximum context length|prompt is too long|exceeds? the available context size"
    r"|context (window|length|size)|input is too long|input length and `?max_tokens`? exceed"
    r"|maximum (prompt|input) (length|tokens)|input token count .* exceeds|longer than the (maximum"
    r"|model)|request too large for|too many input tokens|contextwindowexceeded"
)
NO_MODEL = frozenset(
    {
        *("model_not_found", "deploymentnotfound", "unknown_model", "invalid_model"),
        *("model_not_available", "unsupported_model", "model_not_supported"),
        *("modelnotfound", "model_deprecated", "model_decommissioned"),
    }
)
NO_MODEL_WORDS = re.compile(
    r"\bmodels?\b.{0,120}(not found|does not exist|not exist|is not available|decommissioned)"
    r"|(not found|no such|unknown|invalid|unsupported)[,: ]+(the )?model"
    r"|not a valid model|model identifier is invalid|(^|\s)model: \S+$|invalid model name"
    r"|do(es)? not have access to (the )?model"
)
QUOTA = frozenset(
    {
        *("insufficient_quota", "billing_hard_limit_reached", "billing_not_active"),
        *("billing_error", "enforced_spend_limit_reached", "insufficient_balance"),
        *(
            "insufficient_user_quota",
            "budget_exceeded",
            "insufficient_credits",
            "access_terminated",
        ),
    }
)
QUOTA_WORDS = re.compile(
    r"credit balance is too low|insufficient (balance|credit|fund|quota)|billing hard limit"
    r"|specified api usage limits|spend(ing)? limit|budget has been exceeded|exceededbudget"
    r"|check your billing|more credits|out of credits|payment required"
)
BAD_KEY = frozenset(
    {
        *("invalid_api_key", "authentication_error", "api_key_invalid", "unauthenticated"),
        *("invalid_authentication", "account_deactivated", "unrecognizedclientexception"),
        *("expiredtokenexception", "accessdeniedexception", "permission_denied", "invalid_issuer"),
    }
)
BAD_KEY_WORDS = re.compile(
    r"api[ _-]?key.{0,40}(not valid|invalid|expired|revoked)|invalid api key"
)
OVERLOADED = frozenset(
    {
        *("overloaded_error", "server_is_overloaded", "slow_down", "unavailable"),
        *("engine_overloaded", "model_overloaded", "serviceunavailableexception"),
    }
)
THROTTLED = frozenset(
    {"rate_limit_exceeded", "rate_limit_error", "resource_exhausted", "throttlingexception"}
)
BAD_GENERATION = frozenset({"json_validate_failed", "tool_use_failed", "output_parse_failed"})
"""Groq's codes, with status 400, for a reply of the model that is not in the form asked for."""
OF_CLIENT = frozenset({400, 403, 404, 413, 422})
BY_STATUS: Mapping[int, WaitReason] = {
    **dict.fromkeys((408, 409, 423, 424, 425, 499), "error"),
    429: "rate_limited",
    **dict.fromkeys((498, 503, 529), "overloaded"),
    **dict.fromkeys((302, 303, 307, 502, 504, 521, 522, 523, 524), "unreachable"),
}
"""The reason by status alone.

424 is Bedrock's for a model that failed, 498 Groq's for a lack of capacity, 499 Google's for a call
that was cancelled. A temporary redirect is a page to log in to a network, or of a server under
maintenance. Those above 520 are Cloudflare's, which does not reach the server.
"""

LONGEST_RETRY_AFTER_S = 3_600.0
"""No server is believed that asks for more: one wrong number would stop its model for years."""

MINUTES = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def failure_of(response: ErrorResponse, detail: str) -> ModelError | NotServed:
    """Return what an error response means; `detail` is what to say about it."""
    codes, words = _codes_and_words(response.said)
    if codes & BAD_GENERATION:
        return BrokenReply(detail)
    if final := _final(response.status, codes, words):
        return final(detail)
    reason = _wait_reason(response.status, codes, words)
    if reason is None:
        return ModelRefused(detail)
    if reason == "rate_limited" and response.fields.get("x-should-retry") == "false":
        reason = "quota_exhausted"
    asked_s = retry_after_s(response.fields)
    return NotServed(
        reason,
        detail,
        retry_after_s=None if asked_s is None else min(asked_s, LONGEST_RETRY_AFTER_S),
        limits=reported_limits(response.fields),
    )


def failure_in(body: bytes, request: Request) -> ModelError | NotServed | None:
    """Return the failure that a response with status 200 is, None if it may be a reply.

    OpenRouter and LiteLLM send the error of the server behind them in this way, beside or within
    the choices. A page is from a network that wants a login, or from a proxy.
    """
    if body.lstrip()[:1] == b"<":
        return NotServed(
            "unreachable", f"{request.host} answered with a page, which is no reply of a model"
        )
    try:
        said = from_json(body)
    except ValueError:
        return None
    error = _error_in(said)
    if not error:
        return None
    found = failed(error)
    detail = f"{request.host} failed while it answered: {request.shown(str(found))}"
    return failure_of(ErrorResponse(found.status, found.said, {}), detail)


def _error_in(said: object) -> object:
    if not isinstance(said, dict):
        return None
    choices = said.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return said.get("error") or (first.get("error") if isinstance(first, dict) else None)


def _final(status: int, codes: frozenset[str], words: str) -> type[ModelError] | None:
    """Return the error of a call that can never work, None if it may."""
    if status == 429:
        # A single request above the tokens of a minute is refused however long one waits.
        return PromptTooLong if "request too large for" in words else None
    if status not in OF_CLIENT and not (status == 500 and codes & TOO_LONG):
        return None
    if codes & FILTERED or FILTERED_WORDS.search(words):
        return ContentFiltered
    if status == 413 or codes & TOO_LONG or TOO_LONG_WORDS.search(words):
        return PromptTooLong
    if codes & NO_MODEL or (status != 403 and NO_MODEL_WORDS.search(words)):
        return UnknownModel
    return None


def _wait_reason(status: int, codes: frozenset[str], words: str) -> WaitReason | None:
    if status == 402 or codes & QUOTA:
        return "quota_exhausted"
    if QUOTA_WORDS.search(words) and (status != 429 or not codes & THROTTLED):
        return "quota_exhausted"
    names_the_key = codes & BAD_KEY or BAD_KEY_WORDS.search(words)
    if status in {401, 403, 407} or (status == 400 and names_the_key):
        return "unauthorized"
    if codes & THROTTLED and status in {400, 503}:
        return "rate_limited"
    if status >= 500 and codes & OVERLOADED:
        return "overloaded"
    return BY_STATUS.get(status, "error" if status >= 500 else None)


def _codes_and_words(said: str) -> tuple[frozenset[str], str]:
    """Return the codes of an error, and its words, in lower case."""
    try:
        body = json.loads(said)
    except (ValueError, RecursionError):
        return frozenset(), said[:4_000].lower()
    codes, words = set[str](), list[str]()
    for where in _objects(body, depth=4):
        for name in CODE_FIELDS:
            if isinstance(value := where.get(name), str):
                codes.add(value.lower().rpartition("#")[2])
        words += [text for name in ("message", "detail", "error") if (text := _text(where, name))]
    return frozenset(codes), " ".join(words)[:4_000].lower()


def _text(where: Mapping[str, Any], name: str) -> str:
    value = where.get(name)
    return value if isinstance(value, str) else ""


def _objects(body: object, depth: int) -> Iterator[dict[str, Any]]:
    """Yield the objects in an error, the outermost first."""
    if isinstance(body, dict):
        yield body
    parts = body.values() if isinstance(body, dict) else body if isinstance(body, list) else ()
    for part in parts if depth else ():
        yield from _objects(part, depth - 1)


LIMIT_FIELDS: tuple[tuple[LimitOf, str, str, str], ...] = tuple(
    (of, form.format("limit", name), form.format("remaining", name), form.format("reset", name))
    for of, name in ((limit_name, limit_name.replace("_", "-")) for limit_name in get_args(LimitOf))
    for form in ("x-ratelimit-{0}-{1}", "anthropic-ratelimit-{1}-{0}")
)
"""What is limited, and the header fields with the limit, what remains, and when it is reset."""


def reported_limits(fields: Mapping[str, str]) -> tuple[ReportedLimit, ...]:
    """Return the limits that the fields of a response report, in OpenAI's form or Anthropic's.

    What is missing or no number is left out. Anthropic's times are compared with the server's own
    `Date`.
    """
    if "ratelimit" not in " ".join(fields).lower():
        return ()
    found = []
    for of, of_limit, of_remaining, of_reset in LIMIT_FIELDS:
        if limit := fields.get(of_limit):
            remaining, reset = fields.get(of_remaining), fields.get(of_reset)
            if remaining and reset:
                found.append(_reported(of, limit, remaining, reset, fields.get("Date", "")))
    return tuple(report for report in found if report is not None)


def _reported(
    of: LimitOf, limit: str, remaining: str, reset: str, date: str
) -> ReportedLimit | None:
    try:
        most, left, reset_s = float(limit), float(remaining), _reset_s(reset, date)
    except (ValueError, TypeError, OverflowError):
        return None
    if not (0 < most < 1e12 and 0 <= left <= most and 0 <= reset_s < 40 * 86_400):
        return None
    return ReportedLimit(of, most, left, reset_s)


def _reset_s(reset: str, date: str) -> float:
    """Return the seconds of `6m0s`, `120ms`, `1.5`, or of a time in RFC 3339."""
    parts = MINUTES.findall(reset)
    if parts and "".join(number + unit for number, unit in parts) == reset:
        return sum(float(number) * SECONDS[unit] for number, unit in parts)
    if "T" not in reset:
        return float(reset)
    at = datetime.fromisoformat(reset)
    return max(0.0, (at - _server_time(date)).total_seconds())


def _server_time(date: str) -> datetime:
    try:
        return parsedate_to_datetime(date)
    except ValueError:
        return datetime.now(UTC)


NAMES_OF_JSON = (
    *("response_format", "json_schema", "json_object", "json mode", "json_mode"),
    *("output_config", "output_format", "schema", "structured", "grammar"),
)
"""Lower-case words in the errors of servers that do not support a way to request JSON."""


def names_json(said: str) -> bool:
    """Return whether an error is about the format of the reply."""
    return any(name in said.lower() for name in NAMES_OF_JSON)


def user_text(prompt: Prompt, *, in_words: bool) -> str:
    """Return the user message; with `in_words` the JSON Schema of the reply stands at its end.

    There it leaves the start alone, which all calls share, and its names, which clients choose, are
    not in the system message.
    """
    if not in_words or prompt.schema is None:
        return prompt.user
    schema = json.dumps(prompt.schema, ensure_ascii=False)
    return (
        f"{prompt.user}\n\nAnswer with one JSON object that satisfies this JSON Schema, "
        f"and with nothing else:\n{schema}"
    )


def counted(
    asked: int | None, said: int | None, *, cached: int = 0, written: int = 0, thinking: int = 0
) -> TokenCount | None:
    """Return the tokens of a call; None if the prompt's or the reply's tokens are not known.

    A server that counts 0 for a prompt does not count. `cached` and `written` (to the cache) are
    parts of `asked`, `thinking` is one of `said`.
    """
    if not asked or said is None:
        return None
    read = min(cached, asked)
    return TokenCount(asked, said, read, min(written, asked - read), min(thinking, said))


class NoneIfInvalid:
    """Marks a part of a reply that may be anything: None unless it is what is declared."""

    @staticmethod
    def __get_pydantic_core_schema__(
        source: object, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Let pydantic take None instead of an error."""
        declared = handler(source)
        return core_schema.with_default_schema(declared, default=None, on_error="default")


CUT_OFF = re.compile(r"length|max\w*tokens|maxoutput|tokenlimit|contextwindow|truncat")
WITHHELD = re.compile(
    r"filter|safety|sensitive|guardrail|refusal|recitation|block|prohibited|policy|spii|moderat|toxic"
)
"""What the names of endings have in common, their letters in lower case: providers invent some."""


def flaw_of(text: str, ending: str | None, good: Collection[str]) -> ModelError | None:
    """Return why a reply must not be used, or None.

    Only an ending in `good` is a good one; without any, its wire format says whether it is.
    """
    name = ending or ""
    if name not in good:
        name = re.sub(r"[\W\d_]+", "", name.lower()) or name.strip()
    if name in good:
        return None if text.strip() else EmptyReply("the reply is empty")
    if WITHHELD.search(name):
        return ContentFiltered("the model or its provider's content filter refused to answer")
    if CUT_OFF.search(name):
        return ReplyCutOff("the reply is cut off: its model needs more `max_output_tokens`", text)
    said = f"its server says {(ending or '')[:80]!r}" if ending else "its server does not say why"
    return BrokenReply(f"the reply ended before it was whole: {said}")


MOST_TOKENS = 100_000_000
"""Tokens of one call; a server that counts more is not believed."""

Count = Annotated[int | None, Field(strict=True, ge=0, le=MOST_TOKENS), NoneIfInvalid]
"""A number of tokens as a server gave it; None if it cannot be one."""

Unwanted = frozenset[str]
"""What a server has rejected for a model: names that only its wire format defines."""


BOUNDED = "bounds"
"""Bounds on numbers and lists in the schema of a document, which not every server accepts."""
NAMES_OF_BOUNDS = re.compile(r"minimum|maximum|exclusive|min_?items|max_?items|\bbounds?\b")


def format_schema(call: ModelCall, unwanted: Unwanted, *, takes_bounds: bool) -> Any:
    """Return the schema to send as the format of a reply; a document's may be without bounds."""
    schema = call.prompt.schema
    if schema is None or not call.prompt.is_document or (takes_bounds and BOUNDED not in unwanted):
        return schema
    return unbounded(schema)


def refused_bounds(said: str, call: ModelCall, unwanted: Unwanted) -> str | None:
    """Return `BOUNDED` if an error is about bounds in a schema that was sent with them."""
    sent = format_schema(call, unwanted, takes_bounds=True)
    if sent is None or not call.prompt.is_document or sent == unbounded(sent):
        return None
    return BOUNDED if NAMES_OF_BOUNDS.search(said.lower()) else None


NAMES_OF_EFFORT = ("reasoning_effort", "reasoning effort", "effort", "thinking", "reasoning")
"""Lower-case words in the errors of servers that do not support a way to make a model think."""


def effort_of(call: ModelCall, unwanted: Unwanted) -> ReasoningEffort | None:
    """Return the level that a call asks for, or the nearest that was not rejected, higher first."""
    asked = call.reasoning_effort
    if asked is None or EFFORT in unwanted:
        return None
    at = EFFORTS.index(asked)
    nearest = (*EFFORTS[at:], *reversed(EFFORTS[:at]))
    return next((effort for effort in nearest if f"{EFFORT}={effort}" not in unwanted), None)


def refused_effort(said: str, call: ModelCall, unwanted: Unwanted) -> str | None:
    """Return what an error rejects: the level that was sent, or levels altogether."""
    effort = effort_of(call, unwanted)
    if effort is None or not any(name in said.lower() for name in NAMES_OF_EFFORT):
        return None
    return f"{EFFORT}={effort}" if LEVEL.search(said.lower()) else EFFORT


EFFORT = "reasoning_effort"
LEVEL = re.compile(rf"""(?:['"`]|level |: )(?:{"|".join(EFFORTS)})\b""")
"""A level in an error: then not all of them are rejected."""

NAMES_OF_LIMIT = re.compile(r"max_(?:completion_|output_)?tokens|maxoutputtokens|maximum tokens")
CONTEXT = re.compile(
    r"(?:maximum context length (?:is|of)|context length is only|exceed context limit: \d+ \+ \d+ >"
    r"|`max_new_tokens` must be <=) (\d+)"
)
INPUT = re.compile(
    r"(\d+) (?:in the messages|in your prompt|of text input|tokens from the input|`inputs` tokens)"
    r"|(?:has|prompt contains) (\d+) input tokens|limit: (\d+) \+"
)
ASKED_FOR = re.compile(r"requested [1-9]\d* output tokens")
"""What vLLM says of a request that is too long: of its prompt it knows only a part then."""
BOUND = re.compile(r"(?<![\w-])(?<!\d\.)(\d+)(?![\w-]|\.\d)(?: \((exclusive)\))?")


def allowed_output(said: str, asked: int) -> int | None:
    """Return the most output tokens that a server allows, from its error; None if it says none.

    Either the model's maximum, or what the input leaves of the context window: half of what was
    asked for, if the input is not known, and one token less, if as many were asked for.
    """
    said = said.lower()
    window, given = CONTEXT.search(said), INPUT.search(said)
    if window and given:
        left = int(window[1]) - int(next(filter(None, given.groups())))
        return min(left, asked - 1) or None if 0 < left <= asked else None
    if window:
        is_halved = ASKED_FOR.search(said) and asked >= 2 * FEWEST_OUTPUT
        return asked // 2 if is_halved else None
    if not NAMES_OF_LIMIT.search(said):
        return None
    bounds = [int(bound[1]) - bool(bound[2]) for bound in BOUND.finditer(said)]
    return max((bound for bound in bounds if FEWEST_OUTPUT <= bound < asked), default=None)


FEWEST_OUTPUT = 512
"""Smaller numbers in an error, such as its status, are no maximum of output tokens."""


@value(slots=True)
class ChatReply:
    """The reply of a model; `tokens` is None when the server did not count them.

    `finish_reason` is why the model stopped, in the words of its server. A reply with a `flaw` must
    not be used, although it was paid for.
    """

    text: str
    model: str | None
    tokens: TokenCount | None
    flaw: ModelError | None = None
    finish_reason: str | None = None


class WireFormat(Protocol):
    """One wire format, for one server and key."""

    def request(self, call: ModelCall, unwanted: Unwanted) -> Request:
        """Return the request, without what the server has rejected for this model."""

    def refused(self, said: str, call: ModelCall, unwanted: Unwanted) -> str | None:
        """Return the part of the request that an error names, if the request works without it."""

    def read(self, body: bytes) -> ChatReply:
        """Parse a response. Raises `UnreadableReply` when it is not in this format."""

    def parts(self) -> StreamParts:
        """Return what merges the events of a streamed response into a body for `read`."""


AdapterFactory = Callable[[str, str], WireFormat]
"""Returns the adapter for a base URL and an API key, which is empty where none is needed."""


@cache
def adapter_of(wire: str | None) -> AdapterFactory:
    """Return the `ADAPTER` of the module that is named after the wire format; else ImportError."""
    if wire is None:
        raise ImportError("only models of Hone itself run in the worker: name a wire")
    adapter: AdapterFactory = playing_module("workers.models", "models", wire).ADAPTER
    return adapter


STREAM = "stream"
STREAM_OPTIONS = "stream_options"
NAMES_STREAM = re.compile(r"\bstream(ing|ed)?\b")
"""Matches the parameter or the word in an error, and no `upstream`."""

TOKENS_PER_S = 128_000 / 3_600
"""How fast a model writes at least, as Anthropic's clients assume before they insist on streams."""


def unwanted_stream(said: str, call: ModelCall, unwanted: Unwanted) -> str | None:
    """Return the part of streaming that an error names, if it was sent."""
    if not call.is_streamed or STREAM in unwanted:
        return None
    if STREAM_OPTIONS in said or "include_usage" in said:
        return None if STREAM_OPTIONS in unwanted else STREAM_OPTIONS
    return STREAM if NAMES_STREAM.search(said) else None


NAMES_A_PART = frozenset({400, 422})
"""Statuses with which servers reject a part of a request that they do not support."""

MOST_DOCUMENTS = 1_000
"""Models, and schemas of documents, for which it is remembered what a server rejects with them."""

MOST_UNREADABLE = 2
"""How often a call is made again whose reply was none of this wire format, empty, or broken."""


MOST_BROKEN = 2
"""How many streams of a model may break off, one after the other, before its replies come whole."""
UNSTREAMED_S = 60.0


class _Experience:
    """What a server has shown of one of its models."""

    unwanted: Unwanted = frozenset()
    most_output: int | None = None
    is_slow = False
    broken_streams = 0
    unstreamed_until = 0.0


NO_EXPERIENCE = _Experience()


READ_AGAIN_S = 10.0
"""How long a worker uses what it has read of the rejections of servers."""
MOST_OUTPUT = "most_output="


class SharedRejections(Protocol):
    """What all workers know that a server rejects, by model, or by model and schema."""

    async def read(self, name: str) -> frozenset[str] | None:
        """Return what was rejected; None while that is not known."""

    async def add(self, name: str, rejected: Collection[str]) -> None:
        """Remember what was rejected."""


class Remote:
    """Every model of one provider.

    What a server rejects (a format, a parameter) is left out of the next request and, once that
    has worked, of every later request for the same model, by other workers too if it is `shared`;
    likewise a limit of the output that it calls too high is lowered to what it allows. A format
    rejected with the schema of a document says nothing about other schemas, and is left out for
    that one alone. If the server does not count a reply's tokens they are estimated, and the cost
    is unknown. A reply is streamed if somebody watches, if it may take longer than a call may, or
    if one of the model's whole replies did. Streams that break off, one after the other, are not
    asked for again for a while, unless a whole reply timed out.
    """

    def __init__(
        self,
        provider: str,
        dialect: WireFormat,
        transport: Transport,
        shared: SharedRejections | None = None,
    ) -> None:
        self._provider = provider
        self._dialect = dialect
        self._transport = transport
        self._shared = shared
        self._read_at: dict[str, float] = {}
        self._reading: dict[str, asyncio.Task[None]] = {}
        self._experiences: dict[str, _Experience] = {}
        self._unwanted_with: dict[str, Unwanted] = {}

    async def complete(self, call: ModelCall) -> ModelReply:
        """Answer a call; the `usage` of the reply or error counts the requests made for it.

        Calls that the server refused do not count.
        """
        started = perf_counter()
        if self._shared is not None:
            await self._recall(call, started)
        known = self._experiences.get(call.model, NO_EXPERIENCE)
        if self._is_streamed(call, known):
            call = call.changed(is_streamed=True)
        step = self._transport.step(call.key)
        said: ChatReply | None = None
        received: list[ResponseInParts] = []
        try:
            said = self._read(*await self._ask(call, step, received, known))
            if said.flaw:
                raise said.flaw
        except (ModelError, NotServed, TransportError) as failure:
            if call.is_streamed and not step.has_timed_out and _is_break(failure):
                self._count_break(call.model, started)
            error = _meaning(failure, call, is_read=said is not None)
            error.usage = self._usage(call, step, said, perf_counter() - started)
            if said is None and not isinstance(failure, NotServed):
                has_begun = step.has_begun and _is_break(failure)
                error.usage += _lost(call, received, has_begun=has_begun)
            if step.has_timed_out:
                self._experience(call.model).is_slow = True
            raise error from None
        if call.is_streamed and call.model in self._experiences:
            self._experiences[call.model].broken_streams = 0
        usage = self._usage(call, step, said, perf_counter() - started)
        answered = f"{self._provider}:{said.model or call.model}"
        limits = reported_limits(step.fields)
        return ModelReply(said.text, answered, usage, limits, said.finish_reason)

    def _read(self, body: bytes, request: Request) -> ChatReply:
        """Parse a response; one that is no reply may be a failure of the server with status 200."""
        said: ChatReply | None
        try:
            said = self._dialect.read(body)
            if not isinstance(said.flaw, EmptyReply | BrokenReply):
                return said
        except UnreadableReply:
            said = None
        if failure := failure_in(body, request):
            raise failure
        return said or self._dialect.read(body)

    async def _ask(
        self,
        call: ModelCall,
        step: RequestAttempts,
        received: list[ResponseInParts],
        known: _Experience,
    ) -> tuple[bytes, Request]:
        rejected = known.unwanted
        if call.prompt.is_document:
            rejected |= self._unwanted_with.get(_document_key(call), frozenset())
        unwanted = rejected
        of_document: Unwanted = frozenset()
        limits: Unwanted = frozenset()
        call, lowered = self._within_capacity(call, known), ""
        while True:
            request = self._dialect.request(call, unwanted)
            variant = f";without={'+'.join(sorted(unwanted))}" if unwanted else ""
            is_whole = not call.is_streamed or STREAM in unwanted
            open_reader = None if is_whole else partial(self._reader, call, received)
            try:
                body = await step.post(request, variant + lowered, open_reader)
            except StatusRejected as refusal:
                said = refusal.response.said
                is_generation = _codes_and_words(said)[0] & BAD_GENERATION
                if refusal.response.status not in NAMES_A_PART or is_generation:
                    raise
                if most := allowed_output(said, call.max_output_tokens):
                    call, lowered = self._lowered(call, most, said), f";output={most}"
                    if self._experience(call.model).most_output == most:
                        limits = frozenset({f"{MOST_OUTPUT}{most}"})
                    continue
                part = self._dialect.refused(said, call, unwanted)
                if part is None:
                    raise
                unwanted |= {part}
                if call.prompt.is_document and names_json(said):
                    of_document |= {part}
                continue
            if unwanted is not rejected:
                self._remember(call, unwanted - rejected, of_document)
            if self._shared is not None and (general := unwanted - rejected - of_document | limits):
                await self._shared.add(self._name(call), general)
            if self._shared is not None and of_document:
                await self._shared.add(self._name(call, of_document=True), of_document)
            return well_formed(body) if is_whole else body, request

    def _name(self, call: ModelCall, *, of_document: bool = False) -> str:
        """Return under which name workers share what is rejected."""
        return f"{self._provider}:{_document_key(call) if of_document else call.model}"

    async def _recall(self, call: ModelCall, now: float) -> None:
        """Learn what others were told, at most every `READ_AGAIN_S` seconds."""
        names = [self._name(call)]
        if call.prompt.is_document:
            names.append(self._name(call, of_document=True))
        for name in names:
            if now - self._read_at.get(name, -inf) >= READ_AGAIN_S:
                if (reading := self._reading.get(name)) is None:
                    reading = asyncio.create_task(self._read_shared(name))
                    self._reading[name] = reading
                await asyncio.shield(reading)

    async def _read_shared(self, name: str) -> None:
        """Replace what is known for a name; a name is forgotten after a day without news."""
        assert self._shared is not None
        found = await self._shared.read(name)
        del self._reading[name]
        if len(self._read_at) > 2 * MOST_DOCUMENTS:
            self._read_at.clear()
        self._read_at[name] = perf_counter()
        if found is None:
            return
        key = name.partition(":")[2]
        limits = {rejection for rejection in found if rejection.startswith(MOST_OUTPUT)}
        if " " in key:
            self._unwanted_with.pop(key, None)
            self._unwanted_with |= {key: found} if found else {}
        elif found or key in self._experiences:
            known = self._experience(key)
            known.unwanted = found - limits
            known.most_output = min(
                (int(rejection.removeprefix(MOST_OUTPUT)) for rejection in limits), default=None
            )

    def _experience(self, model: str) -> _Experience:
        """Return what to write down what a server shows of a model."""
        if model not in self._experiences and len(self._experiences) >= MOST_DOCUMENTS:
            del self._experiences[next(iter(self._experiences))]
        return self._experiences.setdefault(model, _Experience())

    def _remember(self, call: ModelCall, unwanted: Unwanted, of_document: Unwanted) -> None:
        """Leave out of later requests what was rejected; `of_document` only with this schema."""
        if general := unwanted - of_document:
            self._experience(call.model).unwanted |= general
        if of_document:
            key = _document_key(call)
            known = self._unwanted_with.pop(key, frozenset())
            self._unwanted_with[key] = known | of_document
            if len(self._unwanted_with) > MOST_DOCUMENTS:
                del self._unwanted_with[next(iter(self._unwanted_with))]

    def _within_capacity(self, call: ModelCall, known: _Experience) -> ModelCall:
        """Return the call with the limit that its model can keep, as far as that is known."""
        most = known.most_output or call.max_output_tokens
        if capacity := capacity_of(f"{self._provider}:{call.model}"):
            asked = tokens_in(call.prompt.system) + tokens_in(call.prompt.user)
            left = capacity.context_tokens - asked
            most = min(most, capacity.max_output_tokens, left if left > 0 else most)
        return call if most >= call.max_output_tokens else call.changed(max_output_tokens=most)

    def _lowered(self, call: ModelCall, most: int, said: str) -> ModelCall:
        """Return the call with a lower limit; a maximum of the model holds for later calls too."""
        if not CONTEXT.search(said.lower()):
            self._experience(call.model).most_output = most
        return call.changed(max_output_tokens=most)

    def _is_streamed(self, call: ModelCall, known: _Experience) -> bool:
        if known.is_slow:
            return True
        if known.unstreamed_until and known.unstreamed_until > perf_counter():
            return False
        in_time = self._transport.retry_policy.total_s * TOKENS_PER_S
        is_watched = call.follower is not None and call.follower.is_watched
        return is_watched or 2 * call.expected_output_tokens > in_time

    def _count_break(self, model: str, now: float) -> None:
        """Count a stream that broke off; streaming must not fail a call that succeeds whole."""
        known = self._experience(model)
        known.broken_streams += 1
        if known.broken_streams >= MOST_BROKEN:
            known.unstreamed_until = now + UNSTREAMED_S

    def _reader(self, call: ModelCall, received: list[ResponseInParts]) -> ResponseInParts:
        """Return the reader of one try; watchers of the text begin anew."""
        reader = ResponseInParts(self._dialect.parts)
        received.append(reader)
        if call.follower is not None:
            call.follower.follow(reader.text)
        return reader

    def _usage(
        self, call: ModelCall, step: RequestAttempts, said: ChatReply | None, seconds: float
    ) -> Usage:
        if said is None:
            cost = None if step.may_have_cost else 0.0
            return Usage(calls=step.calls, cost_usd=cost, seconds=seconds)
        price = price_of(f"{self._provider}:{call.model}")
        cost = price.cost_usd(said.tokens) if price and said.tokens else None
        tokens = said.tokens or _estimated(call, said)
        return Usage(
            calls=step.calls,
            input_tokens=tokens.input,
            output_tokens=tokens.output,
            cached_tokens=tokens.cached,
            thinking_tokens=tokens.thinking,
            cost_usd=None if cost is None else round(cost, 9),  # like every total
            seconds=seconds,
        )


def _estimated(call: ModelCall, said: ChatReply) -> TokenCount:
    """Return about how many tokens a call took that its server did not count."""
    return TokenCount(tokens_in(call.prompt.system + call.prompt.user), tokens_in(said.text))


def _lost(call: ModelCall, received: Sequence[ResponseInParts], *, has_begun: bool) -> Usage:
    """Return what a reply consumed that broke off or was none, as far as it is known."""
    streams = [stream for stream in received if stream.is_stream]
    has_come = any(stream.has_events for stream in streams) if streams else has_begun
    asked = tokens_in(call.prompt.system + call.prompt.user)
    written = sum(tokens_in(stream.text()) for stream in streams)
    return Usage(input_tokens=asked if has_come else 0, output_tokens=written)


def _document_key(call: ModelCall) -> str:
    """Return the model and the schema of a call for a document."""
    schema = json.dumps(call.prompt.schema, sort_keys=True)
    return f"{call.model} {sha256(schema.encode()).hexdigest()}"


def _is_break(failure: ModelError | NotServed | TransportError) -> bool:
    """Return whether a stream was unreadable or ended early, without an error from the server."""
    if isinstance(failure, RequestUnanswered):
        return failure.response is None or not failure.response.said
    return isinstance(failure, UnusableResponse | UnreadableReply)


def _meaning(
    failure: ModelError | NotServed | TransportError, call: ModelCall, *, is_read: bool
) -> ModelError | NotServed:
    """Return the error of a call; `is_read`: the reply was one of this wire format."""
    match failure:
        case NotServed():
            return failure
        case RequestUnanswered(response=None) | UntrustedServer() | UnusableKey():
            is_key = isinstance(failure, UnusableKey)
            return NotServed("unauthorized" if is_key else "unreachable", failure.detail)
        case RequestUnanswered(response=response) | StatusRejected(response=response):
            assert response is not None
            found = failure_of(response, failure.detail)
            if not isinstance(found, BrokenReply):
                return found
            error: ModelError = found
        case RequestRefused():
            return ModelRefused(failure.detail)
        case UnusableResponse():
            error = UnreadableReply(failure.detail)
        case ModelError():
            error = failure
        case _:
            raise failure
    may_help = isinstance(error, EmptyReply | BrokenReply) or not is_read
    if may_help and call.tries < MOST_UNREADABLE:
        return NotServed("error", error.detail, is_outage=False)
    return error
