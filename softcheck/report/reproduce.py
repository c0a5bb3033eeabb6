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
from softcheck.probes.registry import MEETINGS, SLICES
from softcheck.report.model import Environment
from softcheck.run.blames import Command
from softcheck.run.patience import HANG_SECONDS
from softcheck.run.protocol import ProbeTask, Ready


def command(*words: str, **options: object) -> str:
    """A softcheck command: an option of several values is repeated, one that is True is a flag, and one without a value is left out."""
    said = ["softcheck", *words]
    for name, value in options.items():
        for each in value if isinstance(value, list | tuple) else (value,):
            if each:
                said += [f"--{name.replace('_', '-')}", *([] if each is True else [str(each)])]
    return shlex.join(said)


def reproduce_command(variant: str, case: Case, backend: str, corpora: Sequence[str] = ()) -> str:
    """The command that runs one variant on one case, or for a generated case the one that saves it first."""
    if case.family == GENERATED:
        return add_command(variant, case)
    return command("report", variant=variant, dtype=case.dtype, case=case.id, corpus=tuple(corpora), device=backend)


def probe_command(task: ProbeTask, backend: str, label: str = "") -> str:
    """The command that runs one probe on one variant in one dtype again; of circumstances that meet, the call of this label alone."""
    own: dict[str, str] = {"probe": task.probe, "effort": task.effort.replace("normal", "")}
    if task.probe in {MEETINGS, *SLICES} and "=" in label:
        own = {"axis": label}
    return command("report", variant=task.variant, dtype=task.dtype, **own, seed=task.seed, device=backend)


def in_order_command(found: Command, backend: str, corpora: Sequence[str] = ()) -> str:
    """Returns the command that makes several calls in turn in one process, or one under heap checks; the one that saves a generated case, if any is."""
    for case in found.cases:
        if case.family == GENERATED:
            return add_command(found.variants[0], case)
    return command(
        "report",
        variant=found.variants,
        dtype=found.dtypes,
        case=[case.id for case in found.cases],
        probe=found.probes,
        corpus=tuple(corpora) if found.cases else (),
        effort=found.effort.replace("normal", ""),
        seed=found.seed,
        in_order=len(found.cases) + len(found.probes) > 1 or len(found.variants) > 1,
        check_heap=found.check_heap,
        device=backend,
    )


def in_time(again: str, kind: str, seconds: float) -> str:
    """Returns a command that makes a report, with the seconds that a call may take if the finding is that one took longer."""
    is_asked = kind == FindingKind.TIMEOUT and seconds != HANG_SECONDS and again.startswith("softcheck report ")
    return f"{again} --time-limit {seconds:g}" if is_asked else again


def add_command(variant: str, case: Case) -> str:
    """The command that saves a case as a regression found with a variant: by its bits where they say it all."""
    if case.rows is not None and case.operands is None and case.layout.is_contiguous(case.shape[1]):
        return bits_command(variant, case.dtype, "; ".join(case.rows))
    return command("corpus", "add", variant=variant, line=encode_case(case).decode().strip())


def bits_command(variant: str, dtype: str, bits: str) -> str:
    """The command that saves bit patterns, elements parted by spaces and rows by semicolons, as a regression."""
    return command("corpus", "add", variant=variant, dtype=dtype, bits=bits)


def finding_id(variant: str, dtype: str, kind: str, case_id: str) -> str:
    """Twelve hexadecimal digits that are the same for the same broken promise in every run."""
    return hashlib.sha256(f"{variant}\n{dtype}\n{kind}\n{case_id}".encode()).hexdigest()[:12]


def environment(ready: Ready, seed: int, typed: Sequence[str]) -> Environment:
    """Returns the device and software of a run; ``typed`` is the command that the user typed."""
    same = {name: getattr(ready, name) for name in ("backend", "device", "driver", "torch", "triton", "python")}
    return Environment(**same, softcheck=__version__, seed=seed, git_commit=_git_commit(), command=shlex.join(typed))


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
