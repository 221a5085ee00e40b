"""A worker on a machine of its own, as far as others know: `python -m tests.faults.apart`.

That its process has ended is seen by none of them, so that its lease has to expire.
"""

import os
import sys

from workers.__main__ import main

if __name__ == "__main__":
    sys.exit(main(new_name=lambda: f"apart-{os.getpid()}"))
