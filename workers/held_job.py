"""A job whose status and executions are known without asking Redis."""

from functools import cached_property
from typing import cast

from rq.executions import Execution, ExecutionRegistry
from rq.job import Job, JobStatus
from rq.registry import StartedJobRegistry


class HeldJob(Job):
    """A job in this worker's hands.

    RQ reads a job's status and its executions from Redis, one by one, before it deletes the job.
    The worker that holds it knows them.
    """

    execution: Execution | None = None

    def get_status(self, refresh: bool = True) -> JobStatus:
        """Return the status, which nobody else changes."""
        return self._status

    @cached_property
    def started_job_registry(self) -> StartedJobRegistry:
        """Where RQ lists running jobs; to make one anew costs RQ as much as to write into it."""
        return cast("StartedJobRegistry", super().started_job_registry)

    @property
    def execution_registry(self) -> ExecutionRegistry:
        """What RQ would list from Redis."""
        return _HeldExecutions(self)


class _HeldExecutions(ExecutionRegistry):
    def __init__(self, job: HeldJob) -> None:
        super().__init__(job.id, job.connection)
        self._execution = job.execution

    def get_executions(self, start: int = 0, end: int = -1) -> list[Execution]:
        return [] if self._execution is None else [self._execution]
