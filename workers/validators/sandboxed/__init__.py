"""Programs for the inside of the sandbox: the draft in one process, its tests in another.

They use the standard library alone, and reach the sandbox as text.
"""
