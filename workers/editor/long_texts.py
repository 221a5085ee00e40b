"""Long texts are edited in a process of their own: they hold neither the event loop nor short ones.

`python -m workers.editor.long_texts` is that process. It answers each line with a line of JSON.
"""

import atexit
import json
import pickle
import sys
import time
from base64 import b64decode, b64encode
from functools import cache, partial

from workers.children.child_process import ChildProcess, OutOfTime, answer_lines, cpu_limit
from workers.editor import EditorCannot, editor_reply
from workers.engine.prompts import PromptRequest

LONG = 20_000
"""Characters from which a text is long; a shorter one takes a fifth of a second at most."""

CPU_S = 10.0
"""The longest draft that a request may have takes 2 s, a hostile one 3 s."""

WALL_S = 120.0
MEMORY_BYTES = 1 << 30


class LongTexts:
    """The editor in a process that starts with the first long text, and again if it dies."""

    def __init__(self, cpu_s: float = CPU_S) -> None:
        self._cpu_s = cpu_s
        self._child = ChildProcess("workers.editor.long_texts", str(cpu_s), wall_s=WALL_S)

    def answer(self, prompt_request: PromptRequest) -> str:
        """Answer as the editor does, in at most `cpu_s` of CPU time.

        Raises `EditorCannot`, also for a text that takes longer.
        """
        asked = b64encode(pickle.dumps(prompt_request))
        for _ in range(2):
            started = time.monotonic()
            if reply := self._child.ask(asked):
                said = json.loads(reply)
                if "cannot" in said:
                    raise EditorCannot(said["cannot"])
                return str(said["text"])
            if time.monotonic() - started >= self._cpu_s:
                break
        raise EditorCannot(_too_expensive(self._cpu_s))

    def close(self) -> None:
        """End the process, and with it what it does."""
        self._child.close()


def _too_expensive(cpu_s: float) -> str:
    return f"the editor needs more than {cpu_s:g} s or too much memory for this text: shorten it"


@cache
def shared_long_texts() -> LongTexts:
    """Return the editor process of this process; both end together."""
    long_texts = LongTexts()
    atexit.register(long_texts.close)
    return long_texts


def main() -> None:
    """Answer requests until standard input ends."""
    cpu_s = float(sys.argv[1])
    answer_lines(partial(_answer, cpu_s), MEMORY_BYTES)


def _answer(cpu_s: float, line: bytes) -> dict[str, str]:
    try:
        with cpu_limit(cpu_s):
            return {"text": editor_reply(pickle.loads(b64decode(line)))}  # noqa: S301 - of the worker
    except EditorCannot as error:
        return {"cannot": str(error)}
    except (OutOfTime, MemoryError):
        return {"cannot": _too_expensive(cpu_s)}


if __name__ == "__main__":
    main()
