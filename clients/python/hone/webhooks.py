"""Webhooks: Standard Webhooks 1.0, https://www.standardwebhooks.com."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hone.decoding import decode
from hone.errors import WebhookRejected
from hone.models import Batch, Snapshot

TOLERANCE_S = 300


@dataclass(frozen=True)
class WebhookMessage:
    """What a webhook says. One that comes again has the same `id`."""

    id: str
    type: str
    timestamp: str
    data: Snapshot | Batch
    """The refinement as it was then; the batch, if `type` is `batch.completed`."""


def verify_webhook(
    body: bytes | str, headers: Mapping[str, str], secret: str, *, now: float | None = None
) -> WebhookMessage:
    """Return the message of a webhook that Hone has signed within five minutes.

    `body` is what was received, byte for byte; `secret` begins with `whsec_`. Raises
    WebhookRejected.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    raw = body.encode() if isinstance(body, str) else body
    try:
        message_id, sent, given = (
            lower[f"webhook-{it}"] for it in ("id", "timestamp", "signature")
        )
        age = (time.time() if now is None else now) - int(sent)
    except KeyError as error:
        why = f"the header {error.args[0]} is missing: this is no webhook of Hone"
        raise WebhookRejected(why) from None
    except ValueError:
        name = "webhook-timestamp"
        raise WebhookRejected(f"the header {name} is no number: {lower[name]!r}") from None
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except ValueError:
        key = b""
    if not key:
        raise WebhookRejected("the secret is missing, or not base64")
    if abs(age) > TOLERANCE_S:
        raise WebhookRejected(f"signed {age:.0f} s ago: old, or a clock is wrong")
    signed = hmac.digest(key, b".".join([message_id.encode(), sent.encode(), raw]), hashlib.sha256)
    expected = b"v1," + base64.b64encode(signed)
    if not any(hmac.compare_digest(expected, it.encode()) for it in given.split(" ")):
        raise WebhookRejected("the signature is not that of this body and secret")
    message: dict[str, Any] = json.loads(raw)
    kind: Any = Batch if message["type"].startswith("batch.") else Snapshot
    data = decode(kind, message["data"])
    return WebhookMessage(message_id, message["type"], message["timestamp"], data)
