"""What Hone is compared with: each runs the same eight calls in its own way, as well as it can.

A peer is a process: it prints `{}` when it is ready, runs when told `go`, and prints its result.
"""
