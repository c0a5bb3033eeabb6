"""The known defects of the built-in variants, each with its reason. Imports no torch."""

import msgspec

from softcheck.contract import FindingKind
from softcheck.variants.declaration import KnownDefect

SIXTEEN_BITS = ("float16", "bfloat16")
_MET = ("probe/meetings/*", "probe/regimes/*", "probe/volume/*")
"""Cases that draw rows of any kind."""
_GRADIENTS = ("probe/gradients/*", "probe/meetings/*")
"""Gradients are asked for at some calls of a plan."""

_ACCURACY = (FindingKind.ULP_EXCEEDS_BOUND, FindingKind.SUM_VIOLATION)

OVERFLOW = KnownDefect(
    kinds=_ACCURACY,
    dtypes=("float16",),
    cases=("uniform/*", "negative/*", "wide/*", "cancellation/*", "generated/*", "regression/*", *_MET),
    reason="a sum of exponentials above 65504 overflows float16, and the whole row becomes zeros",
)

OF_INDUCTOR = (
    KnownDefect(
        # A matrix that Inductor adds up in one part where it is packed, and in several where it is transposed.
        kinds=(*_ACCURACY, FindingKind.WRONG_LAYOUT),
        dtypes=("float16",),
        backends=("cuda",),
        cases=("uniform/65536/*", "uniform/131072/*", "negative/minus-100-65537/*", *_MET),
        always=False,
        reason="where Inductor adds up a very wide row in parts, it stores their sum in float16, which overflows above 65504",
    ),
    KnownDefect(
        kinds=_ACCURACY,
        dtypes=("float16", "float32"),
        backends=("cuda",),
        cases=("cancellation/absorbed-65537/*", *_MET),
        max_share=5.0,
        always=False,
        reason="Inductor adds thousands of terms of a very wide row one after another in float32, where those below half an "
        "ULP of the partial sum are lost",
    ),
    KnownDefect(
        kinds=(FindingKind.CRASH,),
        backends=("cuda",),
        cases=("probe/histories/*", "probe/meetings/*"),
        always=False,
        reason="Inductor takes each torch.nn.Parameter for aligned to 16 bytes: one at another offset ends in a misaligned load",
    ),
)

OFFSETS_WRAP = KnownDefect(
    kinds=(FindingKind.OUT_OF_BOUNDS_READ, FindingKind.OUT_OF_BOUNDS_WRITE, FindingKind.CRASH),
    cases=("probe/addresses/*",),
    reason="offsets are computed in 32 bits and wrap beyond 2^31 elements",
)

_PACKED_ROWS_ASSUMED = "rows are read as if packed one after the other; row and column strides are ignored"
STRIDES_IGNORED = (
    KnownDefect(
        # A row that is expanded (stride 0) owns fewer elements than the kernel reads.
        kinds=(FindingKind.WRONG_LAYOUT, FindingKind.OUT_OF_BOUNDS_READ, FindingKind.CRASH),
        reason=_PACKED_ROWS_ASSUMED,
        cases=("layout/*", "generated/*", "regression/*", "probe/meetings/*layout=*", "probe/guard_bands/gaps/*"),
    ),
    KnownDefect(
        kinds=(FindingKind.CRASH,),
        backends=("cuda",),
        cases=("probe/histories/*",),
        always=False,
        reason=_PACKED_ROWS_ASSUMED,
    ),
)

_VARYING = (
    FindingKind.ULP_EXCEEDS_BOUND,
    FindingKind.NAN_MISMATCH,
    FindingKind.NONDETERMINISTIC,
    FindingKind.ROW_DEPENDENCE,
)
LANES_UNFILLED = KnownDefect(
    kinds=(*_VARYING, FindingKind.SUM_VIOLATION),
    reason="lanes beyond a row whose width is not a power of two hold undefined values, which enter maximum and sum",
)
COLUMNS_UNREAD = KnownDefect(
    kinds=(*_VARYING, FindingKind.UNWRITTEN_OUTPUT),
    reason="columns from 512 on are neither read nor written; the first 512 are normalised by themselves",
)

_WIDE = ("bfloat16", "float32", "float64")
_LARGE = (
    "the product with log2(e) overflows above 0.69 of the largest finite value, and fused with the subtraction it leaves a large "
    "exponent where |x| is large"
)
LARGE_PRODUCTS = (
    KnownDefect(kinds=(FindingKind.NAN_MISMATCH,), dtypes=_WIDE, reason=_LARGE),
    # The exponent that is left may be so large that each power is finite and only their sum is infinite: all zeros.
    KnownDefect(
        kinds=(FindingKind.SUM_VIOLATION,),
        dtypes=_WIDE,
        reason=_LARGE,
        cases=("probe/volume/*", "probe/regimes/*"),
        always=False,
    ),
)

ROW_STATE_IN_SIXTEEN_BITS = KnownDefect(
    kinds=(FindingKind.ULP_EXCEEDS_BOUND, FindingKind.INF_MISMATCH),
    dtypes=SIXTEEN_BITS,
    backends=("interpreter",),
    reason="on a CPU torch keeps each row's maximum and sum in the input's 16 bits (pytorch/pytorch#158310)",
)
LOG_SOFTMAX_IN_SIXTEEN_BITS = msgspec.structs.replace(
    ROW_STATE_IN_SIXTEEN_BITS, kinds=(*_ACCURACY, FindingKind.INF_MISMATCH)
)
LOGSUMEXP_IN_SIXTEEN_BITS = (
    KnownDefect(
        kinds=(FindingKind.ULP_EXCEEDS_BOUND, FindingKind.INF_MISMATCH),
        dtypes=SIXTEEN_BITS,
        reason="torch takes differences, exponentials, sums and logarithms in tensors of the input's 16 bits",
        always=False,
    ),
    KnownDefect(
        kinds=(FindingKind.WRONG_GRADIENT,),
        cases=_GRADIENTS,
        dtypes=SIXTEEN_BITS,
        backends=("cuda",),
        reason="torch takes the exponentials of its backward in tensors of the input's 16 bits",
        always=False,
    ),
)


def _on_gpu(
    *kinds: FindingKind, reason: str, cases: tuple[str, ...] = ("*",), dtypes: tuple[str, ...] | None = None
) -> KnownDefect:
    """A defect of torch's attention for GPUs, which depends on the library's version."""
    return KnownDefect(kinds=kinds, cases=cases, dtypes=dtypes, backends=("cuda",), always=False, reason=reason)


ZERO_FOR_NAN = KnownDefect(
    kinds=(FindingKind.NAN_MISMATCH,),
    backends=("interpreter",),
    reason="torch's flash attention for CPUs gives 0 where a query's sum of weights is NaN, as intel/torch-xpu-ops#5022 has it",
)
SUMS_IN_SIXTEEN_BITS = KnownDefect(
    kinds=(FindingKind.WRONG_GRADIENT,),
    cases=_GRADIENTS,
    dtypes=SIXTEEN_BITS,
    backends=("interpreter",),
    always=False,
    reason="the backward of torch's flash attention for CPUs adds the gradients of values up in 16 bits, one tile of queries after the other",
)
MANY_HEADS = _on_gpu(
    FindingKind.RAISED,
    cases=("probe/grid_limits/*", "probe/shapes/*"),
    reason="torch's flash and efficient attention for GPUs can't launch for more than 65536 heads: CUDA calls the grid an invalid argument",
)
NONE_WITHOUT_HEADS = _on_gpu(
    FindingKind.RAISED,
    cases=("probe/*",),
    reason="torch chooses its backend CUDNN_ATTENTION here, which gives None where there are no heads",
)
OF_FLASH_ATTENTION = (
    ZERO_FOR_NAN,
    SUMS_IN_SIXTEEN_BITS,
    _on_gpu(
        FindingKind.CRASH,
        cases=("probe/*",),
        reason="torch's flash attention for GPUs divides by 0 where there are no heads, and ends its process (signal 8)",
    ),
    MANY_HEADS,
    _on_gpu(
        FindingKind.OUT_OF_RANGE,
        reason="FlashAttention-2 splits the keys of few heads and merges the parts by float32 log-sum-exps, whose rounding is worth 0.2 % at "
        "scores of some 10^5",
    ),
)
HIDDEN_VALUES_SEEN = _on_gpu(
    FindingKind.MASKED_NOT_ZERO,
    FindingKind.OUT_OF_RANGE,
    FindingKind.ROW_DEPENDENCE,
    FindingKind.ULP_EXCEEDS_BOUND,
    dtypes=SIXTEEN_BITS,
    reason="with a boolean mask of 16-bit operands torch takes a backend in which hidden values have a share where a query sees no key or low "
    "scores alone: the mean of hidden values where it sees none, as of a finite number in place of -inf",
)
GRADIENT_TAKEN_FOR_PACKED = _on_gpu(
    FindingKind.WRONG_GRADIENT,
    cases=_GRADIENTS,
    dtypes=SIXTEEN_BITS,
    reason="the backward of cuDNN's attention, which torch chooses here, is wrong for an output gradient whose heads lie apart (torch 2.11)",
)
ALIGNED = _on_gpu(
    FindingKind.NAN_MISMATCH,
    FindingKind.ULP_EXCEEDS_BOUND,
    FindingKind.RAISED,
    FindingKind.CRASH,
    cases=(
        "probe/operand_layouts/*",
        "probe/meetings/*layout of *",
        "probe/meetings/*shared mask=*",
        "probe/shared_masks/*",
    ),
    reason="torch's attention for GPUs takes operands to begin at multiples of 16 bytes: EFFICIENT_ATTENTION refuses other keys, with CUDNN_ATTENTION they "
    "are read from elsewhere, and a bias that begins elsewhere is a misaligned address",
)
NO_KERNEL = _on_gpu(
    FindingKind.RAISED,
    reason="torch's backend CUDNN_ATTENTION has no kernel for heads of one query, and gives None where there are no heads",
)
