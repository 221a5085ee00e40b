"""Outbound requests: the HTTP transport, and the client that only reaches public addresses."""
