"""Attention by torch's scaled_dot_product_attention, with each of its backends."""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from softcheck.contract import FindingKind
from softcheck.errors import UninterpretableError
from softcheck.variants.builtin._common import NARROW_DTYPES, SIXTEEN_BIT_DTYPES
from softcheck.variants.declaration import KnownDefect, variant

_CALL = "f(q, k, v)"

_CASTS = KnownDefect(
    kinds=(FindingKind.WRONG_DTYPE,),
    cases=("probe/*",),
    always=False,
    reason="under autocast torch casts the operands of scaled_dot_product_attention, and its answer is of autocast's dtype",
)
_ZERO_FOR_NAN = KnownDefect(
    kinds=(FindingKind.NAN_MISMATCH,),
    backends=("interpreter",),
    reason="torch's flash attention for CPUs gives 0 where a query's sum of weights is NaN, as intel/torch-xpu-ops#5022 has it",
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
    known_defects=(_ZERO_FOR_NAN, _CASTS),
)
def torch_sdpa_masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """Attention of [batch, heads, queries, dimension] with a mask [batch, heads, queries, keys], True where a key is seen."""
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=keep)


@variant(
    operation="attention",
    parameters={"causal": "top-left"},
    call=_CALL,
    dtypes=NARROW_DTYPES,
    description="torch's scaled_dot_product_attention with is_causal, by the backend that torch chooses",
    provenance="PyTorch",
    known_defects=(_ZERO_FOR_NAN, _CASTS),
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
    known_defects=(_CASTS,),
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
    known_defects=(_ZERO_FOR_NAN, _CASTS),
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
    known_defects=(_CASTS,),
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
    known_defects=(_CASTS,),
)
def torch_sdpa_cudnn(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention of [batch, heads, queries, dimension] over [batch, heads, keys, dimension]."""
    return _by(SDPBackend.CUDNN_ATTENTION, q, k, v)
