"""Sends webhooks in a process that is forked again whenever it was killed, and prints its id.

A fork is ready at once, where a new interpreter takes a second.
"""

import asyncio
import os
import sys

from app.settings import Settings
from workers.webhooks import Pace, send_webhooks

PACE = Pace(schedule_s=(0,) * 1_000, margin_s=0.1, poll_s=0.01)


def main() -> None:
    settings = Settings()
    while True:
        child = os.fork()
        if child == 0:
            asyncio.run(send_webhooks(settings, PACE))
            return
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
