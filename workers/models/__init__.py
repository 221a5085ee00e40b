"""Models: one port, and one adapter for each wire format."""
