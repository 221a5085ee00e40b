"""A child process of a quarantine as its parent sees it; without imports, so that it starts fast.

Of what it is asked to play, ids with `dies` in them kill it, `hangs` lets it say nothing more,
`waits` stays until the pipe is closed, and everything else ends at once. With an argument before
its name it exits as a child without Redis does until that file exists, and creates it.
"""

import os
import signal
import sys
import time
from pathlib import Path

EX_UNAVAILABLE = 69


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def play() -> None:
    waiting = []
    say("alive")
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "leave":
            continue
        refinement_id = rest[1]
        if "dies" in refinement_id:
            os.kill(os.getpid(), signal.SIGKILL)
        elif "exits" in refinement_id:
            os._exit(3)
        elif "hangs" in refinement_id:
            time.sleep(3_600)
        elif "waits" in refinement_id:
            waiting.append(refinement_id)
        else:
            say(f"ended {refinement_id}")
    for refinement_id in waiting:
        say(f"ended {refinement_id}")


if __name__ == "__main__":
    if len(sys.argv) > 2 and not Path(sys.argv[1]).exists():
        Path(sys.argv[1]).touch()
        sys.exit(EX_UNAVAILABLE)
    play()
