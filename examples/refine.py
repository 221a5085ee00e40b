"""Submit a request, print each event as it happens, then the result.

    .venv/bin/python examples/refine.py examples/improve-an-email.json

HONE_SERVER is the address of the server, http://localhost:8080 if it is not set. httpx is the only
package that is needed.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

SERVER = os.environ.get("HONE_SERVER", "http://localhost:8080")
SILENCE_S = 45.0  # the server sends a comment every 15 seconds
TERMINAL = {"refinement.completed", "refinement.failed", "refinement.canceled"}


def submit(client: httpx.Client, request: bytes) -> dict[str, Any]:
    """Return the snapshot of a new refinement; end with the server's reason if it is refused."""
    headers = {"Content-Type": "application/json"}
    response = client.post("/v1/refinements", content=request, headers=headers)
    if response.is_error:
        sys.exit(f"{response.status_code}: {response.json()['detail']}")
    snapshot: dict[str, Any] = response.json()
    return snapshot


def follow(client: httpx.Client, url: str) -> Iterator[dict[str, Any]]:
    """Yield every event once; after a lost connection go on where it was lost."""
    last = 0
    while True:
        try:
            with client.stream("GET", url, headers={"Last-Event-ID": str(last)}) as stream:
                stream.raise_for_status()
                for line in stream.iter_lines():
                    if line.startswith("data:"):
                        event = json.loads(line.removeprefix("data:"))
                        yield event
                        last = event["event"]
                        if event["type"] in TERMINAL:
                            return
        except httpx.TransportError as error:
            print(f"connecting again: {error}", file=sys.stderr)
        time.sleep(1)


def main() -> None:
    """Refine what the file asks for; exit code 1 if that failed or was canceled."""
    if len(sys.argv) != 2:
        sys.exit("usage: refine.py REQUEST.json")
    request = Path(sys.argv[1]).read_bytes()
    with httpx.Client(base_url=SERVER, timeout=SILENCE_S) as client:
        ended = submit(client, request)
        print(ended["id"])
        for event in follow(client, ended["links"]["events"]):
            print(f"{event['event']:3} {event['type']}", flush=True)
            if event["type"] in TERMINAL:
                ended = event["data"]  # the whole snapshot: no further request is needed
    result = ended["result"]
    print(f"\n{ended['outcome']}: {ended['reason']}")
    if ended["error"]:
        print(ended["error"]["detail"])
    if result:
        print(f"score {result['score']}, from {result['path']}\n\n{result['draft']}")
        for name, text in result.get("outputs", {}).items():
            print(f"\n{name}: {text}")
    sys.exit(ended["status"] != "succeeded")


if __name__ == "__main__":
    main()
