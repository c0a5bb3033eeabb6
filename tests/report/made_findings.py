"""Findings for tests of causes: their facts are what counts, and their words say nothing."""

import msgspec

from softcheck.contract import FindingKind as Kind
from softcheck.facts import Facts, Sizes, Sweep, Where
from softcheck.report.model import Finding


def finding(kind, case, facts=None, **fields):
    return Finding(
        id=f"{kind} {case}",
        kind=kind,
        case=case,
        message="some words",
        reproduce="softcheck",
        facts=facts or Facts(),
        **fields,
    )


def ulp(output, expected, ulps, bound=0.5):
    return Facts(output=output, expected=expected, ulps=ulps, bound=bound)


def sum_off(by, allowed=None):
    return Facts(sum_off=by, sum_allowed=allowed)


def of_hidden_row(output, query=None):
    return Facts(output=output, expected=float("nan"), reason="hidden_row", query=query)


def at(**condition):
    """The widths of one condition."""
    return Where(any_of=((Sizes(**condition),),))


def swept(where, facts, kind=Kind.ULP_EXCEEDS_BOUND, *, right=512, wrong=(513, 1024, 2049), column=None):
    sweep = Sweep(failing=len(wrong), tried=19, of="widths", first=1, last=2049, wrong=wrong, right=right)
    return finding(
        kind, "probe/sizes/columns-1-65", msgspec.structs.replace(facts, where=where, sweep=sweep), column=column
    )
