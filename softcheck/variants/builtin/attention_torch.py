"""Attention by torch's scaled_dot_product_attention, with each of its backends."""

from collections.abc import Callable

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from softcheck.errors import UninterpretableError
from softcheck.variants.builtin.declarations import declared


def _by(backend: SDPBackend) -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]:
    """Attention of [batch, heads, queries, dimension] over [batch, heads, keys, dimension] by one backend."""

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        if q.device.type != "cuda" and backend in (SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION):
            raise UninterpretableError(f"torch's backend {backend.name} runs on a GPU alone; judge it on one")
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    return attention


torch_sdpa_math = declared("torch_sdpa_math")(_by(SDPBackend.MATH))
torch_sdpa_flash = declared("torch_sdpa_flash")(_by(SDPBackend.FLASH_ATTENTION))
torch_sdpa_efficient = declared("torch_sdpa_efficient")(_by(SDPBackend.EFFICIENT_ATTENTION))
torch_sdpa_cudnn = declared("torch_sdpa_cudnn")(_by(SDPBackend.CUDNN_ATTENTION))


@declared("torch_attention_logsumexp")
def torch_attention_logsumexp(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:  # noqa: ARG001 - as others take them
    """Logarithms of the sums of exponentials of each query's scores, float32 [batch, heads, queries]."""
    return torch.logsumexp((q.float() @ k.float().mT) * q.shape[-1] ** -0.5, dim=-1)


@declared("torch_sdpa_masked")
def torch_sdpa_masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """Attention of [batch, heads, queries, dimension] with a mask [batch, heads, queries, keys], True where a key is seen."""
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=keep)


@declared("torch_sdpa_biased")
def torch_sdpa_biased(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Attention of [batch, heads, queries, dimension] with a bias [batch, heads, queries, keys], -inf where a key is hidden."""
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)


@declared("torch_sdpa_causal")
def torch_sdpa_causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Causal attention of [batch, heads, length, dimension]."""
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
