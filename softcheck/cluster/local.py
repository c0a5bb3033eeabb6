"""A Dask cluster of this machine, with a worker for each GPU, and clusters that exist already. Imports no torch."""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dask
from distributed import Client, Nanny, Scheduler, SpecCluster, Status

from softcheck.cluster.dask import DaskCluster, has_dashboard
from softcheck.errors import NothingRunError, SoftcheckError, UsageError
from softcheck.run.every_pair import WORKERS
from softcheck.run.pool import default_jobs

_CONFIG = {
    # The client decides what becomes of a request whose worker has ended.
    "distributed.scheduler.allowed-failures": 0,
    # A request belongs to its process.
    "distributed.scheduler.work-stealing": False,
    # It would end a Nanny whose worker, lost so long ago, has come back and been lost again; ``_revive`` replaces Nannies.
    "distributed.deploy.lost-worker-timeout": "1000 days",
    # Read while a worker's process imports Dask.
    "distributed.nanny.pre-spawn-environ.DASK_LOGGING__DISTRIBUTED": "critical",
}
_ANSWER_SECONDS = 60.0
"""Seconds within which a scheduler must answer, and the workers that are waited for must have come."""


@contextlib.contextmanager
def on_gpus(chosen: str, variants: Sequence[str], jobs: int | None = None) -> Iterator[DaskCluster]:
    """A cluster with a worker for each chosen GPU of this machine: ``all``, or numbers as in ``0,2``.

    Numbers count the GPUs that this process sees. Raises NothingRunError if there is none, and UsageError for a number
    that there is not.
    """
    seen = gpus_seen()
    if not seen:
        raise NothingRunError(
            f"--gpus {chosen}: torch sees no CUDA device; without a GPU, --workers 2 runs two workers under the interpreter"
        )
    numbers = range(len(seen)) if chosen == "all" else _numbers(chosen, len(seen))
    environments = [{"CUDA_VISIBLE_DEVICES": seen[number]} for number in numbers]
    each = (default_jobs("interpreter") if jobs is None else jobs) // len(environments)
    threads = min(max(2, each), default_jobs("cuda")) + WORKERS
    with _on_this_machine(environments, "GPU", threads, variants) as cluster:
        yield cluster


@contextlib.contextmanager
def on_cores(workers: int, variants: Sequence[str], jobs: int | None = None) -> Iterator[DaskCluster]:
    """A cluster of so many workers that use no GPU of this machine."""
    threads = default_jobs("interpreter") if jobs is None else jobs
    environments = [{"CUDA_VISIBLE_DEVICES": ""}] * workers
    with _on_this_machine(environments, "CPU", max(1, threads // workers), variants) as cluster:
        yield cluster


@contextlib.contextmanager
def joined(scheduler: str, variants: Sequence[str], workers: int | None = None) -> Iterator[DaskCluster]:
    """The cluster of a scheduler, named by its address or its file, once it has ``workers`` workers, by default 1.

    Raises UsageError if it does not answer, or its workers don't come in time.
    """
    _quieten()
    file = scheduler if Path(scheduler).exists() else None
    try:
        client = Client(None if file else scheduler, scheduler_file=file, timeout=_ANSWER_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"--scheduler {scheduler}: no scheduler answered within {_ANSWER_SECONDS:g} s ({error}); expected an address "
            "such as tcp://host:8786, or the file of dask scheduler --scheduler-file"
        ) from None
    with contextlib.closing(client):
        try:
            client.wait_for_workers(workers or 1, timeout=_ANSWER_SECONDS)
        except TimeoutError:
            there = len(client.scheduler_info(n_workers=-1)["workers"])
            raise UsageError(
                f"--scheduler {scheduler} has {there} workers after {_ANSWER_SECONDS:g} s; expected {workers or 1}"
            ) from None
        with contextlib.closing(DaskCluster(client, variants)) as cluster:
            yield cluster


@contextlib.contextmanager
def _on_this_machine(
    environments: Sequence[dict[str, str]], resource: str, threads: int, variants: Sequence[str]
) -> Iterator[DaskCluster]:
    _quieten()
    options: dict[str, Any] = {
        "nthreads": threads,
        "resources": {resource: 1},
        # The Dask worker itself is small, and its processes are not counted.
        "memory_limit": 0,
        "preload": ["softcheck.cluster.host"],
        "dashboard": False,
    }
    nannies = {
        number: {"cls": Nanny, "options": options | {"env": environment}}
        for number, environment in enumerate(environments)
    }
    addresses = {"host": "127.0.0.1", "port": 0, "dashboard_address": "127.0.0.1:0"}
    scheduler = {"cls": Scheduler, "options": {**addresses, "dashboard": has_dashboard()}}
    with (
        dask.config.set(_CONFIG),
        _started(nannies, scheduler) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.wait_for_workers(len(nannies), timeout=_ANSWER_SECONDS)
        devices = DaskCluster(client, variants, revive=lambda: _revive(cluster))
        with contextlib.closing(devices):
            yield devices


def _revive(cluster: SpecCluster) -> None:
    """Replaces Nannies that could not start their workers anew and have ended."""
    for number, nanny in list(cluster.workers.items()):
        if nanny.status in {Status.closed, Status.failed}:
            del cluster.workers[number]
    cluster.scale(len(cluster.worker_spec))


@contextlib.contextmanager
def _started(nannies: dict[int, Any], scheduler: dict[str, Any]) -> Iterator[SpecCluster]:
    try:
        with _ignoring_interrupts():
            cluster = SpecCluster(workers=nannies, scheduler=scheduler, silence_logs=False)
    except (RuntimeError, OSError) as error:
        raise SoftcheckError(
            f"a Dask worker could not be started ({error}); expected {len(nannies)} of them"
        ) from error
    try:
        yield cluster
    finally:
        # Dask asserts that no worker is just being started; such a one ends with this process.
        with contextlib.suppress(AssertionError):
            cluster.close()


@contextlib.contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Ignores Ctrl-C, for the seconds in which Dask starts: its processes inherit that, and a terminal's Ctrl-C goes to all."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _quieten() -> None:
    """Leaves out what Dask says of each worker that ends: softcheck makes its requests again.

    Hypothesis, too, warns of numbers that Dask's own threads draw while it draws inputs, on which they have no influence.
    """
    warnings.filterwarnings("ignore", "Do not use the `random` module inside strategies")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)


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
