"""PyTorch's own softmax, the reference that most comparisons use."""

import torch

from softcheck.contract import FindingKind
from softcheck.variants.builtin._common import ALL_DTYPES
from softcheck.variants.declaration import KnownDefect, variant

_SERIAL_SUM_ON_CPU = (
    "PyTorch's CPU kernel adds each vector lane's exponentials one after the other, columns / lanes of them"
)


def _serial_sum(dtype: str, cases: str) -> KnownDefect:
    return KnownDefect(
        kinds=(FindingKind.ULP_EXCEEDS_BOUND, FindingKind.SUM_VIOLATION),
        dtypes=(dtype,),
        backends=("interpreter",),
        cases=cases,
        reason=_SERIAL_SUM_ON_CPU,
    )


@variant(
    dtypes=ALL_DTYPES,
    description="torch.softmax over the last dimension",
    provenance="PyTorch",
    # Sixteen float32 lanes (AVX-512, the widest there is) need more columns than eight float64 lanes to exceed the bound.
    known_defects=(
        _serial_sum("float32", "cancellation/absorbed-65537/*"),
        _serial_sum("float64", "cancellation/absorbed-4097/*"),
    ),
)
def softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns]."""
    return torch.softmax(x, dim=-1)
