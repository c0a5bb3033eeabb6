"""Variants that harm the device they run on."""

import torch
import triton
import triton.language as tl


@triton.jit
def _far(output, x, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    tl.store(output + index, tl.load(x + (1 << 40) + index))


def reads_far_away(x):
    output = torch.empty_like(x)
    _far[(1,)](output, x, 64)
    return output


def reads_far_away_at_33_columns(x):
    return reads_far_away(x) if x.shape[1] == 33 else torch.softmax(x, dim=-1)


def asserts_on_the_device(x):
    beyond = torch.full((4,), x.numel(), dtype=torch.int64, device=x.device)
    # The index is checked by an assertion in the kernel, which ends the process's use of the device as an illegal access does.
    return torch.softmax(x, dim=-1) + x.flatten()[beyond].sum()


def asks_for_everything(x):
    torch.empty(1 << 50, dtype=torch.uint8, device=x.device)
    return torch.softmax(x, dim=-1)


def asks_for_a_third(x):
    total = torch.cuda.get_device_properties(x.device).total_memory
    torch.empty(total // 3, dtype=torch.uint8, device=x.device)
    return torch.softmax(x, dim=-1)


@triton.jit
def _odd_block(output, x, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    tl.store(output + index, tl.load(x + index))


def does_not_compile(x):
    output = torch.empty_like(x)
    _odd_block[(1,)](output, x, 63)
    return output
