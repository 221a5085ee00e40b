"""What the API can do, without HTTP: submit, look, watch, stop, change and erase."""

from app.service.admission import Admission
from app.service.model_roles import ModelRoles
from app.service.selection import Selection
from app.service.service import Accepted, Service, StoredPage
from app.service.watching import News, Shutdown, Watching

__all__ = [
    "Accepted",
    "Admission",
    "ModelRoles",
    "News",
    "Selection",
    "Service",
    "Shutdown",
    "StoredPage",
    "Watching",
]
