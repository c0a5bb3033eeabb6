"""The plan of a check: the cases and calls that it would make of each variant, none of them made. Imports no torch."""

import contextlib
from dataclasses import dataclass

from softcheck.errors import SoftcheckError
from softcheck.run.model import Events, RunOptions
from softcheck.run.plan import covered
from softcheck.run.protocol import ProbePlanned, RunProbe
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
                calls = {probe: _calls(session, options, name, dtype, probe) for probe in options.probes}
                cases = len(covered(options.cases, declaration, dtype))
                found.append(PlannedVariant(name, dtype, cases, {probe: made for probe, made in calls.items() if made}))
    return found


def _calls(session: Session, options: RunOptions, variant: str, dtype: str, probe: str) -> tuple[str, ...]:
    request = RunProbe(
        variant, probe, dtype, options.effort, options.seed, only=(), tells_calls=True, axis=options.axis
    )
    replies = list(
        session.ask(session.take(), request, lambda: session.waits(variant), f"the plan of probe {probe} on {variant}")
    )
    calls = next((reply.calls for reply in replies if isinstance(reply, ProbePlanned)), None)
    if calls is None:
        raise SoftcheckError(f"probe {probe} told no plan for {variant}; run softcheck report without --dry-run")
    return calls
