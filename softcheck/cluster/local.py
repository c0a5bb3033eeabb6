"""Several GPUs of this machine, or several workers without one: processes that each see their own device. Imports no torch."""

import itertools
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from softcheck.errors import NothingRunError, UsageError
from softcheck.run.pool import default_jobs
from softcheck.run.process import DeviceChoice, Worker


class LocalDevices:
    """The devices of a pool: a place for each value of CUDA_VISIBLE_DEVICES. Threads may share this object."""

    def __init__(self, visible: Sequence[str], jobs: int) -> None:
        """``jobs`` are the requests that a pool makes at once."""
        self.visible = tuple(visible)
        self.places = len(self.visible)
        self.jobs = jobs
        self._next = itertools.cycle(range(self.places))

    def start_all(self, choice: DeviceChoice, *, check_heap: bool) -> list[Worker]:
        """Starts a process at each place. Raises UsageError if two places differ in device or software."""
        with ThreadPoolExecutor(self.places) as threads:
            starts = [threads.submit(self.start, choice, place=n, check_heap=check_heap) for n in range(self.places)]
            workers = [start.result() for start in starts]
        for worker in workers:
            if worker.ready.device != workers[0].ready.device:
                raise UsageError(
                    f"GPU {self.visible[worker.place]} is a {worker.ready.device}, and GPU {self.visible[0]} a "
                    f"{workers[0].ready.device}; a report is of one kind of device, so name GPUs of one kind"
                )
        return workers

    def start(self, choice: DeviceChoice, *, place: int | None, check_heap: bool) -> Worker:
        """Starts a process at a place, by default at each in turn."""
        at = next(self._next) if place is None else place
        worker = Worker(choice, check_heap=check_heap, environment={"CUDA_VISIBLE_DEVICES": self.visible[at]})
        worker.place = at
        return worker


def on_gpus(chosen: str, jobs: int | None = None) -> LocalDevices:
    """The chosen GPUs of this machine: ``all``, or numbers as in ``0,2``.

    Numbers count the GPUs that this process sees. Raises NothingRunError if there is none, and UsageError for a number
    that there is not.
    """
    seen = gpus_seen()
    if not seen:
        raise NothingRunError(
            f"--gpus {chosen}: torch sees no CUDA device; without a GPU, --workers 2 runs two workers under the interpreter"
        )
    numbers = range(len(seen)) if chosen == "all" else _numbers(chosen, len(seen))
    each = (default_jobs("interpreter") if jobs is None else jobs) // len(numbers)
    return LocalDevices([seen[number] for number in numbers], len(numbers) * min(max(2, each), default_jobs("cuda")))


def on_cores(workers: int, jobs: int | None = None) -> LocalDevices:
    """So many places that see no GPU of this machine."""
    each = (default_jobs("interpreter") if jobs is None else jobs) // workers
    return LocalDevices([""] * workers, workers * max(1, each))


def gpus_seen() -> list[str]:
    """The GPUs that this process sees, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    code = "import torch; print(torch.cuda.device_count())"
    # A process of its own: this one must not hold a device, nor import torch.
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    count = int(told.stdout) if told.returncode == 0 else 0
    return named.split(",")[:count] if named else [str(number) for number in range(count)]


def _numbers(chosen: str, count: int) -> list[int]:
    numbers = [int(word) if word.strip().isdecimal() else -1 for word in chosen.split(",")]
    if not all(0 <= number < count for number in numbers) or len(set(numbers)) < len(numbers):
        raise UsageError(
            f"--gpus {chosen}: expected all, or different numbers from 0 to {count - 1}, as in --gpus 0,{count - 1}"
        )
    return numbers
