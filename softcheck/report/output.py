"""Destination of a report: a file, written whole or not at all, or standard output; and its display capabilities."""

import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from softcheck.cases.replacing import replace_file
from softcheck.errors import UsageError

STANDARD_OUTPUT = "-"


@dataclass(frozen=True, slots=True)
class Display:
    """Display capabilities of the reader's end. ``width`` is in characters; None means that nothing may wrap."""

    width: int | None = None
    color: bool = False


PLAIN = Display()


def display_of(path: str) -> Display:
    """Returns the display of a file or, for ``-``, of standard output; NO_COLOR (https://no-color.org) wins over FORCE_COLOR, which colours a pipe."""
    if path != STANDARD_OUTPUT:
        return PLAIN
    terminal = sys.stdout.isatty()
    forced = os.environ.get("FORCE_COLOR", "") not in {"", "0"}
    capable = terminal and os.environ.get("TERM") != "dumb"
    return Display(
        width=shutil.get_terminal_size().columns if terminal else None,
        color=(capable or forced) and not os.environ.get("NO_COLOR"),
    )


def check_writable(path: str) -> None:
    """Raises UsageError for a directory, a missing parent folder, or a place that refuses a new file; leaves an existing file as it is."""
    if path == STANDARD_OUTPUT:
        return
    target = _target(path)
    if target.is_dir():
        raise UsageError(f"--output {path!r} is a directory; expected a file, such as {str(target / 'report.json')!r}")
    if _is_special(target) or target.is_file():
        if not os.access(target, os.W_OK):
            raise UsageError(f"--output {path!r} may not be written; change its permissions or name another file")
        if _is_special(target):
            return
    if not target.parent.is_dir():
        raise UsageError(f"--output {path!r}: there is no folder {str(target.parent)!r}; make it or name another file")
    try:
        tempfile.TemporaryFile(dir=target.parent).close()
    except OSError as error:
        raise UsageError(
            f"--output {path!r}: no file can be made in {str(target.parent)!r} ({error.strerror}); name another folder"
        ) from None


def write(text: str, path: str) -> None:
    """Writes to a file, atomically, or to standard output for ``-``; raises UsageError if it can't, the earlier contents untouched."""
    if path == STANDARD_OUTPUT:
        encoding = sys.stdout.encoding or "utf-8"
        try:
            sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise UsageError(
                f"standard output can't be written ({error.strerror}); name a file with --output"
            ) from None
        return
    target = _target(path)
    data = text.encode("utf-8", "backslashreplace")
    try:
        if _is_special(target):
            target.write_bytes(data)
        else:
            replace_file(target, data)
    except OSError as error:
        raise UsageError(f"--output {path!r} can't be written ({error.strerror}); name another file") from None


def _target(path: str) -> Path:
    """The file itself behind symbolic links, so that a link stays a link."""
    try:
        return Path(path).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(f"--output {path!r} is not a usable path ({error}); name another file") from None


def _is_special(target: Path) -> bool:
    """True if the target is a device or a pipe, which must be written to and never replaced."""
    return target.exists() and not target.is_file() and not target.is_dir()
