"""Counts the Triton kernels that this process has interpreted. Imports neither torch nor Triton."""

_counter = [0]


def note() -> None:
    """Counts one launch under the interpreter."""
    _counter[0] += 1


def interpreted() -> int:
    """Launches under the interpreter so far."""
    return _counter[0]
