"""The peers that Hone is compared with: each runs the same eight calls, as well as it can.

A peer is a process: it prints `{}` when it is ready, runs after it reads a line from standard
input, and prints its result.
"""
