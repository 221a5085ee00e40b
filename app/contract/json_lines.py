"""JSON Lines that every reader splits where a line ends, and nowhere else."""

LINE_ENDS = ("\x85", "\u2028", "\u2029")
"""What JSON may have as it is and Unicode takes for the end of a line, as `str.splitlines` does."""

_ESCAPED = [(end.encode(), b"\\u%04x" % ord(end)) for end in LINE_ENDS]


def json_lines(lines: bytes) -> bytes:
    """Return JSON Lines (UTF-8) with such characters escaped."""
    for end, escaped in _ESCAPED:
        lines = lines.replace(end, escaped)
    return lines
