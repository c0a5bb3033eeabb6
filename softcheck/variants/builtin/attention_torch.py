"""Attention by torch's scaled_dot_product_attention, with each of its backends."""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from softcheck.contract import FindingKind
from softcheck.errors import UninterpretableError
from softcheck.variants.builtin._common import NARROW_DTYPES, SIXTEEN_BIT_DTYPES
from softcheck.variants.declaration import KnownDefect, variant

_CALL = "f(q, k, v)"

_ZERO_FOR_NAN = KnownDefect(
    kinds=(FindingKind.NAN_MISMATCH,),
    backends=("interpreter",),
    reason="torch's flash attention for CPUs gives 0 where a query's sum of weights is NaN, as intel/torch-xpu-ops#5022 has it",
)
_SUMS_IN_SIXTEEN_BITS = KnownDefect(
    kinds=(FindingKind.WRONG_GRADIENT,),
    cases=("probe/gradients/*",),
    dtypes=SIXTEEN_BIT_DTYPES,
    backends=("interpreter",),
    always=False,
    reason="the backward of torch's flash attention for CPUs adds the gradients of values up in 16 bits, one tile of queries after the other",
)
_ENDS_WITHOUT_HEADS = KnownDefect(
    kinds=(FindingKind.CRASH,),
    cases=("probe/*",),
    backends=("cuda",),
    always=False,
    reason="torch's flash attention for GPUs divides by 0 where there are no heads, and ends its process (signal 8)",
)
_MANY_HEADS = KnownDefect(
    kinds=(FindingKind.RAISED,),
    cases=("probe/grid_limits/*", "probe/shapes/*"),
    backends=("cuda",),
    always=False,
    reason="torch's flash and efficient attention for GPUs can't launch for more than 65536 heads: CUDA calls the grid an invalid argument",
)
_NONE_WITHOUT_HEADS = KnownDefect(
    kinds=(FindingKind.RAISED,),
    cases=("probe/*",),
    backends=("cuda",),
    always=False,
    reason="torch chooses its backend CUDNN_ATTENTION here, which gives None where there are no heads",
)
_MERGED_BY_LOGARITHMS = KnownDefect(
    kinds=(FindingKind.OUT_OF_RANGE,),
    backends=("cuda",),
    always=False,
    reason="FlashAttention-2 splits the keys of few heads and merges the parts by float32 log-sum-exps, whose rounding is worth 0.2 % at "
    "scores of some 10^5",
)
_OF_FLASH_ATTENTION = (
    _ZERO_FOR_NAN,
    _SUMS_IN_SIXTEEN_BITS,
    _ENDS_WITHOUT_HEADS,
    _MANY_HEADS,
    _MERGED_BY_LOGARITHMS,
)
_HIDDEN_VALUES_SEEN = KnownDefect(
    kinds=(
        FindingKind.MASKED_NOT_ZERO,
        FindingKind.OUT_OF_RANGE,
        FindingKind.ROW_DEPENDENCE,
        FindingKind.ULP_EXCEEDS_BOUND,
    ),
    dtypes=SIXTEEN_BIT_DTYPES,
    backends=("cuda",),
    always=False,
    reason="with a boolean mask of 16-bit operands torch takes a backend in which hidden values have a share where a query sees no key or low "
    "scores alone: the mean of hidden values where it sees none, as of a finite number in place of -inf",
)
_GRADIENT_TAKEN_FOR_PACKED = KnownDefect(
    kinds=(FindingKind.WRONG_GRADIENT,),
    cases=("probe/gradients/*",),
    dtypes=SIXTEEN_BIT_DTYPES,
    backends=("cuda",),
    always=False,
    reason="the backward of cuDNN's attention, which torch chooses here, is wrong for an output gradient whose heads lie apart (torch 2.11)",
)
_ALIGNED = KnownDefect(
    kinds=(FindingKind.NAN_MISMATCH, FindingKind.ULP_EXCEEDS_BOUND, FindingKind.RAISED, FindingKind.CRASH),
    cases=("probe/operand_layouts/*", "probe/meetings/*layout of *", "probe/shared_masks/*"),
    backends=("cuda",),
    always=False,
    reason="torch's attention for GPUs takes operands to begin at multiples of 16 bytes: EFFICIENT_ATTENTION refuses other keys, with CUDNN_ATTENTION they "
    "are read from elsewhere, and a bias that begins elsewhere is a misaligned address",
)
_NO_KERNEL = KnownDefect(
    kinds=(FindingKind.RAISED,),
    backends=("cuda",),
    always=False,
    reason="torch's backend CUDNN_ATTENTION has no kernel for heads of one query, and gives None where there are no heads",
)


def _by(backend: SDPBackend, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    if q.device.type != "cuda" and backend in (SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION):
        raise UninterpretableError(f"torch's backend {backend.name} runs on a GPU alone; judge it on one")
    with sdpa_kernel(backend):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)


@variant(
    operation="attention_logsumexp",
    call=_CALL,
    dtypes=NARROW_DTYPES,
    description="torch.logsumexp of scores in float32, by single operations",
    provenance="PyTorch",
)
def torch_attention_logsumexp(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:  # noqa: ARG001 - as others take them
    """Logarithms of the sums of exponentials of each query's scores, float32 [batch, heads, queries]."""
    return torch.logsumexp((q.float() @ k.float().mT) * q.shape[-1] ** -0.5, dim=-1)


@variant(
    operation="attention",
    parameters={"masked": 1},
    call="f(q, k, v, keep)",
    dtypes=NARROW_DTYPES,
    description="torch's scaled_dot_product_attention with a boolean mask, by the backend that torch chooses",
    provenance="PyTorch",
    fully_masked="zero",
    known_defects=(
        _ZERO_FOR_NAN,
        _SUMS_IN_SIXTEEN_BITS,
        _HIDDEN_VALUES_SEEN,
        _NONE_WITHOUT_HEADS,
        _MANY_HEADS,
        _GRADIENT_TAKEN_FOR_PACKED,
        _ALIGNED,
    ),
)
def torch_sdpa_masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """Attention of [batch, heads, queries, dimension] with a mask [batch, heads, queries, keys], True where a key is seen."""
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=keep)


@variant(
    operation="attention",
    parameters={"masked": 1, "biased": 1},
    call="f(q, k, v, bias)",
    dtypes=NARROW_DTYPES,
    description="torch's scaled_dot_product_attention with a mask of numbers, by the backend that torch chooses",
    provenance="PyTorch; Press, Smith and Lewis, ALiBi, 2022",
    fully_masked="zero",
    known_defects=(
        _ZERO_FOR_NAN,
        _SUMS_IN_SIXTEEN_BITS,
        _NONE_WITHOUT_HEADS,
        _MANY_HEADS,
        _GRADIENT_TAKEN_FOR_PACKED,
        _ALIGNED,
    ),
)
def torch_sdpa_biased(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Attention of [batch, heads, queries, dimension] with a bias [batch, heads, queries, keys], -inf where a key is hidden."""
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)


@variant(
    operation="attention",
    parameters={"causal": "top-left"},
    call=_CALL,
    dtypes=NARROW_DTYPES,
    description="torch's scaled_dot_product_attention with is_causal, by the backend that torch chooses",
    provenance="PyTorch",
    known_defects=(*_OF_FLASH_ATTENTION, _NONE_WITHOUT_HEADS, _GRADIENT_TAKEN_FOR_PACKED, _ALIGNED),
)
def torch_sdpa_causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Causal attention of [batch, heads, length, dimension]."""
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


@variant(
    operation="attention",
    call=_CALL,
    dtypes=NARROW_DTYPES,
    description="torch's attention by its backend MATH, single operations in float32",
    provenance="PyTorch",
)
def torch_sdpa_math(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention of [batch, heads, queries, dimension] over [batch, heads, keys, dimension]."""
    return _by(SDPBackend.MATH, q, k, v)


@variant(
    operation="attention",
    call=_CALL,
    dtypes=SIXTEEN_BIT_DTYPES,
    description="torch's attention by its backend FLASH_ATTENTION",
    provenance="PyTorch; Dao, FlashAttention-2, 2023",
    known_defects=_OF_FLASH_ATTENTION,
)
def torch_sdpa_flash(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention of [batch, heads, queries, dimension] over [batch, heads, keys, dimension]."""
    return _by(SDPBackend.FLASH_ATTENTION, q, k, v)


@variant(
    operation="attention",
    call=_CALL,
    dtypes=NARROW_DTYPES,
    description="torch's attention by its backend EFFICIENT_ATTENTION, on a GPU alone",
    provenance="PyTorch; Rabe and Staats, Self-attention does not need O(n^2) memory, 2021",
    known_defects=(_MANY_HEADS, _ALIGNED),
)
def torch_sdpa_efficient(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention of [batch, heads, queries, dimension] over [batch, heads, keys, dimension]."""
    return _by(SDPBackend.EFFICIENT_ATTENTION, q, k, v)


@variant(
    operation="attention",
    call=_CALL,
    dtypes=SIXTEEN_BIT_DTYPES,
    description="torch's attention by its backend CUDNN_ATTENTION, on a GPU alone",
    provenance="PyTorch; cuDNN",
    known_defects=(_NO_KERNEL, _GRADIENT_TAKEN_FOR_PACKED, _ALIGNED),
)
def torch_sdpa_cudnn(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention of [batch, heads, queries, dimension] over [batch, heads, keys, dimension]."""
    return _by(SDPBackend.CUDNN_ATTENTION, q, k, v)
