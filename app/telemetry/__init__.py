"""What a process tells the people who operate it."""

from app.telemetry.logs import Formats, configure_logs, request_id, safe_request_id

__all__ = ["Formats", "configure_logs", "request_id", "safe_request_id"]
