"""Causes that a report names for a function, from its cases and from probes over sizes, in this process."""

import msgspec
import torch

from oracles.formats import decode
from softcheck.cases.corpus import load
from softcheck.judge.judge import reference
from softcheck.probes import registry
from softcheck.probes.base import Setting, Subject
from softcheck.report.causes import causes_of
from softcheck.report.findings import FindingSource
from softcheck.report.notes import fitting_arithmetic
from softcheck.run.measuring import Measuring
from softcheck.run.plan import left_out
from softcheck.variants.declaration import Declaration
from softcheck.variants.registry import LoadedVariant

_MOST = 2**11


def reworded(finding):
    """The finding in other words."""
    return msgspec.structs.replace(finding, message=f"row 7: {finding.message[::-1]}")


def causes(function, dtype, *, operation="softmax", effort="normal", probes=(), change=lambda finding: finding):
    """The causes, in order, of findings that ``change`` may have changed."""
    declaration = Declaration(operation=operation)
    variant = LoadedVariant(function.__name__, function, declaration)
    source = FindingSource(variant.name, dtype, declaration, "interpreter")
    cpu = torch.device("cpu")
    measuring, found, measured = Measuring(cpu), [], []

    def add(violation, case):
        found.append(source.finding(violation, case, "softcheck"))

    for case in load(["edge", "regressions"]):
        rows, columns = case.shape
        if case.dtype != dtype or not 0 < rows * columns <= _MOST or left_out(case, declaration) is not None:
            continue
        bits = case.bits(rows)
        exact = reference(decode(bits, case.format), case.format, operation=declaration.computed)
        measurement, _ = measuring.of_case(variant, case, bits, exact)
        measured.append((case, measurement))
        for violation in measurement.violations:
            add(violation, case.id)
    setting = Setting(declaration=declaration, dtype=dtype, backend="interpreter", effort=effort)
    for name in probes:
        probe = registry.load(name)
        subject = Subject(variant, setting, cpu)
        concluded = probe.conclude([(trial, probe.run(subject, trial)) for trial in probe.trials(setting)])
        for shown in concluded.findings:
            add(shown.violation, f"probe/{name}/{shown.label}")
    weaker = fitting_arithmetic(measured, [], declaration, dtype)
    cases = [case for case, _ in measured]
    return causes_of([change(f) for f in found], cases, operation=operation, weaker=weaker)
