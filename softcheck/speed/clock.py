"""The clock that a device brings: events around a call, a flush that empties the cache, graphs of several calls."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, Literal, NamedTuple

import torch

from softcheck.calling.call import describe, is_usable

Call = Callable[[], Any]
Span = Callable[[], float]
"""Gives the seconds of a span once the device has finished it; waits for that."""

RESOLUTION = 0.5e-6
"""Seconds that two CUDA events can tell apart. Source: CUDA runtime API, cudaEventElapsedTime."""
_DELAY_CYCLES = 300_000
"""Some 150 us in which the device waits while the host launches, so that a span holds no waiting for the host."""

_HOLD_UP_CYCLES = 6_000_000
"""Some 3 ms: longer than the host takes to launch anything that is compiled."""


class Captured(NamedTuple):
    """A call that can be replayed, and what it returned: memory that each replay writes anew."""

    replay: Call
    returned: Any


class CudaClock:
    """Times calls on a CUDA device, by events, flushes and graphs."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.properties = torch.cuda.get_device_properties(device)
        size = 2 * self.properties.L2_cache_size
        # Read, not written: lines that were only read leave the cache at once, as ncu's cache control leaves them too.
        self._flushing = torch.ones(size // 4, dtype=torch.int32, device=device)
        self._into = torch.empty((), dtype=torch.int32, device=device)

    def flush(self) -> None:
        """Empties the cache of everything that a call could read, by reading twice the L2's size from elsewhere."""
        torch.amax(self._flushing, dim=0, out=self._into)

    def span(self, call: Call, *, hide_launch: bool) -> tuple[Any, Span]:
        """Runs a call between two events; what it returned and its span. Hidden, the launch takes no part in the span."""
        begin, end = _event(), _event()
        if hide_launch:
            torch.cuda._sleep(_DELAY_CYCLES)  # type: ignore[no-untyped-call]  # noqa: SLF001 - torch's own tests hide launches this way; nothing public does
        else:
            self.synchronize()
        begin.record()
        returned = call()
        end.record()

        def seconds() -> float:
            end.synchronize()
            return float(begin.elapsed_time(end)) / 1e3

        return returned, seconds

    def capture(self, call: Call) -> Captured | str:
        """A CUDA graph of the call; the reason where it synchronizes, leaves work on another stream or raises."""
        graph = torch.cuda.CUDAGraph()
        try:
            stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream(self._device))
            with torch.cuda.stream(stream):
                call()
            torch.cuda.current_stream(self._device).wait_stream(stream)
            self.synchronize()
            with torch.cuda.graph(graph):
                returned = call()
            graph.replay()
            self.synchronize()
        except Exception as error:  # noqa: BLE001 - whatever a variant does that a graph can't hold is the reason
            self._recover()
            return describe(error)
        return Captured(graph.replay, returned)

    def _recover(self) -> None:
        """A failed capture leaves an error behind that the next call would be blamed for."""
        for _ in range(2):
            try:
                self.synchronize()
            except RuntimeError:
                continue
            return

    def alive(self) -> bool:
        """True if the device can still be used: an illegal access ruins it for the whole process."""
        return is_usable(self._device)

    def hold_up(self) -> None:
        """Keeps the caller's stream busy for some milliseconds, while the host goes on."""
        torch.cuda._sleep(_HOLD_UP_CYCLES)  # type: ignore[no-untyped-call]  # noqa: SLF001 - as in span

    def room(self) -> int:
        """Bytes of free memory, what torch has cached and would hand out again included."""
        free, _ = torch.cuda.mem_get_info(self._device)
        return int(free) + torch.cuda.memory_reserved(self._device) - torch.cuda.memory_allocated(self._device)

    def synchronize(self) -> None:
        """Waits for the whole device, other streams included."""
        torch.cuda.synchronize(self._device)

    def cache_state(self) -> Literal["cold", "unverified"]:
        """Reads half the L2 after a flush and once more: only where the first takes longer has the flush worked."""
        size = self.properties.L2_cache_size // 2
        data = torch.ones(size // 4, dtype=torch.int32, device=self._device)

        def read() -> None:
            torch.amax(data, dim=0, out=self._into)

        cold, warm = [], []
        for _ in range(15):
            self.flush()
            cold.append(self.span(read, hide_launch=True)[1]())
            warm.append(self.span(read, hide_launch=True)[1]())
        return "cold" if median(cold) > 1.1 * median(warm) else "unverified"

    def peak_bytes_per_second(self) -> float | None:
        """Largest rate of the memory by its clock and bus width; None if torch does not know them."""
        clock = getattr(self.properties, "memory_clock_rate", 0)
        width = getattr(self.properties, "memory_bus_width", 0)
        return 2.0 * clock * 1e3 * width / 8 if clock and width else None


def estimate(clock: CudaClock, call: Call, *, most: int, settled: Callable[[Sequence[float]], bool]) -> list[float]:
    """Warms a call up until its times settle, or after ``most`` launches; the times."""
    times: list[float] = []
    while len(times) < most and not settled(times):
        times.append(clock.span(call, hide_launch=True)[1]())
    return times


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
