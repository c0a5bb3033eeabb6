"""The one-line command that shows a finding again, and the finding's stable id."""

import hashlib
import shlex
from collections.abc import Sequence

from softcheck.cases.case import Case

GENERATED = "generated"
"""Family of cases that hypothesis made; no corpus holds them."""


def reproduce_command(variant: str, case: Case, backend: str, corpora: Sequence[str] = ()) -> str:
    """The command that runs one variant on one case, or for a generated case the one that saves it first."""
    if case.family == GENERATED:
        return add_command(variant, case)
    words = ["softcheck", "report", "--variant", variant, "--dtype", case.dtype, "--case", case.id]
    for corpus in corpora:
        words += ["--corpus", corpus]
    return shlex.join([*words, "--device", backend])


def add_command(variant: str, case: Case) -> str:
    """The command that saves a case's bits as a regression found with a variant."""
    bits = "; ".join(case.rows or ())
    return shlex.join(["softcheck", "corpus", "add", "--variant", variant, "--dtype", case.dtype, "--bits", bits])


def finding_id(variant: str, dtype: str, kind: str, case_id: str) -> str:
    """Twelve hexadecimal digits that are the same for the same broken promise in every run."""
    return hashlib.sha256(f"{variant}\n{dtype}\n{kind}\n{case_id}".encode()).hexdigest()[:12]
