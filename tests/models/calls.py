"""Calls as the driver makes them, and a model server of the test's own to answer them."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from app.contract.judgement import QUALITY
from benchmarks.model_replies import AskedPrompt, Behaviour, ModelServerReply
from benchmarks.model_server import ScriptedModelServer
from workers.engine.prompts import Judge, PromptRequest, Task, Write
from workers.models.openai import OpenAI
from workers.models.port import ModelCall
from workers.models.remote import Remote, SharedRejections, WireFormat
from workers.outbound.transport import RetryPolicy, Transport, open_transport

TASK = Task("Explain the refund policy.", None, (QUALITY,), "482913")
RETRY_POLICY = RetryPolicy(total_s=120.0, backoff_s=0.01, tries=1)
REPLY_BYTES = 256 * 1024


def call(prompt_request: PromptRequest | None = None, **changes: Any) -> ModelCall:
    """A call for a first draft, unless another prompt is requested."""
    prompt_request = prompt_request or Write(TASK)
    question = ModelCall(
        "gpt-x", prompt_request.prompt(), prompt_request, "ref_1/iterations/1/draft"
    )
    return replace(question, **changes)


def critique(**changes: Any) -> ModelCall:
    """A call whose reply must be JSON."""
    return call(Judge(TASK, "A draft."), **changes)


@asynccontextmanager
async def serving(
    behaviour: Behaviour,
    *,
    retry_policy: RetryPolicy = RETRY_POLICY,
    provider: str = "local",
    speaking: Callable[[str], WireFormat] = OpenAI,
    shared: SharedRejections | None = None,
) -> AsyncIterator[tuple[Remote, ScriptedModelServer]]:
    """A model server and the adapter that reaches it."""
    async with ScriptedModelServer(behaviour) as server, transport(retry_policy) as wire:
        yield Remote(provider, speaking(server.url), wire, shared), server


@asynccontextmanager
async def transport(retry_policy: RetryPolicy = RETRY_POLICY) -> AsyncIterator[Transport]:
    """A transport that reads at most REPLY_BYTES."""
    async with open_transport(retry_policy, REPLY_BYTES) as wire:
        yield wire


def in_turn(*replies: ModelServerReply) -> Behaviour:
    """Answer the n-th call with the n-th reply, and with the last one from then on."""
    return lambda asked: replies[min(asked.number, len(replies)) - 1]


class RecordingBehaviour:
    """A behaviour that keeps what it was asked."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.asked: list[AskedPrompt] = []
        self._behaviour = behaviour

    def __call__(self, asked: AskedPrompt) -> ModelServerReply:
        self.asked.append(asked)
        return self._behaviour(asked)
