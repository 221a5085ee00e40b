"""Processes of one machine: the embedded server, the supervisor, signals, parent death."""
