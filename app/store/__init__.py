"""Refinements and their journals in Redis: the only package that spells a Redis key."""

from app.store.opening import Queue, open_store, open_wakeups, open_worker_store
from app.store.state import (
    Claimed,
    Created,
    Entry,
    Fenced,
    Fields,
    Job,
    NewRefinement,
    StaleLimits,
    State,
    StoredEvent,
    Submitted,
)
from app.store.store import Store
from app.store.wakeups import Changed, Wakeups
from app.store.worker import Journal, WorkerStore

__all__ = [
    "Changed",
    "Claimed",
    "Created",
    "Entry",
    "Fenced",
    "Fields",
    "Job",
    "Journal",
    "NewRefinement",
    "Queue",
    "StaleLimits",
    "State",
    "Store",
    "StoredEvent",
    "Submitted",
    "Wakeups",
    "WorkerStore",
    "open_store",
    "open_wakeups",
    "open_worker_store",
]
