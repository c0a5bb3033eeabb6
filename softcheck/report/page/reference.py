"""The variant beside which others are drawn."""

from collections.abc import Sequence

from softcheck.report.model import VariantResult
from softcheck.report.speed_build import TORCH


def reference_of(result: VariantResult, results: Sequence[VariantResult]) -> VariantResult | None:
    """The result of torch's own variant of the same operation and dtype; None for that itself, or where there is none."""
    if _is_torchs_own(result):
        return None
    like = (result.operation, result.dtype)
    return next((r for r in results if (r.operation, r.dtype) == like and _is_torchs_own(r)), None)


def _is_torchs_own(result: VariantResult) -> bool:
    # A name may end in promises, as in torch_log_softmax@operation=log_softmax.
    return result.name.partition("@")[0] in {TORCH, f"{TORCH}_{result.operation}"}
