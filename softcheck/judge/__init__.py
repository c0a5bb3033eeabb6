"""The judge: what one output shows against the exact answer. ``judge.judge`` is its entry, ``measurement`` its result."""
