"""Elements beyond 2^31: rows and columns 2^30 elements apart, and dense tensors of more than 2^31 elements.

If memory allows, decoys lie 2^32 elements before the far elements, where a wrapped 32-bit offset points. A kernel with
such offsets then reads and writes decoys, and the finding says so, instead of faulting. Decoys lie far above the other
logits, since softmax does not change with a maximum that is a little too large. Under the interpreter the strided inputs
lie in virtual memory, of which only the used pages exist.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial

import msgspec
import numpy as np
import torch

from oracles.formats import Bits, Format, decode, encode
from softcheck.calling.call import TORCH_DTYPES, Placed, Returned, is_out_of_memory, to_bits, to_tensor
from softcheck.cases.case import PACKED, Layout
from softcheck.contract import FindingKind, Violation
from softcheck.operations.strides import untaken
from softcheck.probes.base import Setting, Subject, TrialTable
from softcheck.probes.helpers import (
    call_on,
    call_placed,
    free_bytes,
    named_operands,
    only,
    ordinary_rows,
    prefixed,
    stopped,
    wrong_values,
)
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import handing_out

_FAR = 2**30
"""Stride in elements. It is below 2^31, so that Triton passes it in 32 bits, and its double is not."""
_LIMIT = 2**31
_WRAP = 2**32
_DENSE_COLUMNS = 1024
_BLOCK_ROWS = 1024
_BEYOND = 2**23
"""Elements of a dense tensor beyond 2^31: of a transposed one the whole last column lies there."""
_FOR_THE_VARIANT = 2**29
"""Bytes that are left free."""
_CANARY = 0xC5
_ABOVE = 1600.0
"""Distance of decoys above the other logits: exponentials vanish beside theirs in every format."""


_Trial = Callable[[Subject], Outcome]


def _plan(setting: Setting) -> Iterator[tuple[str, _Trial]]:
    """Far rows and columns if strided layouts are declared; unless ``quick``, dense tensors, which need a GPU."""
    most = setting.declaration.max_elements
    if most is not None and most <= _LIMIT:
        return
    is_strided = "strided" in setting.declaration.layouts
    is_dense = setting.takes(_DENSE_COLUMNS) and not setting.quick
    columns = 129 if setting.takes(129) else 1
    if is_strided:
        near = Layout(row_stride=columns + 7)
        yield "row-stride-2^30", partial(_far, shape=(3, columns), strides=(_FAR, 1), near=near)
    if is_strided and setting.takes(3):
        near = Layout(row_stride=8, column_stride=32)
        yield "column-stride-2^30", partial(_far, shape=(2, 3), strides=(8, _FAR), near=near)
    if is_dense:
        yield "dense-2^31", partial(_dense, is_transposed=False)
    if is_dense and is_strided:
        yield "dense-transposed-2^31", partial(_dense, is_transposed=True)


def _made(subject: Subject, trial: _Trial) -> Iterator[Outcome]:
    """Makes one call if all is well."""
    try:
        yield trial(subject)
    except (RuntimeError, MemoryError, OSError) as error:
        if not isinstance(error, OSError) and not is_out_of_memory(error):
            raise
        yield _left_out(f"the memory could not be had: {error}")
    finally:
        if subject.device.type == "cuda":
            # These gigabytes would otherwise stay in the caching allocator, out of reach of other processes.
            torch.cuda.empty_cache()


PROBE = TrialTable(_plan, _made)


def _far(subject: Subject, shape: tuple[int, int], strides: tuple[int, int], near: Layout) -> Outcome:
    """Judges rows or columns that lie far apart; ``near`` has the same order of elements and small strides."""
    fmt, device, seed = subject.setting.fmt, subject.device, subject.setting.seed
    bits = ordinary_rows(*shape, fmt, seed)
    places = np.add.outer(strides[0] * np.arange(shape[0]), strides[1] * np.arange(shape[1]))
    # A margin for kernels that take the rows for packed and so read on from the first row.
    extent = int(places.max()) + 1 + bits.size
    # In front of it there is room for decoys where offsets that wrap at 32 bits point to, if memory allows.
    base = _LIMIT
    if device.type == "cuda":
        lacks = {front: _lack((front + extent) * fmt.itemsize + _FOR_THE_VARIANT, device) for front in (_LIMIT, 0)}
        if lacks[0] is not None:
            return _left_out(lacks[0])
        base = _LIMIT if lacks[_LIMIT] is None else 0
        storage = torch.empty(base + extent, dtype=TORCH_DTYPES[fmt.name], device=device)
    elif (memory := untaken(base + extent, TORCH_DTYPES[fmt.name])) is not None:
        storage = memory
    else:
        return _left_out(f"on {sys.platform} memory can't be asked for without being taken")
    nan = encode(np.array([np.nan]), fmt)[0]
    storage[base : base + bits.size] = to_tensor(np.full(bits.size, nan, dtype=fmt.storage), fmt, device)
    wrapping = np.where(places >= _LIMIT, places - _WRAP, places) + base
    # The matrix that a kernel with wrapped offsets sees.
    wrapped = np.where(places >= _LIMIT, _decoys(*shape, fmt, seed + 1), bits)
    if base:
        storage[torch.from_numpy(wrapping).to(device)] = to_tensor(wrapped, fmt, device)
    view = storage.as_strided(shape, strides, base)
    view.copy_(to_tensor(bits, fmt, device))
    returned = _call(subject, view)
    if returned.output is None:
        return _unless_out_of_memory(returned)
    output = to_bits(returned.output, fmt)
    caused = _caused(subject, bits, output, returned, near)
    if caused and base and not wrong_values(subject, wrapped, output, returned):
        kind, why = FindingKind.OUT_OF_BOUNDS_READ, "32-bit offsets wrap: elements were read 2^32 before their place"
    else:
        kind, why = FindingKind.WRONG_LAYOUT, "elements beyond 2^31 were not read from their place"
    names = named_operands(subject.variant.function, subject.setting.operation)
    circumstances = f"right with strides {near.strides(shape[1])} of {names}, wrong with {strides}; {why}"
    found = [msgspec.structs.replace(v, kind=kind, share=None) for v in caused]
    return Outcome(violations=prefixed(found, circumstances))


def _caused(subject: Subject, bits: Bits, output: Bits, returned: Returned, near: Layout) -> list[Violation]:
    """Returns the first violation that the same rows near by, in a layout of the same order, don't have."""
    wrong = wrong_values(subject, bits, output, returned)
    alone = call_on(subject, bits, near) if wrong else None
    if alone is None or alone.output is None:
        return []
    also_alone = {v.kind for v in wrong_values(subject, bits, alone.output, alone)}
    return [v for v in wrong if v.kind not in also_alone][:1]


def _decoys(rows: int, columns: int, fmt: Format, seed: int) -> Bits:
    return encode(decode(ordinary_rows(rows, columns, fmt, seed), fmt) + _ABOVE, fmt)


def _lack(needed: int, device: torch.device) -> str | None:
    """Returns words for bytes that are needed on a GPU, and not free."""
    torch.cuda.empty_cache()
    free = free_bytes(device)
    return f"need {needed / 1e9:.1f} GB of device memory, {free / 1e9:.1f} GB are free" if needed > free else None


def _left_out(why: str) -> Outcome:
    return Outcome(skipped=f"elements beyond 2^31: {why}")


def _call(subject: Subject, view: torch.Tensor) -> Returned:
    """Calls the variant without comparing the gigabytes around the input."""
    return call_placed(subject, Placed(view, torch.empty(0, dtype=view.dtype, device=view.device), subject.setting.fmt))


def _unless_out_of_memory(returned: Returned) -> Outcome:
    lacks = only(returned.violations, FindingKind.OUT_OF_MEMORY)
    return _left_out(lacks[0].message) if lacks else stopped(returned)


def _dense(subject: Subject, *, is_transposed: bool) -> Outcome:
    """Judges a dense tensor of two blocks of rows; transposed, its last column lies beyond 2^31.

    One block is repeated, the other one ends the tensor beyond element 2^31, and a decoy lies where a wrapped offset
    points.
    """
    fmt, device, seed = subject.setting.fmt, subject.device, subject.setting.seed
    if device.type != "cuda":
        return Outcome(skipped="a dense tensor of more than 2^31 elements: needs a GPU; it takes 2^21 programs")
    # Input and output, each with as much memory in front of it, and the output as torch first handed it out. A variant
    # that keeps more runs out of memory, which skips the trial.
    lack = _lack(4 * _WRAP * fmt.itemsize, device)
    if lack is not None:
        return _left_out(lack)
    before, beyond = (ordinary_rows(_BLOCK_ROWS, _DENSE_COLUMNS, fmt, seed + i) for i in range(2))
    decoy = _decoys(_BLOCK_ROWS, _DENSE_COLUMNS, fmt, seed + 2)
    storage = torch.empty(_WRAP + _BEYOND, dtype=TORCH_DTYPES[fmt.name], device=device)
    storage[:_BEYOND].view(-1, *decoy.shape).copy_(to_tensor(decoy, fmt, device))
    view = storage[_LIMIT:].view(-1, _DENSE_COLUMNS)
    if is_transposed:
        view = storage[_LIMIT:].view(_DENSE_COLUMNS, -1).t()
    view.view(-1, _BLOCK_ROWS, _DENSE_COLUMNS)[:-1].copy_(to_tensor(before, fmt, device))
    view[-_BLOCK_ROWS:] = to_tensor(beyond, fmt, device)
    canaries: list[torch.Tensor] = []
    with handing_out(partial(_behind_canaries, canaries)):
        returned = _call(subject, view)
    if returned.output is None:
        return _unless_out_of_memory(returned)
    changed = sum(int((each != _CANARY).sum()) for each in canaries)
    if changed:
        message = (
            f"32-bit offsets wrap: {changed} bytes were written 2^32 elements before the output's elements beyond 2^31; "
            "expected them in the output"
        )
        return Outcome(violations=(Violation(FindingKind.OUT_OF_BOUNDS_WRITE, message, count=changed),))
    rows, chosen = view.shape[0], np.r_[0:8, _BLOCK_ROWS - 8 : _BLOCK_ROWS]
    # In the same order of elements: what is wrong of few transposed rows too is not caused by their number.
    near = Layout(row_stride=1, column_stride=len(chosen)) if is_transposed else PACKED
    among = f"{_LIMIT + _BEYOND:,} dense elements{', transposed' if is_transposed else ''}"
    for inputs, first in ((before, 0), (before, rows // _BLOCK_ROWS // 2 * _BLOCK_ROWS), (beyond, rows - _BLOCK_ROWS)):
        output = to_bits(returned.output[first : first + _BLOCK_ROWS][torch.from_numpy(chosen)], fmt)
        caused = _caused(subject, inputs[chosen], output, returned, near)
        if caused:
            return Outcome(violations=prefixed(caused, f"right by themselves, wrong from row {first} on of {among}"))
    return Outcome()


def _behind_canaries(canaries: list[torch.Tensor], tensor: torch.Tensor, initialised: bool) -> torch.Tensor:  # noqa: FBT001 - a Policy
    """Puts 2^31 elements in front of a large tensor that torch hands out; they begin with canaries, which are added to a list."""
    is_dense = tensor.is_contiguous() or (tensor.dim() > 1 and tensor.mT.is_contiguous())
    if initialised or tensor.numel() <= _LIMIT or not is_dense:
        return tensor
    whole = torch.empty(_LIMIT + tensor.numel(), dtype=tensor.dtype, device=tensor.device)
    canaries.append(whole[:_BEYOND].view(torch.uint8).fill_(_CANARY))
    return whole[_LIMIT:].as_strided(tensor.shape, tensor.stride())
