"""The judge: measures one output against the exact answer. ``judge.judge`` is its entry, ``measurement`` its result."""
