"""What trials and probes say, in a form that travels between processes and to disk. Imports no torch."""

import msgspec

from softcheck.contract import FindingKind, Violation
from softcheck.variants.declaration import Arithmetic
from softcheck.variants.ptx import ObservedArithmetic


class KernelArithmetic(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How a variant computes in one dtype: what the PTX of its Triton kernels shows, and what it declares."""

    declared: Arithmetic | None = None
    kernels: tuple[str, ...] = ()
    """Names of the kernels that were read; none where it launches none itself."""
    target: str | None = None
    """What they were compiled for: the GPU that they ran on, or a target that they were compiled for ahead of time."""
    observed: ObservedArithmetic | None = None
    shown: Arithmetic | None = None
    """The model that the PTX shows; None where no proven bound covers what it shows."""
    weaknesses: tuple[str, ...] = ()
    """What is weaker than in the standard contract, in words."""
    leaves_contract: str | None = None
    """Where the bound of its own model, declared or else shown, leaves the standard contract, in words."""


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
    arithmetic: KernelArithmetic | None = None
    """How the kernels that the trial called compute, where it looked."""


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
    arithmetic: KernelArithmetic | None = None
    """How the variant's kernels compute, of all trials together."""
