"""The operations of the API beyond the store, without HTTP: submit, watch, review, report."""

from app.service.admission import Admission
from app.service.batches import Batches
from app.service.model_roles import ModelRoles, Selection
from app.service.service import Accepted, Service
from app.service.spread import Spread
from app.service.watching import Batch, EventFeed, News, Shutdown, Watching

__all__ = [
    "Accepted",
    "Admission",
    "Batch",
    "Batches",
    "EventFeed",
    "ModelRoles",
    "News",
    "Selection",
    "Service",
    "Shutdown",
    "Spread",
    "Watching",
]
