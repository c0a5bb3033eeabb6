"""The variant beside which others are drawn."""

from collections.abc import Sequence

from softcheck.report.model import VariantResult
from softcheck.report.speed_build import TORCH


def reference_of(result: VariantResult, results: Sequence[VariantResult]) -> VariantResult | None:
    """The result of torch's own variant of the same operation and dtype; None for that itself, or where there is none."""
    names = {TORCH, f"{TORCH}_{result.operation}"}
    if result.name in names:
        return None
    like = (result.operation, result.dtype)
    return next((r for r in results if r.name in names and (r.operation, r.dtype) == like), None)
