"""Division of a machine's cores among the reports that run on it at once. Imports no torch."""

import contextlib
import fcntl
import math
import os
import tempfile
from pathlib import Path


class Share:
    """One report's share of the cores. Its file is locked while it runs, so that a killed report is not counted."""

    def __init__(self, folder: Path | None = None) -> None:
        """Registers this report. If no file can be made or locked in the folder, this report counts as the only one."""
        self._folder = folder or Path(tempfile.gettempdir()) / f"softcheck-running-{os.getuid()}"
        self._left = contextlib.ExitStack()
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            file = self._left.enter_context(tempfile.NamedTemporaryFile(dir=self._folder))  # noqa: SIM115 - its context is
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def reports(self) -> int:
        """Returns the number of reports that run now, this one included. Removes the files of killed reports."""
        try:
            return max(1, sum(map(_is_running, self._folder.iterdir())))
        except OSError:
            return 1

    def of(self, jobs: int) -> int:
        """The number of jobs, of ``jobs``, that this report may run at once."""
        return max(1, math.ceil(jobs / self.reports()))

    def leave(self) -> None:
        """Leaves the cores to the other reports. Safe to call twice."""
        self._left.close()


def _is_running(path: Path) -> bool:
    try:
        with path.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
