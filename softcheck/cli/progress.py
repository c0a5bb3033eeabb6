"""Progress of a long run on standard error, hidden where that is no terminal."""

from collections.abc import Iterator
from contextlib import contextmanager

from softcheck.run.model import Events


@contextmanager
def shown() -> Iterator[Events]:
    """Events that draw a bar while the block runs."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )
    with bar:
        task = bar.add_task("starting", total=None)

        def stage(name: str) -> None:
            bar.reset(task, description=name, total=None)

        def progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield Events(stage, progress)
