"""Weights, smoothing, a z-loss and a soft cap in one loop over tiles, with tanh made of a sigmoid."""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def cross_entropy_kernel(
    out,
    x,
    target,
    weight,
    target_stride,
    weight_stride,
    stride_row,
    stride_col,
    n_cols,
    smoothing,
    z_loss,
    cap,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    x += row * stride_row
    chosen = tl.load(target + row * target_stride)
    maximum = -float("inf")
    total = 0.0
    weights_total = 0.0
    weighted = 0.0
    at_target = -float("inf")
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = cols < n_cols
        logits = tl.load(x + cols.to(tl.int64) * stride_col, mask=inside, other=0.0).to(tl.float32)
        logits = cap * (2 * tl.sigmoid(2 * logits / cap) - 1)
        of_column = tl.load(weight + cols * weight_stride, mask=inside, other=0.0).to(tl.float32)
        weights_total += tl.sum(of_column, axis=0)
        weighted += tl.sum(of_column * logits, axis=0)
        logits = tl.where(inside, logits, -float("inf"))
        at_target = tl.maximum(at_target, tl.max(tl.where(cols == chosen, logits, -float("inf")), axis=0))
        larger = tl.maximum(maximum, tl.max(logits, axis=0))
        total = total * tl.exp(maximum - larger) + tl.sum(tl.exp(logits - larger), axis=0)
        maximum = larger
    lse = maximum + tl.log(total)
    is_column = (chosen >= 0) & (chosen < n_cols)
    of_target = tl.load(weight + chosen * weight_stride, mask=is_column, other=0.0).to(tl.float32)
    loss = (1 - smoothing) * of_target * (lse - at_target)
    loss += smoothing / n_cols * (weights_total * lse - weighted)
    tl.store(out + row, loss + z_loss * lse * lse)


@softcheck.variant(
    operation="cross_entropy", parameters={"weight": 1, "label_smoothing": 0.1, "z_loss": 1e-3, "softcap": 20.0}
)
def cross_entropy(x, target, weight, label_smoothing, z_loss, softcap):
    n_rows, n_cols = x.shape
    out = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    if x.numel():
        arguments = (x, target, weight, target.stride(0), weight.stride(0), *x.stride(), n_cols)
        cross_entropy_kernel[(n_rows,)](out, *arguments, label_smoothing, z_loss, softcap, 64)
    return out
