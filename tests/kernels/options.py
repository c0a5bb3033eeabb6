"""Kernels that are right in some configurations, on some streams or in some calls only, and right ones beside them."""

import torch
import triton
import triton.language as tl

from softcheck import variant

CONFIGS = [triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 1024}), triton.Config({"BLOCK": 2048})]


def _no_loop(output, x, row_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    logits = tl.load(x + row * row_stride + column, mask=inside, other=-float("inf")).to(tl.float32)
    exponentials = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(output + row * columns + column, exponentials / tl.sum(exponentials, axis=0), mask=inside)


_plain = triton.jit(_no_loop)


def _wide_enough(configs, arguments, **_):
    return [config for config in configs if config.kwargs["BLOCK"] >= arguments["columns"]]


def _slow_where_small(output, x, row_stride, columns, BLOCK: tl.constexpr):
    # So that no tuner picks the smallest block.
    for _ in range(2000 if BLOCK == 64 else 1):
        tl.debug_barrier()
    _plain(output, x, row_stride, columns, BLOCK)


_one_too_small = triton.autotune(configs=CONFIGS[::-1], key=["columns"])(triton.jit(_slow_where_small))
_pruned = triton.autotune(configs=CONFIGS, key=["columns"], prune_configs_by={"early_config_prune": _wide_enough})(
    triton.jit(_no_loop)
)


def _launch(kernel, x, **options):
    x = x.contiguous()
    output = torch.empty_like(x)
    if output.numel():
        kernel[(len(x),)](output, x, x.stride(0), x.shape[1], **options)
    return output


def one_configuration_too_small(x):
    """The configuration of 64 columns leaves the others out; the first one, which the interpreter takes, does not."""
    return _launch(_one_too_small, x)


@variant(max_columns=2048)
def pruned(x):
    """Right up to the widest configuration: configurations that are too small for a width are never offered there."""
    return _launch(_pruned, x)


def wrong_with_16_warps(x, num_warps=4):
    result = _launch(_plain, x, BLOCK=triton.next_power_of_2(max(x.shape[1], 1)), num_warps=num_warps)
    return result * 1.5 if num_warps == 16 else result


def takes_warps(x, num_warps=4):
    """Right with any number of warps."""
    return _launch(_plain, x, BLOCK=triton.next_power_of_2(max(x.shape[1], 1)), num_warps=num_warps)


def _in_place(x, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    logits = tl.load(x + row * columns + column, mask=inside, other=-float("inf")).to(tl.float32)
    exponentials = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(x + row * columns + column, exponentials / tl.sum(exponentials, axis=0), mask=inside)


_tuned_in_place = triton.autotune(configs=CONFIGS[1:], key=["columns"])(triton.jit(_in_place))


def tuned_in_place(x):
    """The trial runs of the tuning change the copy that the kernel works on, so the first call of a width is wrong."""
    output = x.clone(memory_format=torch.contiguous_format)
    if output.numel():
        _tuned_in_place[(len(x),)](output, x.shape[1])
    return output


_own_streams = {}


def own_stream(x):
    """Neither waits for the caller's stream nor makes it wait."""
    stream = _own_streams.setdefault(x.device, torch.cuda.Stream(x.device))
    with torch.cuda.stream(stream):
        return torch.softmax(x, dim=-1)


def default_stream(x):
    """Launches on the default stream, whatever the caller's is."""
    with torch.cuda.stream(torch.cuda.default_stream(x.device)):
        return torch.softmax(x, dim=-1)


@triton.jit
def _add_up(total, x, maximum, columns, TILE: tl.constexpr):
    row = tl.program_id(0)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    logits = tl.load(x + row * columns + column, mask=column < columns, other=-float("inf")).to(tl.float32)
    tl.atomic_add(total + row, tl.sum(tl.exp(logits - tl.load(maximum + row)), axis=0))


def atomic_sums(x):
    """Adds up each row's tiles by atomics, in whatever order they come."""
    x = x.contiguous()
    if not x.numel():
        return torch.empty_like(x)
    total = torch.zeros(len(x), 1, device=x.device)
    maximum = x.float().amax(dim=1)
    _add_up[(len(x), triton.cdiv(x.shape[1], 4))](total, x, maximum, x.shape[1], TILE=4)
    return (torch.exp(x.float() - maximum[:, None]) / total).to(x.dtype)


@triton.jit
def _prescaled(output, x, row_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    logits = tl.load(x + row * row_stride + column, mask=inside, other=-float("inf")).to(tl.float32)
    top = tl.max(logits, axis=0) * 1.4426950408889634
    powers = tl.exp2(logits * 1.4426950408889634 - top)
    tl.store(output + row * columns + column, powers / tl.sum(powers, axis=0), mask=inside)


def wrong_where_fused(x):
    """Fused, the product is not rounded as the maximum's was, and leaves a large exponent where logits are large."""
    return _launch(_prescaled, x, BLOCK=triton.next_power_of_2(max(x.shape[1], 1)))
