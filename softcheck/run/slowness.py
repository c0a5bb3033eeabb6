"""The speed of this process at running Python, of which Triton's interpreter is made.

Limits of time would let a slow machine try less than a quick one, and find less.
"""

import time

_USUAL_SECONDS = 0.0033
"""Seconds of the processor for the work below on the machine where limits of time were chosen."""
_MOST = 4.0
"""A report on a slower machine would take too long to wait for."""


def slowness() -> float:
    """Returns how many times longer Python takes here and now than where limits of time were chosen, from 1 to 4."""
    return min(_MOST, max(1.0, _seconds() / _USUAL_SECONDS))


def _seconds() -> float:
    """The processor's seconds for a fixed piece of Python: calls, attributes and small objects, as in an interpreter."""
    begun = time.process_time()
    kept: dict[int, str] = {}
    for number in range(25_000):
        kept[number & 255] = str(number)[-2:]
    return time.process_time() - begun
