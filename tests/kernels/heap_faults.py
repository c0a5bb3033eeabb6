"""Variants whose answers are right and whose process is not: what they do to its memory ends it in another call."""

import ctypes
import os
import sys
import threading

import torch

from softcheck.contract import FindingKind
from softcheck.variants.declaration import KnownDefect, variant

_libc = ctypes.CDLL(None)
_libc.malloc.restype = ctypes.c_void_p
_libc.free.argtypes = [ctypes.c_void_p]
_libc.malloc_usable_size.argtypes = [ctypes.c_void_p]
_libc.malloc_usable_size.restype = ctypes.c_size_t
_BYTES = 4008
_blocks = []


def _block():
    """A block of memory with another one, which nothing uses, right behind it."""
    _blocks.append(_libc.malloc(_BYTES))
    _blocks.append(_libc.malloc(_BYTES))
    # glibc's heap checks put some bytes more between blocks.
    while not _BYTES < _blocks[-1] - _blocks[-2] < _BYTES + 64:
        _blocks.append(_libc.malloc(_BYTES))
    return _blocks[-2]


_kept = []


def writes_beyond_a_tensor_of_strided_input(x):
    """Strided input: a zero byte beyond the output, which torch asked for, and some beyond a block that a later call frees.

    Glibc's checks take any other byte for a distance to one that they expect, and find that one by chance now and then. The
    process surely ends in an innocent call. Whether an ordinary heap bears the byte beside the output hangs on what
    happens to lie there, so it is written where glibc's checks look alone.
    """
    output = torch.softmax(x, dim=-1)
    if not _kept:
        _kept.append(_block())
    if x.numel() > 1 and not x.is_contiguous():
        if "MALLOC_CHECK_" in os.environ:
            ctypes.memset(output.data_ptr() + output.numel() * output.element_size(), 0, 1)
        ctypes.memset(_kept[0] + _libc.malloc_usable_size(_kept[0]), 0x41, 8)
    if x.shape[-1] == 30 and x.is_contiguous():
        _libc.free(_kept.pop())
    return output


class _State:
    has_begun = False
    is_broken = False
    is_locked = False
    calls = 0


def breaks_the_next_wide_call(x):
    """No heap check sees it: a narrow call leaves a pointer that a wide one then follows."""
    if x.shape[1] == 3:
        _State.is_broken = True
    if x.shape[1] == 4 and _State.is_broken:
        ctypes.string_at(0)
    return torch.softmax(x, dim=-1)


def leaves_a_lock_held(x):
    """The next call on four columns waits for ever for what a call on three left locked."""
    if x.shape[1] == 3:
        _State.is_locked = True
    if x.shape[1] == 4 and _State.is_locked:
        threading.Event().wait()
    return torch.softmax(x, dim=-1)


def crashes_once(x):
    """Only in the first process that makes a call on four columns: a file remembers."""
    if x.shape[1] == 4:
        try:
            os.close(os.open(os.environ["CRASHES_ONCE"], os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return torch.softmax(x, dim=-1)
        os.abort()
    return torch.softmax(x, dim=-1)


def crashes_once_and_begins_with_a_change(x):
    """As the one above; the first call in each process also sets torch's default dtype."""
    if not _State.has_begun:
        _State.has_begun = True
        torch.set_default_dtype(torch.float64)
    return crashes_once(x)


def poisons_whoever_comes_next(x):
    """The next call of another variant ends the process: torch.softmax itself is left a trap, once torch is called by it."""
    if x.shape[1] == 3:
        ctypes.memset(id(os.sched_yield) + 16, 0, 24)
    return torch.softmax(x, dim=-1)


def yields(x):
    """Right, and the victim of the one above."""
    os.sched_yield()
    return torch.softmax(x, dim=-1)


def crashes_after_any_other(x):
    """Reads beyond its tensor, say: that ends the process where others have used the memory before."""
    if x.shape[1] == 3 and {"eager", "torch_native"} & {name.rpartition(".")[2] for name in sys.modules}:
        os.abort()
    return torch.softmax(x, dim=-1)


@variant(known_defects=(KnownDefect(kinds=(FindingKind.CRASH,), reason="it may"),))
def declares_its_crashes(x):
    """The one above, honest."""
    return crashes_after_any_other(x)


def leaves_a_mark(x):
    """Something that no call before a later one looks at, and that softcheck does not watch."""
    os.environ["MARKED_BY_A_VARIANT"] = "1"
    return torch.softmax(x, dim=-1)


def raises_where_marked(x):
    """Right in a process of its own."""
    if "MARKED_BY_A_VARIANT" in os.environ:
        raise RuntimeError("found a mark")
    return torch.softmax(x, dim=-1)


def raises_on_three_columns(x):
    """Wrong in any process."""
    if x.shape[-1] == 3:
        raise RuntimeError("three columns")
    return torch.softmax(x, dim=-1)
