"""Device and software of a run."""

import os
import shlex
import subprocess
from collections.abc import Sequence

from softcheck import __version__
from softcheck.report.model import Environment
from softcheck.run.protocol import Ready


def environment(ready: Ready, seed: int, command: Sequence[str]) -> Environment:
    """Returns the device and software of a run; ``command`` is the command that the user typed."""
    same = {name: getattr(ready, name) for name in ("backend", "device", "driver", "torch", "triton", "python")}
    return Environment(**same, softcheck=__version__, seed=seed, git_commit=_git_commit(), command=shlex.join(command))


def _git_commit() -> str | None:
    """Commit for the record: GIT_COMMIT if the environment has it, as a copy without .git may, else the checkout's."""
    if os.environ.get("GIT_COMMIT"):
        return os.environ["GIT_COMMIT"]
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"],  # noqa: S607 - git is found as the user's shell would
            capture_output=True,
            text=True,
            check=False,
            timeout=5,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
