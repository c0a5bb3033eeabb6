"""The plan of a check: the cases and calls that it would make of each variant, none of them made. Imports no torch."""

import contextlib
from dataclasses import dataclass

from softcheck.run.model import Events, RunOptions
from softcheck.run.plan import covered
from softcheck.run.probing import planned_calls
from softcheck.run.protocol import ProbeTask
from softcheck.run.session import Session


@dataclass(frozen=True, slots=True)
class PlannedVariant:
    """Cases and calls of a check with one variant in one dtype."""

    variant: str
    dtype: str
    cases: int
    calls: dict[str, tuple[str, ...]]
    """Words for the calls of each probe that has any."""

    def __str__(self) -> str:
        counted = ", ".join(f"{name} {len(calls)}" for name, calls in self.calls.items())
        lines = [f"{self.variant}, {self.dtype}: {self.cases} cases; trials and calls by probe: {counted or 'none'}"]
        for name, calls in self.calls.items():
            lines += [f"  {name}", *(f"    {call}" for call in calls)]
        return "\n".join(lines)


def planned(options: RunOptions, events: Events) -> list[PlannedVariant | str]:
    """Returns the plan for each variant and dtype, and why a variant has none. Raises SoftcheckError for a fault of a probe.

    A variant is loaded, and called a few times by the probe ``meetings``, whose axes depend on the function.
    """
    found: list[PlannedVariant | str] = []
    with contextlib.closing(Session(options.device, jobs=1, seconds_per_call=options.seconds_per_call)) as session:
        for name in options.variants:
            events.stage(f"planning {name}")
            declaration = session.load(name, options.dtypes)
            if isinstance(declaration, str):
                found.append(f"{name}: {declaration}")
                continue
            for dtype in (each for each in options.dtypes if each in declaration.dtypes):
                calls: dict[str, tuple[str, ...]] = {}
                for probe in options.probes:
                    task = ProbeTask(
                        variant=name,
                        dtype=dtype,
                        probe=probe,
                        effort=options.effort,
                        axis=options.axis,
                        seed=options.seed,
                    )
                    if made := planned_calls(session, task):
                        calls[probe] = made
                cases = len(covered(options.cases, declaration, dtype))
                found.append(PlannedVariant(name, dtype, cases, calls))
    return found
