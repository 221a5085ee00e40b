"""A model that says what it was told to: for tests, examples and rehearsals. It ships with Hone."""

from collections.abc import Awaitable, Callable
from inspect import isawaitable

from app.contract.judgement import Usage
from workers.models.port import ModelCall, ModelRefused, ModelReply

ScriptedReply = str | ModelReply | Exception
"""A text, a whole reply, or an error to raise."""

ReplyScript = Callable[[ModelCall], ScriptedReply | Awaitable[ScriptedReply]]


class Scripted:
    """Answers with what the script returns; `calls` are those it has seen, in order of arrival."""

    def __init__(self, script: ReplyScript) -> None:
        self.calls: list[ModelCall] = []
        self._script = script

    async def complete(self, call: ModelCall) -> ModelReply:
        """Answer with the script's line; a text has a usage of one call and costs nothing."""
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
    """Return a script that says each line once; a call too many is refused."""
    remaining = iter(lines)
    spoken = ModelRefused(f"the script has {len(lines)} lines, all of them said")
    return lambda _call: next(remaining, spoken)


def by_prompt(**scripts: ReplyScript) -> ReplyScript:
    """Return a script with a part for each prompt: `write`, `critique`, `revise`."""

    def script(call: ModelCall) -> ScriptedReply | Awaitable[ScriptedReply]:
        part = scripts.get(call.prompt.name)
        return part(call) if part else ModelRefused(f"no script for {call.prompt.name!r}")

    return script
