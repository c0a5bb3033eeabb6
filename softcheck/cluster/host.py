"""The part of a session that runs in a Dask worker: it owns the worker processes of one device. Imports no torch.

A task of Dask is one request to one process. The process is a child of the Dask worker, so that a variant which ruins its
process ruins no Dask worker, and a Dask worker that ends takes its processes with it.
"""

import contextlib
import functools
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from distributed import get_worker

from softcheck import __version__
from softcheck.errors import UsageError
from softcheck.run.journal import fingerprints
from softcheck.run.process import DeviceChoice, Waits, Worker, WorkerDiedError
from softcheck.run.protocol import Ready, Reply, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """One worker process, wherever it is: a process that is lost with its host is started anew under the same id."""

    session: str
    id: str
    device: DeviceChoice
    check_heap: bool
    folder: str
    """The folder in which the user started softcheck: variants are named relative to it."""
    variants: tuple[str, ...]
    """The variants of the session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAnswer:
    """All replies to one request, in order, and how the process ended if it did."""

    place: str
    """Name of the Dask worker that ran it."""
    ready: Ready
    sources: Mapping[str, str] | None = None
    """Digests of the code there if the process was started for this request."""
    replies: tuple[Reply, ...] = ()
    death: WorkerDiedError | None = None


_children: dict[str, Worker] = {}
"""The processes of this Dask worker, by id."""


def serve(child: Child, request: Request | None, limits: dict[str | None, Waits]) -> TaskAnswer:
    """Makes a request to a child, which is started where it does not run here; None only starts it.

    ``limits`` has the limits of each variant, and those of softcheck's own work under None. Raises what ``Worker`` raises
    if the child can't be started.
    """
    worker, digests = _children.get(child.id), None
    if worker is None:
        digests = _sources_in(child.session, child.folder, child.variants)
        with contextlib.suppress(OSError):
            os.chdir(child.folder)
        worker = _children[child.id] = Worker(child.device, check_heap=child.check_heap)
    replies: list[Reply] = []
    death = None
    if request is not None:
        try:
            for reply in worker.ask(request, lambda running: limits.get(running, limits[None])):
                replies.append(reply)  # noqa: PERF402 - those before a death are kept
        except WorkerDiedError as died:
            _children.pop(child.id, None)
            death = died.with_traceback(None)
    return TaskAnswer(
        place=str(get_worker().name), ready=worker.ready, sources=digests, replies=tuple(replies), death=death
    )


def end(child: str) -> None:
    """Ends a child, without waiting until it has ended: this runs in the Dask worker's event loop."""
    worker = _children.pop(child, None)
    if worker is not None:
        threading.Thread(target=worker.close).start()


class Lease:
    """The right of one session to its children, kept in a Dask worker's memory while the session's client lives.

    Dask drops what no client wants. The children of a client that was killed end by that.
    """

    def __init__(self, session: str) -> None:
        self._session = session

    def __del__(self) -> None:
        for child in [name for name in _children if name.startswith(self._session)]:
            end(child)


@functools.cache
def _sources_in(_session: str, folder: str, variants: tuple[str, ...]) -> dict[str, str]:
    """The same as ``sources``, computed once in a session: files may change before the next one."""
    return sources(folder, variants)


def sources(folder: str, variants: tuple[str, ...]) -> dict[str, str]:
    """Digests of the code that a session depends on, as this host has it, with softcheck's version."""
    if Path(folder).is_dir():
        os.chdir(folder)
    try:
        found = fingerprints(variants)
    except UsageError as error:
        found = {"variants": str(error)}
    return {"version": __version__, **found}
