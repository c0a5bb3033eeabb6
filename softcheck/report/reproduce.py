"""The one-line command that shows a finding again, the finding's stable id, and the device and software of a run."""

import hashlib
import os
import shlex
import subprocess
from collections.abc import Sequence

from softcheck import __version__
from softcheck.cases.case import GENERATED, Case
from softcheck.cases.corpus import encode_case
from softcheck.contract import FindingKind
from softcheck.report.model import Environment
from softcheck.run.blames import Command
from softcheck.run.patience import HANG_SECONDS
from softcheck.run.protocol import Ready


def reproduce_command(variant: str, case: Case, backend: str, corpora: Sequence[str] = ()) -> str:
    """The command that runs one variant on one case, or for a generated case the one that saves it first."""
    if case.family == GENERATED:
        return add_command(variant, case)
    words = ["softcheck", "report", "--variant", variant, "--dtype", case.dtype, "--case", case.id]
    for corpus in corpora:
        words += ["--corpus", corpus]
    return shlex.join([*words, "--device", backend])


def in_order_command(command: Command, backend: str, corpora: Sequence[str] = ()) -> str:
    """Returns the command that makes several calls in turn in one process, or one call under glibc's heap checks.

    A generated case must be saved first, so if there is one, the command is the one that saves it.
    """
    for case in command.cases:
        if case.family == GENERATED:
            return add_command(command.variants[0], case)
    words = ["softcheck", "report"]
    for option, values in (
        ("--variant", command.variants),
        ("--dtype", command.dtypes),
        ("--case", [case.id for case in command.cases]),
        ("--probe", command.probes),
        ("--corpus", corpora if command.cases else ()),
    ):
        for value in values:
            words += [option, value]
    words += ["--effort", command.effort] if command.effort != "normal" else []
    words += ["--seed", str(command.seed)] if command.seed else []
    words += ["--in-order"] if len(command.cases) + len(command.probes) > 1 or len(command.variants) > 1 else []
    words += ["--check-heap"] if command.check_heap else []
    return shlex.join([*words, "--device", backend])


def in_time(again: str, kind: str, seconds: float) -> str:
    """Returns a command that makes a report, with the seconds that a call may take if the finding is that one took longer."""
    is_asked = kind == FindingKind.TIMEOUT and seconds != HANG_SECONDS and again.startswith("softcheck report ")
    return f"{again} --time-limit {seconds:g}" if is_asked else again


def add_command(variant: str, case: Case) -> str:
    """The command that saves a case as a regression found with a variant: by its bits where they say it all."""
    if case.rows is not None and case.operands is None and case.layout.is_contiguous(case.shape[1]):
        return bits_command(variant, case.dtype, "; ".join(case.rows))
    line = encode_case(case).decode().strip()
    return shlex.join(["softcheck", "corpus", "add", "--variant", variant, "--line", line])


def bits_command(variant: str, dtype: str, bits: str) -> str:
    """The command that saves bit patterns, elements parted by spaces and rows by semicolons, as a regression."""
    return shlex.join(["softcheck", "corpus", "add", "--variant", variant, "--dtype", dtype, "--bits", bits])


def finding_id(variant: str, dtype: str, kind: str, case_id: str) -> str:
    """Twelve hexadecimal digits that are the same for the same broken promise in every run."""
    return hashlib.sha256(f"{variant}\n{dtype}\n{kind}\n{case_id}".encode()).hexdigest()[:12]


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
