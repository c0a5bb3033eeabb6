"""A clock for tests without a GPU: the engine's order, checks and statistics are the same, the seconds mean nothing."""

import time

from softcheck.speed.clock import Captured


class HostClock:
    def __init__(self, *, captures=False, seconds=None):
        """With ``seconds`` every call takes just that long, however busy the machine is."""
        self.captures = captures
        self.seconds = seconds
        self.flushes = 0
        self.lives = True
        self.peak = None

    def peak_bytes_per_second(self):
        return self.peak

    def flush(self):
        self.flushes += 1

    def span(self, call, *, hide_launch):
        begun = time.perf_counter()
        returned = call()
        seconds = time.perf_counter() - begun if self.seconds is None else self.seconds
        return returned, lambda: seconds

    def capture(self, call):
        if not self.captures:
            return "the host has no graphs"
        returned = call()

        def replay():
            for kept, new in zip(returned, call(), strict=True):
                kept.copy_(new)

        return Captured(replay, returned)

    def alive(self):
        return self.lives

    def hold_up(self):
        pass

    def room(self):
        return 2**30

    def synchronize(self):
        pass

    def cache_state(self):
        return "cold"
