"""Judgement of a call's output by its variant's own contract, as declared and as its kernels show it.

If an output breaks the standard contract and keeps a weaker one, three questions follow:

Does torch add up anything on a CPU, beside interpreted Triton kernels? Then the sum may be torch's, whose order depends
on the processor. Does the kernel rescale a running sum? Then the bound has a term for that (docs/bounds.md#sums),
whether it is declared or not. Which declaration would fit? The report names it if nothing is declared.
"""

from collections.abc import Callable
from functools import partial

import msgspec
import torch

from oracles.formats import Bits, Format
from oracles.reference import Reference
from softcheck.calling.call import to_bits
from softcheck.contract import BOUNDED_KINDS
from softcheck.judge.contracts import contract_of
from softcheck.judge.judge import judge
from softcheck.judge.measurement import Measurement
from softcheck.judge.tensors import judge_tensors
from softcheck.operations.arithmetic import Arithmetic
from softcheck.variants import evidence
from softcheck.variants.registry import LoadedVariant

_WIDEST_LOOKED_AT = 8192
"""Columns up to which interpreted kernels are compiled to be read: kernels for wider rows take minutes."""

_MOST_BY_RESCALING = 16.0
"""Multiple of the standard bound that rescaling can explain. Each addition then has 7 roundings in place of 1. A sum of
outputs errs in addition by twice the mean of the exponentials' errors, which equals a few additions on rows whose sum
matters."""


def judge_call(
    variant: LoadedVariant,
    bits: Bits,
    output: Bits,
    fmt: Format,
    device: torch.device,
    *,
    of_cpu_library: bool,
    reference: Reference | None = None,
    with_peaks: bool = False,
) -> Measurement:
    """Runs ``softcheck.judge.judge.judge`` by the contract of the variant that gave ``output`` for ``bits``.

    Both are [rows, columns]. ``device`` is the device of the call. ``of_cpu_library`` is True if it launched no Triton
    kernel there.
    """
    judged = partial(judge, bits, output, fmt, reference=reference, with_peaks=with_peaks)
    return _by_contract(variant, fmt, (len(bits), bits.shape[1]), device, judged, of_cpu_library=of_cpu_library)


def judge_in_place(
    variant: LoadedVariant, x: torch.Tensor, y: torch.Tensor, fmt: Format, *, of_cpu_library: bool
) -> Measurement:
    """Judges an output where it lies as ``judge_call`` does: on a GPU by torch, elsewhere by the numpy judge.

    ``x`` is packed, [rows, columns] of the format's dtype, ``y`` the output of the operation's shape.
    """
    if x.device.type != "cuda":
        return judge_call(variant, to_bits(x, fmt), to_bits(y, fmt), fmt, x.device, of_cpu_library=of_cpu_library)
    judged = partial(judge_tensors, x, y, fmt)
    return _by_contract(variant, fmt, (len(x), x.shape[1]), x.device, judged, of_cpu_library=of_cpu_library)


def _by_contract(
    variant: LoadedVariant,
    fmt: Format,
    shape: tuple[int, int],
    device: torch.device,
    judged: Callable[..., Measurement],
    *,
    of_cpu_library: bool,
) -> Measurement:
    """Runs a judge by the variant's contract on an input of this shape."""

    def judge_by(arithmetic: Arithmetic) -> Measurement:
        masked = variant.declaration.fully_masked
        return judged(operation=variant.operation, fully_masked=masked, arithmetic=arithmetic)

    contract = contract_of(
        variant.declaration.arithmetic, of_cpu_library=of_cpu_library, over_another=variant.reduces_another
    )
    measured = judge_by(contract)
    if of_cpu_library or not breaks_bounds(measured):
        return measured
    if device.type == "cpu":
        allowed = judge_by(contract_of(variant.declaration.arithmetic, of_cpu_library=True))
        if not breaks_bounds(allowed) and evidence.torch_sums(variant, fmt.name, shape, device):
            return allowed
    if contract.rescales or not _may_be_rescaling(measured):
        return measured
    allowed = judge_by(msgspec.structs.replace(contract, rescales=True))
    return measured if breaks_bounds(allowed) or not _rescales(variant, fmt, shape, device) else allowed


def breaks_bounds(measured: Measurement) -> bool:
    """True if a weaker arithmetic could explain a violation that was found."""
    return any(violation.kind in BOUNDED_KINDS for violation in measured.violations)


def _may_be_rescaling(measured: Measurement) -> bool:
    """True if a violation breaks the bound, and none by more than the term of rescaling allows."""
    shares = [v.share for v in measured.violations if v.kind in BOUNDED_KINDS and v.share is not None]
    return bool(shares) and max(shares) <= _MOST_BY_RESCALING


def _rescales(variant: LoadedVariant, fmt: Format, shape: tuple[int, int], device: torch.device) -> bool:
    on_gpu = device.type == "cuda"
    rows, columns = shape
    looked_at = (rows, columns if on_gpu else min(columns, _WIDEST_LOOKED_AT))
    shown = evidence.shown(variant, fmt.name, looked_at, on_gpu=on_gpu, device=device)
    return shown is not None and shown.rescales
