"""What trials and probes say, in a form that travels between processes and to disk. Imports no torch."""

import msgspec

from softcheck.contract import FindingKind, Violation


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What one trial showed. Small: it crosses a pipe and is journalled."""

    violations: tuple[Violation, ...] = ()
    skipped: str | None = None
    """Why the trial could not be made here, e.g. too little memory."""
    properties: dict[str, bool] = {}
    """Properties that are reported without being promised, e.g. ``batch_invariant``, and whether this trial showed them."""
    fatal: bool = False
    """The process can't go on after the trial: it ended, or its device can't be used any more."""
    tried: tuple[int, ...] = ()
    """Sizes that a probe over many sizes tried; ``violations`` then holds each kind at its smallest failing size."""
    failing: dict[FindingKind, tuple[int, ...]] = {}
    """Those of the sizes that broke a promise, by kind."""


class Shown(msgspec.Struct, frozen=True):
    """A broken promise and the trial, by label, that shows it best."""

    label: str
    violation: Violation


class Conclusion(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a probe says of one variant in one dtype."""

    findings: tuple[Shown, ...] = ()
    trials: int = 0
    """Trials that were made."""
    skipped: tuple[str, ...] = ()
    """Reasons of those that were not, each once."""
    properties: dict[str, bool] = {}
    """A property holds where every trial that looked for it showed it."""
