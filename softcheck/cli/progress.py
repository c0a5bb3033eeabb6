"""Progress of a long run on standard error: a bar and verdicts so far on a terminal, elsewhere a line now and then.

The first finding of each kind of a variant in a dtype has a line of its own in both, as soon as it is there.
"""

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from softcheck.cases.case import Case
from softcheck.report.probes import probe_command
from softcheck.report.reproduce import in_time, reproduce_command
from softcheck.run.model import Events, FirstFinding, Standing

SECONDS = 10.0
"""Between two lines where standard error is no terminal."""


@contextmanager
def shown(corpora: Sequence[str] = ()) -> Iterator[Events]:
    """Events that are shown while the block runs. ``corpora`` are those that commands name which show a finding again."""
    with _on_a_terminal(corpora) if sys.stderr.isatty() else _in_lines(corpora) as events:
        yield events


def _line_of(first: FirstFinding, corpora: Sequence[str]) -> str:
    """Variant, dtype, kind and case, and the command with which the report's end shows it again too."""
    made_by = first.made_by
    if isinstance(made_by, Case):
        again = reproduce_command(first.variant, made_by, first.backend, corpora)
    else:
        again = probe_command(made_by, first.backend)
    return f"{first.variant} {first.dtype}: {first.kind} at {first.where}; {in_time(again, first.kind, first.seconds_per_call)}"


@contextmanager
def _on_a_terminal(corpora: Sequence[str]) -> Iterator[Events]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("starting", total=None)
        verdicts: dict[tuple[str, str], TaskID] = {}

        def stage(name: str) -> None:
            bar.reset(task, description=name, total=None)

        def progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        def standing(now: Standing) -> None:
            row = verdicts.get((now.variant, now.dtype))
            if row is None:
                row = verdicts[now.variant, now.dtype] = bar.add_task("", total=None, visible=True)
            bar.update(row, description=str(now), completed=now.results)

        def found(first: FirstFinding) -> None:
            # Unwrapped, so that the command can be copied.
            bar.console.print(_line_of(first, corpora), markup=False, highlight=False, soft_wrap=True)

        def told(line: str) -> None:
            bar.console.print(line, markup=False, highlight=False, soft_wrap=True)

        yield Events(stage, progress, standing, found, told)


@contextmanager
def _in_lines(corpora: Sequence[str]) -> Iterator[Events]:
    begun = time.monotonic()
    now = {"stage": "starting", "done": ""}
    standings: dict[tuple[str, str], Standing] = {}
    over = threading.Event()
    first: list[tuple[float, int]] = []
    """The time and the count from which on the rate of a stage is told: in its first part a GPU compiles and loads."""

    def stage(name: str) -> None:
        now.update(stage=name, done="")
        first.clear()

    def progress(done: int, total: int) -> None:
        if done and not first:
            first.append((time.monotonic(), done))
        since, before = first[0] if first else (0.0, done)
        each = (time.monotonic() - since) / (done - before) if done > before else None
        left = "" if each is None else f", about {timedelta(seconds=round(each * (total - done)))} left"
        now.update(done=f", {done} of {total}{left}")

    def standing(latest: Standing) -> None:
        standings[latest.variant, latest.dtype] = latest

    def found(first: FirstFinding) -> None:
        told(_line_of(first, corpora))

    def told(line: str) -> None:
        sys.stderr.write(f"softcheck: {line}\n")
        sys.stderr.flush()

    def tell() -> None:
        while not over.wait(SECONDS):
            broken = sum(bool(each.kinds) for each in standings.values())
            said = f"; {broken} of {len(standings)} verdicts fail so far" if standings else ""
            seconds = time.monotonic() - begun
            sys.stderr.write(f"softcheck: {seconds:.0f} s: {now['stage']}{now['done']}{said}\n")
            sys.stderr.flush()

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield Events(stage, progress, standing, found, told)
    finally:
        over.set()
        thread.join()
