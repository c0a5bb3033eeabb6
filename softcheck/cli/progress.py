"""Progress of a long run on standard error: a bar and verdicts so far on a terminal, elsewhere a line now and then.

The first finding of each kind of a variant in a dtype has a line of its own in both, as soon as it is there.
"""

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from softcheck.cases.case import Case
from softcheck.report.reproduce import in_time, probe_command, reproduce_command
from softcheck.run.model import Events, FirstFinding, Standing

if TYPE_CHECKING:
    from rich.progress import TaskID

SECONDS = 10.0
"""Between two lines where standard error is no terminal."""


@contextmanager
def shown(corpora: Sequence[str] = ()) -> Iterator[Events]:
    """Events that are shown while the block runs. ``corpora`` are those that commands name which show a finding again."""
    told = _Progress(corpora)
    over = threading.Event()

    def tell() -> None:
        while not over.wait(SECONDS):
            told.line(told.in_words())

    if not told.is_terminal:
        threading.Thread(target=tell, daemon=True).start()
    try:
        with told.bar:
            yield Events(told.stage, told.progress, told.standing, told.found, told.line)
    finally:
        over.set()


class _Progress:
    """The stage that runs, and the verdicts so far."""

    def __init__(self, corpora: Sequence[str]) -> None:
        from rich import progress
        from rich.console import Console

        self.is_terminal = sys.stderr.isatty()
        self.bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=not self.is_terminal,
            # The rate is that of a whole stage, but for its first part, in which a GPU compiles and loads.
            speed_estimate_period=1e9,
        )
        self._corpora = corpora
        self._begun = time.monotonic()
        self._task = self.bar.add_task("starting", total=None)
        self._verdicts: dict[tuple[str, str], TaskID] = {}
        self._standings: dict[tuple[str, str], Standing] = {}

    def stage(self, name: str) -> None:
        self.bar.reset(self._task, description=name)

    def progress(self, done: int, total: int) -> None:
        self.bar.update(self._task, completed=done, total=total)

    def standing(self, now: Standing) -> None:
        of = now.variant, now.dtype
        self._standings[of] = now
        if of not in self._verdicts:
            self._verdicts[of] = self.bar.add_task("", total=None)
        self.bar.update(self._verdicts[of], description=str(now), completed=now.results)

    def line(self, text: str) -> None:
        if self.is_terminal:
            # Unwrapped, so that a command can be copied.
            self.bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            click.echo(f"softcheck: {text}", err=True)

    def found(self, first: FirstFinding) -> None:
        """Variant, dtype, kind and case, and the command with which the report's end shows it again too."""
        made_by = first.made_by
        if isinstance(made_by, Case):
            again = reproduce_command(first.variant, made_by, first.backend, self._corpora)
        else:
            again = probe_command(made_by, first.backend)
        again = in_time(again, first.kind, first.seconds_per_call)
        self.line(f"{first.variant} {first.dtype}: {first.kind} at {first.where}; {again}")

    def in_words(self) -> str:
        """The stage, how far it is, and how many verdicts fail so far."""
        now = self.bar.tasks[0]
        done = f", {now.completed:.0f} of {now.total or 0:.0f}" if now.completed else ""
        left = "" if now.time_remaining is None else f", about {timedelta(seconds=round(now.time_remaining))} left"
        broken = sum(bool(each.kinds) for each in self._standings.values())
        said = f"; {broken} of {len(self._standings)} verdicts fail so far" if self._standings else ""
        return f"{time.monotonic() - self._begun:.0f} s: {now.description}{done}{left}{said}"
