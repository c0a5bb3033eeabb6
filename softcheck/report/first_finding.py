"""The line that tells a finding while the run goes on."""

from collections.abc import Sequence

from softcheck.cases.case import Case
from softcheck.report.probes import probe_command
from softcheck.report.reproduce import reproduce_command
from softcheck.run.model import FirstFinding


def line_of(found: FirstFinding, corpora: Sequence[str] = ()) -> str:
    """Variant, dtype, kind and case, and the command with which the report's end shows it again too."""
    made_by = found.made_by
    if isinstance(made_by, Case):
        again = reproduce_command(found.variant, made_by, found.backend, corpora)
    else:
        again = probe_command(made_by, found.backend)
    return f"{found.variant} {found.dtype}: {found.kind} at {found.where}; {again}"
