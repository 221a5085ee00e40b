"""A worker that calls endpoints on this machine: `python -m tests.e2e.neighbourly`."""

import sys
from functools import partial

from tests.neighbour import any_socket
from workers.__main__ import main
from workers.validators import open_outside

if __name__ == "__main__":
    sys.exit(main(partial(open_outside, socket_factory=any_socket)))
