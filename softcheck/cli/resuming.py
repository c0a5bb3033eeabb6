"""The place of ``softcheck report``'s journal, and ``--resume``, which gives the options of the killed run again."""

import contextlib
import os
import re
import shlex
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click

from softcheck.cli.config import as_written, is_typed
from softcheck.cli.options import OPTIONS
from softcheck.run.journal import RunHeader, read_header
from softcheck.run.record import Keeping

_NOT_KEPT = (
    "output",
    "format_",
    "journal",
    "resume",
    "jobs",
    "save",
    "specs",
    "call",
    "declare",
    "backward",
    "operation",
    *OPTIONS,
)
"""Options on which no figure depends."""

DAYS_KEPT = 30
"""Days for which the journal of a killed run can be resumed, unless a name was given to it."""

_OWN_NAME = re.compile(r"\.?softcheck-(report-\d{8}-\d{6}-\d+\.journal(\.tmp)?|sent-[0-9a-f]{12}\.py)")
"""Names of journals, of unfinished ones that a kill left, and of functions that ``softcheck.check`` has sent."""

_META_KEY = "softcheck.resumed"


def take_up(context: click.Context, _option: click.Parameter, value: Path | None) -> Path | None:
    """Eager callback of ``--resume``: the killed run's options become the defaults of this one. Raises UsageError for no journal of this command."""
    if value is not None:
        kept = read_header(value, RunHeader).settings
        known = {str(p.name): p for p in context.command.params if isinstance(p, click.Option)}
        settings = {
            name: as_written(known[name], of) for name, of in kept.items() if name in known and name not in _NOT_KEPT
        }
        with contextlib.suppress(OSError):
            os.utime(value)
        context.meta[_META_KEY] = settings
        context.default_map = {**(context.default_map or {}), **settings}
    return value


def given(context: click.Context, *names: str) -> bool:
    """True if one of the options was given for this run, or for the killed run that it resumes."""
    return any(is_typed(context, name) or name in context.meta.get(_META_KEY, {}) for name in names)


def keeping(context: click.Context, journal: Path | None, resume: Path | None) -> Keeping:
    """Returns the journal of this run's measurements: the resumed one, the one named, or a new one. On a terminal it says where that is."""
    settings: dict[str, Any] = {
        name: value for name, value in context.params.items() if name not in _NOT_KEPT and given(context, name)
    }
    path = resume or journal
    if path is None:
        clear_away(state_folder())
        path = new_file(f"softcheck-report-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.journal")
    if sys.stderr.isatty():
        # To someone who may have to look for it after a kill.
        click.echo(f"softcheck: journal {path}", err=True)
    return Keeping(path=path, resume=resume is not None, settings=settings)


def clear_away(folder: Path) -> None:
    """Removes softcheck's own journals and copies of functions that no run has written to for ``DAYS_KEPT`` days, where they can be removed."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(folder)):
            with contextlib.suppress(OSError):
                is_ours = _OWN_NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
                if is_ours and entry.stat().st_mtime < time.time() - DAYS_KEPT * 86400:
                    Path(entry).unlink()


def say_how_to_go_on(kept: Keeping) -> None:
    """The command that goes on with a run that was cut short."""
    if kept.path.exists():
        command = shlex.join(["softcheck", "report", "--resume", str(kept.path)])
        until = "" if kept.path.parent != state_folder() else f" for {DAYS_KEPT} days"
        click.echo(f"softcheck: what was measured is kept{until}; go on with: {command}", err=True)


def state_folder() -> Path:
    """The user's folder for such files, as the XDG base directory specification names it."""
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if base.startswith("/") else Path("~/.local/state").expanduser()) / "softcheck"


def new_file(name: str) -> Path:
    """A path in the user's folder; in the folder for temporary files where the user's own can't be written."""
    folder = state_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        usable = os.access(folder, os.W_OK)
    except OSError:
        usable = False
    if not usable:
        folder = Path(tempfile.gettempdir())
    return folder / name
