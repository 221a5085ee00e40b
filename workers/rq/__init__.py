"""An RQ worker that runs many coroutine jobs on one event loop."""
