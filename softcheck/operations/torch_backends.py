"""Attention by torch: its own function by each of its backends, and single operations."""

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


def yardstick(attending: Attending, x: torch.Tensor) -> torch.Tensor:
    """Returns the attention of a matrix's heads, [rows, queries * dimension].

    It is torch's own where that knows all parameters, else by single operations in at least 32 bits.
    """
    if attending.known_to_torch:
        # Without a mask a hidden key is -inf itself.
        given = _given(attending, x, has_mask=attending.masked or attending.biased)
        return by_torch(attending, given).reshape(len(x), -1)
    return single(attending, _given(attending, x), torch.float32).reshape(len(x), -1)


def plain(attending: Attending, x: torch.Tensor) -> torch.Tensor:
    """Returns the attention of a matrix's heads, [rows, queries * dimension], by single operations in its dtype.

    flash-attention's tests compare with such an attention. It is 0 where a query sees no key.
    """
    given = _given(attending, x)
    *_, mask = of_call(attending, given)
    keep = mask != float("-inf") if attending.biased else mask
    return single(attending, given).masked_fill(~keep.any(dim=-1, keepdim=True), 0.0).reshape(len(x), -1)


def single(attending: Attending, given: Mapping[str, Any], least: torch.dtype | None = None) -> torch.Tensor:
    """Returns scores, softmax and product, each rounded to the operands' dtype or the wider one of it and ``least``."""
    q, k, v, mask = of_call(attending, given)
    wide = q.dtype if least is None else torch.promote_types(q.dtype, least)
    weights = torch.softmax(_scores(attending, q.to(wide), k.to(wide), mask), dim=-1)[..., :-1]
    return torch.matmul(weights, v.to(wide).repeat_interleave(attending.groups, dim=1)).to(q.dtype)


def logsumexp(attending: Attending, x: torch.Tensor) -> torch.Tensor:
    """Returns the log-sum-exp of the scores of a matrix's heads, [rows, queries], by single operations in at least 32 bits."""
    q, k, _, mask = of_call(attending, _given(attending, x))
    q, k = (part.to(torch.promote_types(part.dtype, torch.float32)) for part in (q, k))
    return torch.logsumexp(_scores(attending, q, k, mask), dim=-1).reshape(len(x), -1)


def ways(attending: Attending) -> Mapping[str, Callable[[Mapping[str, Any]], torch.Tensor]]:
    """Returns torch's backends where they know all parameters, else single operations in float32."""
    if attending.known_to_torch:
        return backends(attending)
    return {"single operations": lambda given: single(attending, given, torch.float32)}


def backends(attending: Attending) -> dict[str, Callable[[Mapping[str, Any]], torch.Tensor]]:
    """Returns torch's attention by each of its backends, by name; one that can't run raises RuntimeError when it is called."""

    def way(backend: SDPBackend) -> Callable[[Mapping[str, Any]], torch.Tensor]:
        def run(given: Mapping[str, Any]) -> torch.Tensor:
            with sdpa_kernel(backend):
                return by_torch(attending, given)

        return run

    chosen = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH)
    return {backend.name.lower(): way(backend) for backend in chosen}


def _scores(attending: Attending, q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The scores of each query with the sink behind them, [batch, heads, queries, keys + 1]."""
    scores = q @ (k.repeat_interleave(attending.groups, dim=1) * attending.scale).mT
    if attending.softcap:
        scores = attending.softcap * torch.tanh(scores / attending.softcap)
    scores = scores + mask if mask.is_floating_point() else scores.masked_fill(~mask, float("-inf"))
    return torch.cat([scores, torch.full_like(scores[..., :1], attending.sink)], dim=-1)


def _given(attending: Attending, x: torch.Tensor, *, has_mask: bool = True) -> dict[str, Any]:
    """The operands of a call on a matrix's heads, with the mask and bias that torch's attention takes."""
    names = frozenset(("q", "k", "v", *(["keep"] if has_mask else []), *(["bias"] if attending.biased else [])))
    return {"x": x, **attending.make(x, names)}


@lru_cache(maxsize=2)
def _seen(attending: Attending, keys: int, device: torch.device) -> torch.Tensor:
    return attending.sees(torch.arange(attending.queries or keys, device=device), keys)
