"""Cross-entropy per row: torch's own, and one pass with a running maximum and sum, with its gradient."""

from typing import Any

import torch
import triton.language as tl

from softcheck.contract import FindingKind
from softcheck.operations.arithmetic import Arithmetic
from softcheck.variants.builtin._common import ALL_DTYPES, compute_type, jit, new_output, new_row_output
from softcheck.variants.builtin._online import running_sum, tile_and_warps
from softcheck.variants.declaration import KnownDefect, Traffic, variant

IGNORED = -100
"""The ``ignore_index`` of these variants."""


@variant(
    operation="cross_entropy",
    parameters={"ignore_index": IGNORED},
    dtypes=ALL_DTYPES,
    description="torch.nn.functional.cross_entropy with reduction='none'",
    provenance="PyTorch",
    call="f(x, target)",
    known_defects=(
        KnownDefect(
            kinds=(FindingKind.ULP_EXCEEDS_BOUND, FindingKind.INF_MISMATCH),
            dtypes=("float16", "bfloat16"),
            backends=("interpreter",),
            reason="on a CPU torch keeps each row's maximum and sum in the input's 16 bits (pytorch/pytorch#158310)",
        ),
    ),
)
def torch_cross_entropy(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of each row of [rows, columns] and its target, int64 [rows]; shape [rows]."""
    return torch.nn.functional.cross_entropy(x, target, reduction="none", ignore_index=IGNORED)


@jit
def _forward_kernel(
    loss: tl.tensor,
    logarithm: tl.tensor,
    x: tl.tensor,
    target: tl.tensor,
    target_stride: tl.tensor,
    row_stride: tl.tensor,
    column_stride: tl.tensor,
    columns: tl.tensor,
    ignored: tl.tensor,
    BLOCK: tl.constexpr,
    COMPUTE: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    chosen = tl.load(target + row * target_stride)
    if chosen == ignored:
        tl.store(loss + row, 0.0)
        return
    input_row = x + row * row_stride
    maximum, total = running_sum(input_row, column_stride, columns, BLOCK, COMPUTE)
    is_column = (chosen >= 0) & (chosen < columns)
    at_target = tl.load(input_row + chosen * column_stride, mask=is_column, other=float("nan")).to(COMPUTE)
    tl.store(logarithm + row, maximum + tl.log(total))
    # The maximum less the target is nearly exact where both are large.
    tl.store(loss + row, (maximum - at_target) + tl.log(total))


@jit
def _backward_kernel(
    gradient: tl.tensor,
    of_loss: tl.tensor,
    of_loss_stride: tl.tensor,
    logarithm: tl.tensor,
    x: tl.tensor,
    target: tl.tensor,
    target_stride: tl.tensor,
    row_stride: tl.tensor,
    column_stride: tl.tensor,
    columns: tl.tensor,
    ignored: tl.tensor,
    BLOCK: tl.constexpr,
    COMPUTE: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    chosen = tl.load(target + row * target_stride)
    scale = tl.where(chosen == ignored, 0.0, tl.load(of_loss + row * of_loss_stride).to(COMPUTE))
    normalizer = tl.where(chosen == ignored, 0.0, tl.load(logarithm + row))
    lane = tl.arange(0, BLOCK)
    for start in range(0, columns, BLOCK):
        column = start + lane
        pointers = x + row * row_stride + column.to(tl.int64) * column_stride
        logits = tl.load(pointers, mask=column < columns, other=-float("inf")).to(COMPUTE)
        probability = tl.exp(logits - normalizer)
        difference = tl.where(column == chosen, probability - 1.0, probability)
        # An ignored row's probabilities are of no normalizer and may be infinite.
        found = tl.where(chosen == ignored, 0.0, scale * difference)
        tl.store(gradient + row * columns + column, found, mask=column < columns)


class OnlineCrossEntropy(torch.autograd.Function):
    """Keeps the logarithm of each row's sum, so that the backward reads the logits once."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The loss of each row of [rows, columns] and its target, int64 [rows]; shape [rows]."""
        loss, logarithm = new_row_output(x), new_row_output(x)
        if x.numel():
            rows, columns = x.shape
            block, warps = tile_and_warps(columns)
            arguments = (x, target, target.stride(0), *x.stride(), columns, IGNORED, block, compute_type(x))
            _forward_kernel[(rows,)](loss, logarithm, *arguments, num_warps=warps)
        ctx.save_for_backward(x, target, logarithm)
        return loss

    @staticmethod
    def backward(ctx: Any, of_loss: torch.Tensor) -> tuple[torch.Tensor, None]:
        """The gradient of the logits, shape [rows, columns], from the logarithms of rows' sums; none of the targets."""
        x, target, logarithm = ctx.saved_tensors
        gradient = new_output(x)
        if x.numel():
            rows, columns = x.shape
            block, warps = tile_and_warps(columns)
            arguments = (logarithm, x, target, target.stride(0), *x.stride(), columns, IGNORED, block, compute_type(x))
            _backward_kernel[(rows,)](gradient, of_loss, of_loss.stride(0), *arguments, num_warps=warps)
        return gradient, None


@variant(
    operation="cross_entropy",
    parameters={"ignore_index": IGNORED},
    dtypes=ALL_DTYPES,
    batch_invariant=True,
    backward=True,
    description="one pass in tiles of up to 4096, one running maximum and sum per row; float32 losses; backward in one pass",
    provenance="Milakov and Gimelshein, Online normalizer calculation for softmax, 2018",
    call="f(x, target)",
    traffic=Traffic(reads=1, writes=0, row_reads=2, row_writes=2),
    arithmetic=Arithmetic(rescales=True),
)
def cross_entropy_online(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of each row of [rows, columns] and its target, int64 [rows]; 0 for a target of -100. Shape [rows]."""
    loss: torch.Tensor = OnlineCrossEntropy.apply(x, target)  # type: ignore[no-untyped-call]
    return loss
