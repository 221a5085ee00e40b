"""A later version of Hone, made from this one, to run beside it."""

import shutil
from pathlib import Path

from app.contract.versions import ENGINE_VERSION

ROOT = Path(__file__).parent.parent.parent
LATER_VERSION = ENGINE_VERSION + 1
NOTED = "step.noted"
"""The type of the event that the later version writes after every step."""

FIELD_ADDED = '''\
    """A step was completed; its reply is stored."""

    of_a_later_release: dict[str, bool] = {"kept": True}
'''
ENTRIES_ADDED = """\
    entries = [_entry(done, under_way) for done in pending]
    steps = [done.entry.key for done in pending if isinstance(done, RecordedStep)]
    entries += [Entry(EventType.STEP_NOTED, StepNoted(key=key)) for key in steps]
"""

CHANGES: dict[str, tuple[tuple[str, str], ...]] = {
    "app/contract/versions.py": (
        (f"ENGINE_VERSION = {ENGINE_VERSION}\n", f"ENGINE_VERSION = {LATER_VERSION}\n"),
        ("frozenset({ENGINE_VERSION})", "frozenset({ENGINE_VERSION - 1, ENGINE_VERSION})"),
    ),
    "app/contract/events.py": (
        # an optional field more
        (
            '    """A step was completed; its reply is stored."""\n\n',
            FIELD_ADDED,
        ),
        # an event type more
        (
            '    STEP_FAILED = "step.failed"\n',
            f'    STEP_FAILED = "step.failed"\n    STEP_NOTED = "{NOTED}"\n',
        ),
        (
            "class Changed(Contract):\n",
            "class StepNoted(Contract):\n    key: str\n\n\nclass Changed(Contract):\n",
        ),
        ("    | StepFailed\n", "    | StepFailed\n    | StepNoted\n"),
        (
            "    EventType.STEP_FAILED: StepFailed,\n",
            "    EventType.STEP_FAILED: StepFailed,\n    EventType.STEP_NOTED: StepNoted,\n",
        ),
    ),
    "workers/play/journal.py": (
        ("    StepCompleted,\n", "    StepCompleted,\n    StepNoted,\n"),
        (
            "    entries = [_entry(done, under_way) for done in pending]\n",
            ENTRIES_ADDED,
        ),
    ),
    # another policy: a result is compared whether the request asks for it or not
    "workers/engine/pipeline.py": (
        (
            "if request.compare else",
            f"if request.compare or task.engine_version >= {LATER_VERSION} else",
        ),
    ),
}
"""What the later version has in place of what this one has, by file."""


def later_version(folder: Path) -> Path:
    """Write a later version into a new folder and return it: processes started there import it.

    It plays this version and its own, writes an event field and an event type that this one does
    not know, and has another policy. Raises ValueError if the code to change is not there once.
    """
    for package in ("app", "workers"):
        compiling = shutil.ignore_patterns("*.pyc.*")  # what Python writes at this moment
        shutil.copytree(ROOT / package, folder / package, ignore=compiling)
    for name, changes in CHANGES.items():
        path = folder / name
        text = path.read_text()
        for old, new in changes:
            if text.count(old) != 1:
                raise ValueError(f"{name} has {text.count(old)} times: {old}")
            text = text.replace(old, new)
        path.write_text(text)
    return folder
