"""Explanations of the probes."""

from softcheck.explain.explanation import Explanation
from softcheck.probes.registry import PROBES

_DECLARATIONS = {
    "layouts": '@variant(layouts=["contiguous"]) leaves strided inputs out',
    "gradients": "@variant(backward=True), or --backward, promises a gradient; backward=False leaves gradients alone",
    "empties": "@variant(empty=False) leaves inputs without elements out",
    "sizes": "@variant(max_columns=...) leaves wider rows out",
    "addresses": "@variant(max_elements=2**31) leaves larger inputs out",
    "batch_invariance": "@variant(batch_invariant=True) makes it a promise; without it the answer is only reported",
    "arithmetic": "@variant(arithmetic=Arithmetic(...)) says what the kernels compute with",
}
"""The declaration that bears on a probe."""


def of_probes() -> dict[str, Explanation]:
    """Every probe."""
    return {
        name: Explanation(
            meaning=f"the probe {name} reports {looks_for}; softcheck report --probe {name} runs it alone",
            declare=_DECLARATIONS.get(name, ""),
        )
        for name, looks_for in PROBES.items()
    }
