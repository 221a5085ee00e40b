"""A worker whose sandbox works for root, too: `python -m tests.e2e.sandboxed_worker`.

The product refuses that; the sandbox of the tests gives up root's rights first.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from app.settings import Settings
from tests.validators.sandboxed_python import PYTHON, VIA
from workers.__main__ import main
from workers.validators.running import ServerResources, open_server_resources
from workers.validators.sandbox import Sandbox

MODULE = "tests.e2e.sandboxed_worker"


@asynccontextmanager
async def open_resources(settings: Settings) -> AsyncIterator[ServerResources]:
    """Open the resources of a worker, and the sandbox of the tests if there is one."""
    others = settings.model_copy(update={"python_tests": False})
    async with open_server_resources(others) as resources:
        yield replace(resources, sandbox=Sandbox(PYTHON, VIA) if PYTHON else None)


if __name__ == "__main__":
    sys.exit(main(open_resources))
