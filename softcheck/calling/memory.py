"""Memory of a GPU that other processes hold: what a call lacks for that reason says nothing about the variant."""

import gc
import re
import time
from collections.abc import Callable
from typing import TypeVar

import torch

from softcheck.calling.unable import causes

Made = TypeVar("Made")

CACHED_BYTES = 2**30
"""Device memory that torch may keep for itself between calls. If it kept more, other workers would find too little."""

_WAITS = (0.5, 2.0, 4.0)
"""Seconds to wait before each further attempt. Large inputs of other workers come and go in as many."""

_ASKED = re.compile(r"Tried to allocate ([\d.]+) (bytes|KiB|MiB|GiB)")
_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def refuse_lack(error: BaseException, device: torch.device) -> None:
    """Raises torch.OutOfMemoryError if that is why a call raised ``error``, and it asked for no more than half of a GPU's memory at once."""
    if device.type != "cuda":
        return
    for cause in causes(error):
        asked = _ASKED.search(str(cause)) if isinstance(cause, torch.OutOfMemoryError) else None
        if asked and float(asked[1]) * _UNITS[asked[2]] <= torch.cuda.get_device_properties(device).total_memory / 2:
            raise torch.OutOfMemoryError(str(cause)) from None


def lack_in_words(error: BaseException) -> str:
    """Says, as a reason for which something was not run, what an exception says of missing memory."""
    return f"too little memory: {' '.join(str(error).split())[:200]}"


def patiently(make: Callable[[], Made], device: torch.device) -> Made:
    """Returns ``make()``, tried again for a while where a GPU has too little memory; then raises torch.OutOfMemoryError."""
    for seconds in _WAITS if device.type == "cuda" else ():
        try:
            return make()
        except torch.OutOfMemoryError:
            pass
        # Not in the handler, where the exception holds the memory of the failed attempt.
        give_back(device, keeps=0)
        time.sleep(seconds)
    return make()


def give_back(device: torch.device, keeps: int = CACHED_BYTES) -> None:
    """Gives the device's memory back that this process no longer uses, if it is more than ``keeps`` bytes."""
    if device.type == "cuda" and torch.cuda.memory_reserved(device) > keeps:
        gc.collect()
        torch.cuda.empty_cache()
