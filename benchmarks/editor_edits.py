"""Print what the offline editor changes in files, with the words around each change.

    python -m benchmarks.editor_edits README.md docs/*.md

Each change is to be judged by a person: better, harmless or harmful.
"""

import sys
from pathlib import Path

from app.contract.judgement import QUALITY
from workers.editor.reviser import revised
from workers.engine.drafting import between

MOST = 30
"""Revisions of one text at most; it comes to rest long before."""


def main() -> None:
    """Print the changes in the named files, and how many there are."""
    count = 0
    for name in sys.argv[1:]:
        text = Path(name).read_bytes().decode()
        for _ in range(MOST):
            draft = revised(text, (QUALITY,))
            for it in between(text, draft):
                count += 1
                print(f"{count}. {name}\n  - {it.search!r}\n  + {it.replace!r}")
            if draft == text:
                break
            text = draft
    print(f"{count} changes in {len(sys.argv) - 1} files")


if __name__ == "__main__":
    main()
