"""The engine: strategies as coroutines without an event loop. No I/O, no clock, no randomness."""
