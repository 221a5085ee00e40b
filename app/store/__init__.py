"""Refinements and their journals in Redis: the only package that spells a Redis key."""

from app.store.achievements import Achieved
from app.store.appending import Journal
from app.store.connection import UnusableRedis
from app.store.opening import open_store, open_wakeups, open_worker_store
from app.store.posting import Queue
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
from app.store.worker import WorkerStore

__all__ = [
    "Achieved",
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
    "UnusableRedis",
    "Wakeups",
    "WorkerStore",
    "open_store",
    "open_wakeups",
    "open_worker_store",
]
