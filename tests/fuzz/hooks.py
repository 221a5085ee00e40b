"""What schemathesis calls around each request: it keeps its key working, and notes the answer."""

import json
import os
from pathlib import Path
from typing import Any

import schemathesis
from schemathesis import Case, HookContext, Response, SerializationContext

OWN_KEY = "FUZZ_OWN_KEY"
ANSWERS = "FUZZ_ANSWERS"
"""Names of the environment variables: id of the key in use, and the file of the answers."""

LONG_S = 0.1
OTHERS = {"key_id": "key_3f8k2m9q7w1x", "tenant_id": "acme"}


@schemathesis.serializer("application/jsonl")
def _as_lines(_context: SerializationContext, value: Any) -> bytes:
    """Send the text of a batch as it is; what is no text, as one line."""
    return (value if isinstance(value, str) else json.dumps(value)).encode(errors="replace")


@schemathesis.hook
def before_call(_context: HookContext, case: Case[Any], _kwargs: dict[str, Any]) -> None:
    """Keep a request from revoking the key that the others need, or from limiting its tenant.

    Nothing waits for long: for a change a moment, and events after a number are read as a page.
    """
    for name, own in (("key_id", os.environ[OWN_KEY]), ("tenant_id", "default")):
        if case.path_parameters.get(name) == own:
            case.path_parameters[name] = OTHERS[name]
    if isinstance(wait := case.query.get("wait"), float) and LONG_S < wait <= 60:
        case.query["wait"] = LONG_S
    if "after" in case.query or "Last-Event-ID" in case.headers:
        case.headers["Accept"] = "application/json"


@schemathesis.hook
def after_call(_context: HookContext, case: Case[Any], response: Response) -> None:
    """Note status, seconds and operation of an answer in a line."""
    with Path(os.environ[ANSWERS]).open("a") as file:
        file.write(f"{response.status_code} {response.elapsed:.4f} {case.operation.label}\n")
