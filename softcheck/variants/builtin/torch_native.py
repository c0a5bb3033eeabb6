"""PyTorch's own softmax, the reference that most comparisons use."""

import torch

from softcheck.contract import FindingKind
from softcheck.variants.builtin._common import ALL_DTYPES
from softcheck.variants.declaration import KnownDefect, variant

_SERIAL_SUM_ON_CPU = (
    "PyTorch's CPU kernel adds each vector lane's exponentials one after the other, columns / lanes of them"
)


@variant(
    dtypes=ALL_DTYPES,
    dimensions=4,
    description="torch.softmax over the last dimension",
    provenance="PyTorch",
    known_defects=(
        KnownDefect(
            kinds=(FindingKind.ULP_EXCEEDS_BOUND, FindingKind.SUM_VIOLATION),
            dtypes=("float32", "float64"),
            backends=("interpreter",),
            # With wider vectors fewer of these rows break the bound; with the widest there are, one in each dtype does.
            cases=("cancellation/absorbed-*", "generated/*", "regression/*"),
            reason=_SERIAL_SUM_ON_CPU,
        ),
    ),
)
def softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns]."""
    return torch.softmax(x, dim=-1)
