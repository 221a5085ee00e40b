"""A worker that calls endpoints on this machine: `python -m tests.e2e.local_endpoint_worker`."""

import sys
from functools import partial

from tests.local_endpoint import any_socket
from workers.__main__ import main
from workers.validators import open_server_resources

if __name__ == "__main__":
    sys.exit(main(partial(open_server_resources, socket_factory=any_socket)))
