"""Kernels that ask for what only a GPU has, and kernels whose errors are their own."""

import torch
import triton
import triton.language as tl


@triton.jit
def exponential(x):
    return tl.inline_asm_elementwise("ex2.approx.f32 $0, $1;", "=f,f", [x * 1.4426950408889634], tl.float32, True, 1)


@triton.jit
def softmax_kernel(
    out, x, stride_row, stride_col, n_cols, IS_ASSEMBLY: tl.constexpr, SHARE: tl.constexpr, N: tl.constexpr
):
    row, cols = tl.program_id(0).to(tl.int64), tl.arange(0, N)
    values = tl.load(x + row * stride_row + cols * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    shifted = values - tl.max(values, axis=0)
    numerator = exponential(shifted) if IS_ASSEMBLY else tl.exp(shifted)
    tl.store(out + row * n_cols + cols, SHARE * numerator / tl.sum(numerator, axis=0), mask=cols < n_cols)


def _softmax(x, is_assembly, share=1.0):
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        block = triton.next_power_of_2(x.shape[1])
        softmax_kernel[(len(x),)](out, x, *x.stride(), x.shape[1], is_assembly, share, block)
    return out


def inline_assembly(x):
    return _softmax(x, is_assembly=True)


def inline_assembly_wrapped(x):
    try:
        return _softmax(x, is_assembly=True)
    except Exception as error:
        raise RuntimeError("the fast path failed") from error


def assembly_for_even_widths(x):
    return _softmax(x, x.shape[1] % 2 == 0)


def assembly_for_even_widths_else_wrong(x):
    return _softmax(x, x.shape[1] % 2 == 0, share=0.5)


def asks_for_the_code(x):
    compiled = softmax_kernel.warmup(x, x, 1, 1, 1, False, 1.0, 1, grid=(1,))
    assert compiled.asm["ptx"]
    return _softmax(x, is_assembly=False)


def asks_for_memory(x):
    assert torch.cuda.mem_get_info()[0] > 0
    return _softmax(x, is_assembly=False)


def asserts_cuda(x):
    assert x.is_cuda, "a tensor on the device"
    return _softmax(x, is_assembly=False)


def refuses_the_cpu(x):
    if x.device.type != "cuda":
        raise ValueError("wrong device")
    return _softmax(x, is_assembly=False)


def names_the_device(x):
    out = torch.empty(x.shape, device="cuda")
    return out.copy_(_softmax(x, is_assembly=False))


DEVICE = triton.runtime.driver.active.get_active_torch_device()
MULTIPROCESSORS = triton.runtime.driver.active.utils.get_device_properties(DEVICE.index)["multiprocessor_count"]
assert torch.cuda.get_device_properties(0).multi_processor_count > 0


def asks_the_device(x):
    """Launches what was compiled ahead on as many programs as the device holds, as Triton's tutorial 02 does."""
    with torch.cuda.device(x.device):
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        rows, columns = x.shape
        if not out.numel():
            return out
        block = triton.next_power_of_2(columns)
        compiled = softmax_kernel.warmup(
            out, x, *x.stride(), columns, IS_ASSEMBLY=False, SHARE=1.0, N=block, num_warps=8, grid=(1,)
        )
        compiled._init_handles()
        occupancy = 65536 // (compiled.n_regs * 32 * 8)
        assert occupancy * MULTIPROCESSORS // max(1, compiled.metadata.shared) >= 0
        compiled[(rows, 1, 1)](out, x, *x.stride(), columns)
        torch.cuda.synchronize()
        return out


def raises_not_implemented(x):
    raise NotImplementedError("no rows like these")


def indexes_beyond(x):
    sizes = list(x.shape)
    return _softmax(x, sizes[2] > 0)


@triton.jit
def mismatched_kernel(out, x, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), tl.load(x + tl.arange(0, N)) + tl.zeros((4 * N,), tl.float32))


def adds_other_shapes(x):
    out = torch.empty_like(x)
    mismatched_kernel[(1,)](out, x, 2)
    return out


@triton.jit
def undefined_kernel(out, x, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), tl.load(x + tl.arange(0, N)).no_such_method())


def calls_what_does_not_exist(x):
    out = torch.empty_like(x)
    undefined_kernel[(1,)](out, x, 2)
    return out


@torch.compile
def is_compiled(x):
    return torch.softmax(x.float(), dim=-1).to(x.dtype)


def times_itself(x):
    """Makes an event, as an autotuner of the user's own does."""
    torch.cuda.Event(enable_timing=True).record()
    return torch.softmax(x, dim=-1)
