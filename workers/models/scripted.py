"""A model that answers from a script, for tests, examples and dry runs. It ships with Hone."""

from collections.abc import Awaitable, Callable
from inspect import isawaitable

from app.contract.judgement import Usage
from workers.models.port import ModelCall, ModelRefused, ModelReply

ScriptedReply = str | ModelReply | Exception
"""A text, a whole reply, or an error to raise."""

ReplyScript = Callable[[ModelCall], ScriptedReply | Awaitable[ScriptedReply]]


class Scripted:
    """Answers with what the script returns; `calls` lists every call in order of arrival."""

    def __init__(self, script: ReplyScript) -> None:
        self.calls: list[ModelCall] = []
        self._script = script

    async def complete(self, call: ModelCall) -> ModelReply:
        """Return the script's reply; a text has a usage of one call and costs nothing."""
        self.calls.append(call)
        line = self._script(call)
        if isawaitable(line):
            line = await line
        if isinstance(line, Exception):
            raise line
        if isinstance(line, str):
            return ModelReply(line, call.model, Usage(calls=1))
        return line


def in_turn(*lines: ScriptedReply) -> ReplyScript:
    """Return a script that gives each reply once, in order; any further call is refused."""
    remaining = iter(lines)
    exhausted = ModelRefused(f"the script has {len(lines)} replies, and all are used")
    return lambda _call: next(remaining, exhausted)
