"""``--gpus``, ``--scheduler`` and ``--workers``: the cluster on which a command runs."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from softcheck.cli.options import gathered
from softcheck.errors import UsageError
from softcheck.run.process import DeviceChoice

if TYPE_CHECKING:
    from softcheck.cluster.dask import DaskCluster

OPTIONS = ("gpus", "scheduler", "workers")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChoice:
    """The cluster that a command line asks for; none if all fields are None."""

    gpus: str | None = None
    scheduler: str | None = None
    workers: int | None = None

    @property
    def is_wanted(self) -> bool:
        """True if any cluster is asked for."""
        return any(getattr(self, name) is not None for name in OPTIONS)

    def device(self, device: DeviceChoice) -> DeviceChoice:
        """The device of each worker. Raises UsageError if the options contradict each other."""
        if self.gpus is not None and (self.scheduler is not None or self.workers is not None):
            raise UsageError("--gpus is for this machine's GPUs; leave out --scheduler and --workers, or --gpus")
        on_cores = self.workers is not None and self.scheduler is None
        wrong = {"interpreter": self.gpus is not None, "cuda": on_cores}.get(device)
        if wrong:
            raise UsageError(
                f"--device {device} contradicts {'--workers, which uses no GPU' if on_cores else '--gpus'}; leave one of them out"
            )
        return "interpreter" if on_cores else "cuda" if self.gpus is not None else device


cluster_options = gathered(
    "cluster",
    ClusterChoice,
    click.option("--gpus", metavar="all|0,2", help="Spread the work over these GPUs, with a Dask worker for each."),
    click.option(
        "--scheduler", metavar="ADDRESS|FILE", help="Spread the work over the Dask cluster of this scheduler."
    ),
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        metavar="N",
        help="Spread the work over N Dask workers without a GPU; with --scheduler, wait for so many.",
    ),
)
"""``--gpus``, ``--scheduler`` and ``--workers``, as the parameter ``cluster``."""


@contextlib.contextmanager
def opened(choice: ClusterChoice, variants: Sequence[str], jobs: int | None = None) -> Iterator["DaskCluster | None"]:
    """The cluster that is asked for, and None for this machine alone. Ends what it has started.

    Raises UsageError if Dask is not installed, and what ``softcheck.cluster.local`` raises.
    """
    if not choice.is_wanted:
        yield None
        return
    try:
        from softcheck.cluster import local
    except ImportError as error:
        raise UsageError(
            f"--gpus, --scheduler and --workers need Dask ({error}); install it with: pip install 'softcheck[cluster]'"
        ) from None
    if choice.gpus is not None:
        found = local.on_gpus(choice.gpus, variants, jobs)
    elif choice.scheduler is not None:
        found = local.joined(choice.scheduler, variants, choice.workers)
    else:
        found = local.on_cores(choice.workers or 1, variants, jobs)
    with found as cluster:
        if cluster.dashboard is not None:
            click.echo(f"softcheck: dashboard: {cluster.dashboard}", err=True)
        yield cluster
