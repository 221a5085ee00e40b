"""The refinement that every peer runs: Hone's prompts, eight calls, and nothing else.

It does no I/O: a generator yields the body of each model call and receives the reply's body.
"""

import json
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from app.contract.judgement import QUALITY, CriterionScore, Critique
from workers.engine.prompts import Judge, PromptRequest, Revise, Task, Write

INSTRUCTION = """Explain our refund policy to a customer who bought a pair of running shoes in our
shop three weeks ago and wants to bring them back. The shoes have been worn twice. Say what can be
returned and until when, what has to come along, how the money is paid back and how long that takes,
and what can be done instead if the shoes cannot be taken back. Be warm and plain, promise nothing
that the policy does not promise, and keep it under two hundred words."""
THRESHOLD = 0.85
MAX_ITERATIONS = 4
CALLS, SCORE = 8, 0.95
DRAFT, REASON = "DRAFT-HERE", "REASON-HERE"

Talk = Generator[bytes, bytes, float]
AskModel = Callable[[bytes], Awaitable[bytes]]
Checkpoint = Callable[[int, bytes], Awaitable[object]]


def request_body() -> bytes:
    """Return the request body with which Hone runs the same refinement."""
    body = {"task": INSTRUCTION, "threshold": THRESHOLD, "max_iterations": MAX_ITERATIONS}
    return json.dumps(body).encode()


def prompts() -> str:
    """Return the bodies of all calls as JSON, with marks for draft and reason."""
    calls = {"write": WRITING, "judge": judging(DRAFT), "revise": revising(DRAFT, REASON)}
    bodies = {name: json.loads(body) for name, body in calls.items()}
    return json.dumps({**bodies, "threshold": THRESHOLD, "maxIterations": MAX_ITERATIONS})


def refinement() -> Talk:
    """Draft, then critique and revise until the score is good enough; return the last score."""
    draft = text_of((yield WRITING))
    score = 0.0
    for iteration in range(1, MAX_ITERATIONS + 1):
        score, reason = verdict_of((yield judging(draft)))
        if score >= THRESHOLD or iteration == MAX_ITERATIONS:
            break
        draft = text_of((yield revising(draft, reason)))
    return score


def judging(draft: str) -> bytes:
    """Return the body of the call that scores a draft."""
    return _call(JUDGE, draft, schema=SCHEMA)


def revising(draft: str, reason: str) -> bytes:
    """Return the body of the call that revises a draft for the reason of its score."""
    return _call(REVISE, draft, reason)


def text_of(reply: bytes) -> str:
    """Return the text in the body of a reply."""
    text: str = json.loads(reply)["choices"][0]["message"]["content"]
    return text


def verdict_of(reply: bytes) -> tuple[float, str]:
    """Return the score in the body of a reply, and its reason."""
    (judged,) = json.loads(text_of(reply))["scores"].values()
    return judged["score"], judged["reason"]


async def play(ask: AskModel, checkpoint: Checkpoint | None = None) -> float:
    """Play one refinement and return its score; `checkpoint` has every reply before it is used."""
    talk, step = refinement(), 0
    body = next(talk)
    while True:
        reply = await ask(body)
        if checkpoint:
            await checkpoint(step, reply)
        try:
            body, step = talk.send(reply), step + 1
        except StopIteration as end:
            if (step + 1, end.value) != (CALLS, SCORE):
                raise RuntimeError(f"{step + 1} calls, score {end.value}") from None
            return SCORE


def _call(prompt: tuple[str, str], *texts: str, schema: Any = None) -> bytes:
    system, user = prompt
    for mark, text in zip((DRAFT, REASON), texts, strict=False):
        user = user.replace(mark, text)
    body = {
        "model": "bench",
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
        "max_completion_tokens": 4096,
    }
    return json.dumps(body | ({"response_format": schema} if schema else {})).encode()


def _worded(prompt_request: PromptRequest) -> tuple[str, str]:
    prompt = prompt_request.prompt()
    return prompt.system, prompt.user


_TASK = Task(instruction=INSTRUCTION, draft=None, criteria=(QUALITY,), nonce="482913")
_VERDICT = Critique(scores=(CriterionScore(criterion="quality", score=0.5),))
WRITE = _worded(Write(_TASK))
JUDGE = _worded(Judge(_TASK, DRAFT))
REVISE = _worded(Revise(_TASK, DRAFT, (f"quality: {REASON}",), _VERDICT, ()))
SCHEMA = {
    "type": "json_schema",
    "json_schema": {
        "name": "critique",
        "strict": True,
        "schema": Judge(_TASK, DRAFT).prompt().schema,
    },
}
WRITING = _call(WRITE)
"""The body of the call that writes the first draft."""
