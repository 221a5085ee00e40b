"""Answers in OpenAI's form: whole, and as the events of a stream. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic_core import to_json

from app.api.problems import openai_error
from app.contract.drafts import FENCED
from app.contract.errors import HoneError
from app.contract.events import StepDelta
from app.contract.snapshot import Snapshot
from app.contract.status import RefinementOutcome
from app.openai.conversation import Asked

MUST_PASS = "must_pass"  # noqa: S105 - a key of metadata
"""In the metadata of a preset or request, `true`: what does not pass is an error."""

PIECE = 2_000
"""Characters of one event at most: some clients limit the length of a line."""

FIRST_DRAFT = "iterations/1/draft"
"""Key of the step that writes the first draft."""


class NoAnswer(HoneError):
    """The refinement ended without a text."""

    code, status, title = "refinement_failed", 422, "The refinement has no result"


class NotPassed(HoneError):
    """The best draft does not pass, and it must."""

    code, status, title = "not_passed", 422, "The best draft does not pass"


class TextChanged(HoneError):
    """The text that was streamed is not the one that was judged."""

    code, status, title = "text_changed", 422, "The text has changed since it was streamed"


def answer_of(snapshot: Snapshot, *, is_json: bool) -> str:
    """Return the text that answers, of a refinement that has ended.

    Raises NoAnswer, and NotPassed if it must pass. JSON is without a fence around it.
    """
    if snapshot.result is None:
        raise NoAnswer(f"{snapshot.id}: {snapshot.reason or 'its text was erased'}")
    passed = snapshot.outcome == RefinementOutcome.PASSED
    if snapshot.metadata.get(MUST_PASS) == "true" and not passed:
        raise NotPassed(f"{snapshot.id}: {snapshot.reason}")
    draft = snapshot.result.draft
    fenced = FENCED.match(draft) if is_json else None
    return fenced["body"] if fenced else draft


def _told(snapshot: Snapshot) -> dict[str, Any]:
    """Return what OpenAI's form has no field for."""
    return {
        "outcome": snapshot.outcome,
        "reason": snapshot.reason,
        "score": snapshot.best.score if snapshot.best else None,
        "iterations": len(snapshot.scores),
        "cost_usd": snapshot.usage.cost_usd,
        "outputs": snapshot.result.outputs if snapshot.result else {},
        "caveats": snapshot.result.caveats if snapshot.result else (),
    }


@dataclass(frozen=True)
class ChatForm:
    """Chat completions."""

    id: str
    created: int
    asked: Asked

    def whole(self, snapshot: Snapshot, text: str) -> dict[str, Any]:
        """Return the answer."""
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        sums = {"usage": self._usage(snapshot), "hone": _told(snapshot)}
        return {**self._head("chat.completion"), "choices": [choice], **sums}

    def opening(self) -> bytes:
        """Return the events with which a stream begins."""
        return self._chunk({"role": "assistant", "content": ""})

    def piece(self, text: str) -> bytes:
        """Return the event of a piece of the text."""
        return self._chunk({"content": text})

    def ending(self, snapshot: Snapshot, text: str) -> bytes:
        """Return the events with which a stream ends."""
        found = self._chunk({}, "stop", hone=_told(snapshot))
        if self.asked.has_usage:
            usage = {"choices": [], "usage": self._usage(snapshot)}
            found += _data({**self._head("chat.completion.chunk"), **usage})
        return found + b"data: [DONE]\n\n"

    def failing(self, error: HoneError) -> bytes:
        """Return the events with which a stream ends that has no answer."""
        return _data(openai_error(error)) + b"data: [DONE]\n\n"

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.asked.model}

    def _chunk(self, delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        usage = {"usage": None} if self.asked.has_usage else {}
        head = self._head("chat.completion.chunk")
        return _data({**head, "choices": [choice], **usage, **more})

    def _usage(self, snapshot: Snapshot) -> dict[str, Any]:
        usage = snapshot.usage
        return {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.input_tokens + usage.output_tokens,
            "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
            "completion_tokens_details": {"reasoning_tokens": usage.thinking_tokens},
        }


@dataclass
class ResponseForm:
    """Responses; the events of a stream are numbered."""

    id: str
    created: int
    asked: Asked
    PARAMETERS: ClassVar[dict[str, Any]] = {
        "background": False,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "service_tier": "default",
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
    }
    """The parameters that an answer has again, each with OpenAI's default."""
    _number: int = field(default=0, init=False)

    def whole(self, snapshot: Snapshot, text: str) -> dict[str, Any]:
        """Return the answer."""
        usage = snapshot.usage
        counts = {
            "input_tokens": usage.input_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens},
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": usage.thinking_tokens},
            "total_tokens": usage.input_tokens + usage.output_tokens,
        }
        output = [self._message("completed", [_part(text)])]
        return self._response("completed", output=output, usage=counts, hone=_told(snapshot))

    def opening(self) -> bytes:
        """Return the events with which a stream begins."""
        begun = self._response("in_progress")
        return b"".join(
            (
                self._event("response.created", response=begun),
                self._event("response.in_progress", response=begun),
                self._event(
                    "response.output_item.added",
                    output_index=0,
                    item=self._message("in_progress", []),
                ),
                self._event("response.content_part.added", **self._place, part=_part("")),
            )
        )

    def piece(self, text: str) -> bytes:
        """Return the event of a piece of the text."""
        return self._event("response.output_text.delta", **self._place, delta=text, logprobs=[])

    def ending(self, snapshot: Snapshot, text: str) -> bytes:
        """Return the events with which a stream ends."""
        item, place = self._message("completed", [_part(text)]), self._place
        return b"".join(
            (
                self._event("response.output_text.done", **place, text=text, logprobs=[]),
                self._event("response.content_part.done", **place, part=_part(text)),
                self._event("response.output_item.done", output_index=0, item=item),
                self._event("response.completed", response=self.whole(snapshot, text)),
            )
        )

    def failing(self, error: HoneError) -> bytes:
        """Return the events with which a stream ends that has no answer."""
        body = openai_error(error)
        return self._event("error", **body["error"] | {"type": "error"}, **body)

    @property
    def _place(self) -> dict[str, Any]:
        return {"item_id": f"msg_{self.id}", "output_index": 0, "content_index": 0}

    def _message(self, status: str, content: list[dict[str, Any]]) -> dict[str, Any]:
        head = {"id": f"msg_{self.id}", "type": "message", "role": "assistant"}
        return {**head, "status": status, "content": content}

    def _response(self, status: str, **more: Any) -> dict[str, Any]:
        head = {"id": self.id, "object": "response", "created_at": self.created}
        about: dict[str, Any] = {
            "status": status,
            "model": self.asked.model,
            "output": [],
            "usage": None,
            "error": None,
        }
        given = {
            name: self.asked.given.get(name, self.PARAMETERS[name]) for name in self.PARAMETERS
        }
        return {**given, **head, **about, **more}

    def _event(self, kind: str, **data: Any) -> bytes:
        numbered = {"type": kind, "sequence_number": self._number, **data}
        self._number += 1
        return b"event: %b\n%b" % (kind.encode(), _data(numbered))


AnswerForm = ChatForm | ResponseForm
"""Either form, for one refinement."""


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _data(value: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % to_json(value)


def pieces_of(text: str) -> Iterator[str]:
    """Yield a text in the pieces in which it is sent."""
    yield from (text[at : at + PIECE] for at in range(0, len(text), PIECE))


@dataclass
class GrowingAnswer:
    """A first draft that no other one can replace: what of it can be sent while it is written."""

    sent: str = ""
    _text: str = ""

    def grown(self, delta: StepDelta) -> str:
        """Return what can be sent after a piece of the text."""
        self._text = self._text[: delta.offset] + delta.text
        if not self._text.startswith(self.sent):
            return ""
        new = self._text[len(self.sent) :]
        self.sent = self._text
        return new

    def rest(self, text: str) -> str:
        """Return what is still to be sent of the text; raise TextChanged if it is another one."""
        if not text.startswith(self.sent):
            raise TextChanged("the text that was streamed is not the one that was judged")
        return text[len(self.sent) :]
