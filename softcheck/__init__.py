"""softcheck: differential testing and numerical accuracy for GPU softmax kernels.

``import softcheck`` loads neither torch nor triton; declaring a variant needs neither.
"""

from softcheck.contract import FindingKind
from softcheck.interactive import check
from softcheck.operations.arithmetic import Arithmetic
from softcheck.variants.adapt import adapt
from softcheck.variants.declaration import Declaration, KnownDefect, Traffic, variant

__version__ = "0.1.0"

__all__ = ["Arithmetic", "Declaration", "FindingKind", "KnownDefect", "Traffic", "adapt", "check", "variant"]
