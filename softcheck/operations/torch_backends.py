"""Torch's own attention of the operands of a call, by each of its backends."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from softcheck.operations.heads import Attending, heads_first
from softcheck.operations.operation import without_layout


def of_call(
    attending: Attending, given: Mapping[str, Any]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns queries, keys and values of a call as [batch, heads, length, dimension], and a mask that is True where a query sees a key.

    Of a call with a bias that holds numbers the mask is that bias, -inf where a query does not see a key.
    """
    rows = given["x"].shape[0]
    found = {without_layout(n): heads_first(n, part, rows) for n, part in given.items() if n not in {"x", "sinks"}}
    q, k, v = (found[name] for name in "qkv")
    if "keep" in found or "mask" in found:
        keep = found["keep"] if "keep" in found else ~found["mask"]
    elif "bias" in found and not attending.biased:
        keep = found["bias"] == 0
    else:
        keep = _seen(attending, k.shape[2], q.device)
    return q, k, v, found["bias"].masked_fill(~keep, float("-inf")) if attending.biased else keep


def by_torch(attending: Attending, given: Mapping[str, Any]) -> torch.Tensor:
    """Returns torch's attention of the operands of a call, [batch, heads, queries, dimension], without soft caps and sinks."""
    q, k, v, mask = of_call(attending, given)
    is_square = q.shape[2] == k.shape[2]
    is_causal = bool(attending.causal) and not attending.masked and not attending.window and not attending.biased
    is_causal = is_causal and (is_square or attending.causal == "top-left")
    is_masked = not is_causal and (attending.masked or attending.causal or attending.biased)
    y: torch.Tensor = torch.nn.functional.scaled_dot_product_attention(
        q,
        k,
        v,
        attn_mask=mask if is_masked else None,
        is_causal=is_causal,
        scale=attending.scale,
        enable_gqa=attending.groups > 1,
    )
    return y


def backends(attending: Attending) -> dict[str, Callable[[Mapping[str, Any]], torch.Tensor]]:
    """Returns torch's attention by each of its backends, by name; one that can't run raises RuntimeError when it is called."""

    def way(backend: SDPBackend) -> Callable[[Mapping[str, Any]], torch.Tensor]:
        def run(given: Mapping[str, Any]) -> torch.Tensor:
            with sdpa_kernel(backend):
                return by_torch(attending, given)

        return run

    chosen = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH)
    return {backend.name.lower(): way(backend) for backend in chosen}


@lru_cache(maxsize=2)
def _seen(attending: Attending, keys: int, device: torch.device) -> torch.Tensor:
    return attending.sees(torch.arange(attending.queries or keys, device=device), keys)
