"""Models: one port, and an adapter for each way to reach one."""
