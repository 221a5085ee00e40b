"""Responses of providers: streamed ones put together, and what their errors mean.

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

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal, get_args

from pydantic_core import from_json, to_json

from app.contract.values import value
from app.contract.waiting import WaitReason
from workers.models.port import (
    BrokenReply,
    ContentFiltered,
    LimitOf,
    ModelError,
    ModelRefused,
    NotServed,
    PromptTooLong,
    ReportedLimit,
    UnknownModel,
)
from workers.outbound.transport import ErrorResponse, StreamFailed, UnusableResponse, retry_after_s

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
    **dict.fromkeys((302, 303, 307), "unreachable"),
    **dict.fromkeys((502, 504, 521, 522, 523, 524), "unreachable"),
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


def failure_in(body: bytes, host: str) -> ModelError | NotServed | None:
    """Return the failure that a response with status 200 is, None if it may be a reply.

    OpenRouter and LiteLLM send the error of the server behind them in this way, beside or within
    the choices. A page is from a network that wants a login, or from a proxy.
    """
    if body.lstrip()[:1] == b"<":
        return NotServed(
            "unreachable", f"{host} answered with a page, which is no reply of a model"
        )
    try:
        said = from_json(body)
    except ValueError:
        return None
    error = _error_in(said)
    if not error:
        return None
    found = failed(error)
    detail = f"{host} failed while it answered: {found}"
    return failure_of(ErrorResponse(found.status, found.said, {}), detail)


def _error_in(said: object) -> object:
    if not isinstance(said, dict):
        return None
    choices = said.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return said.get("error") or (first.get("error") if isinstance(first, dict) else None)


def is_bad_generation(said: str) -> bool:
    """Return whether an error is about what the model wrote, and not about the request."""
    return bool(_codes_and_words(said)[0] & BAD_GENERATION)


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
    if status in {401, 403, 407} or (status == 400 and _names_the_key(codes, words)):
        return "unauthorized"
    if codes & THROTTLED and status in {400, 503}:
        return "rate_limited"
    if status >= 500 and codes & OVERLOADED:
        return "overloaded"
    return BY_STATUS.get(status, "error" if status >= 500 else None)


def _names_the_key(codes: frozenset[str], words: str) -> bool:
    return bool(codes & BAD_KEY or BAD_KEY_WORDS.search(words))


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
