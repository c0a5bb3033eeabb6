"""The one-line command that shows a finding again, and the finding's stable id."""

import hashlib
import shlex
from collections.abc import Sequence

from softcheck.cases.case import Case
from softcheck.cases.corpus import encode_case

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
    """The command that saves a case as a regression found with a variant: by its bits where they say it all."""
    if case.rows is not None and case.layout.is_contiguous(case.shape[1]):
        return bits_command(variant, case.dtype, "; ".join(case.rows))
    line = encode_case(case).decode().strip()
    return shlex.join(["softcheck", "corpus", "add", "--variant", variant, "--line", line])


def bits_command(variant: str, dtype: str, bits: str) -> str:
    """The command that saves bit patterns, elements parted by spaces and rows by semicolons, as a regression."""
    return shlex.join(["softcheck", "corpus", "add", "--variant", variant, "--dtype", dtype, "--bits", bits])


def finding_id(variant: str, dtype: str, kind: str, case_id: str) -> str:
    """Twelve hexadecimal digits that are the same for the same broken promise in every run."""
    return hashlib.sha256(f"{variant}\n{dtype}\n{kind}\n{case_id}".encode()).hexdigest()[:12]
