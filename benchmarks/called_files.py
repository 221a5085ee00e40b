"""Notes every file of a checkout in which a function is called while a flag is set.

`benchmarks.one_submission` puts this file as `sitecustomize.py` on the path of a service, so that
each of its processes runs it first. CALLED_FILES names a folder with the flag, a byte that all
processes map, and the notes; CALLED_UNDER names the folders whose files count.
"""

import mmap
import os
import sys
import threading
from pathlib import Path
from types import FrameType

IMPORTING = "<frozen importlib._bootstrap>"


def watch(folder: Path, prefixes: tuple[str, ...]) -> None:
    """Note the calls in this thread, and in threads and forks that start later.

    A note is the value of the flag, the process and the file.
    """
    with (folder / "flag").open("rb") as file:
        flag = mmap.mmap(file.fileno(), 1, access=mmap.ACCESS_READ)
    notes = os.open(folder / "notes", os.O_WRONLY | os.O_APPEND)
    noted: set[tuple[int, int, str]] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        path = frame.f_code.co_filename
        if event != "call" or not flag[0] or not path.startswith(prefixes):
            return
        key = flag[0], os.getpid(), path
        if key not in noted and not _is_importing(frame):
            noted.add(key)
            os.write(notes, f"{key[0]} {key[1]} {path}\n".encode())

    threading.setprofile(note)
    sys.setprofile(note)


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether a frame was called, at whatever distance, by an import."""
    while frame is not None and frame.f_code.co_filename != IMPORTING:
        frame = frame.f_back
    return frame is not None


if "CALLED_FILES" in os.environ:
    watch(Path(os.environ["CALLED_FILES"]), tuple(os.environ["CALLED_UNDER"].split(os.pathsep)))
