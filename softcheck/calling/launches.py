"""Counts the Triton kernels that this process has interpreted or launched. Imports neither torch nor Triton."""

_counter = [0]


def note() -> None:
    """Counts one launch."""
    _counter[0] += 1


def counted() -> int:
    """Launches so far."""
    return _counter[0]
