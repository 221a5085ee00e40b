"""The tools of a request: what each takes is checked, and a call that fails is a result."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from app.contract.judgement import Finding
from app.contract.tools import MAX_RESULT, Tool
from app.contract.validators.json import JsonSchemaValidator
from workers.engine.moves import ToolResult
from workers.outbound.guarded_client import EndpointClient, EndpointUnavailable
from workers.validators.check_process import CheckProcess, shared

MOST_FLAWS = 5
NO_KEY = "calls cannot be signed: HONE_SECRET_KEY is not set"


class Tools:
    """The tools of one request. A schema is applied in the process that validators share."""

    def __init__(
        self,
        tools: Sequence[Tool],
        endpoints: EndpointClient | None = None,
        check_process: CheckProcess | None = None,
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._endpoints = endpoints
        self._check_process = check_process

    async def check(self, calls: str) -> tuple[Finding, ...]:
        """Return what is wrong with planned calls, a JSON array, in order.

        It ends with `MOST_FLAWS`: a call that cannot be checked may take as long as a validator.
        """
        found: list[Finding] = []
        for call in json.loads(calls):
            tool, arguments = call["tool"], call["arguments"]
            for flaw in await self._flaws(tool, arguments):
                message = f"the arguments {json.dumps(arguments)[:200]} of {tool}: {flaw}"
                found.append(Finding(source=f"tools/{tool}", kind="arguments", message=message))
            if len(found) >= MOST_FLAWS:
                break
        return tuple(found[:MOST_FLAWS])

    async def call(self, name: str, arguments: Mapping[str, Any], key: str) -> ToolResult:
        """Call a tool and return its answer; arguments that break its schema are not sent.

        `key` is the same whenever the same step is taken again.
        """
        if name not in self._tools:
            return ToolResult(False, f"there is no tool {name}")
        if flaws := await self._flaws(name, arguments):
            return ToolResult(False, f"not sent, the arguments do not fit: {'; '.join(flaws)}")
        if self._endpoints is None:
            return ToolResult(False, NO_KEY)
        tool = self._tools[name]
        body = json.dumps({"tool": name, "arguments": arguments}, ensure_ascii=False).encode()
        try:
            answer = await self._endpoints.post(tool.url, body, key, tool.timeout_s)
        except EndpointUnavailable as error:
            return ToolResult(False, error.detail)
        try:
            return ToolResult(True, _cut(answer.decode()))
        except UnicodeDecodeError:
            return ToolResult(False, f"{name} answers with what is not UTF-8")

    async def _flaws(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        schema = JsonSchemaValidator(kind="json_schema", schema=self._tools[name].parameters)
        check_process = self._check_process or shared()
        written = json.dumps(arguments, ensure_ascii=False)
        found = await asyncio.get_running_loop().run_in_executor(
            check_process.executor, check_process.check, schema, written
        )
        return tuple(it.message for it in found)


NO_TOOLS = Tools(())


def _cut(text: str) -> str:
    if len(text) <= MAX_RESULT:
        return text
    note = f"\n[cut off here: the whole answer has {len(text)} characters]"
    return text[: MAX_RESULT - len(note)] + note
