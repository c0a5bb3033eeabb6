"""Recording of a call under Triton's interpreter: its builder's operations and its reductions, each with its shadow.

While ``recording`` is open, operations compute what they compute without it; their handles carry shadows too. What the
rules do not follow counts as exact from there on, and the recorder names it.
"""

import linecache
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import triton
from triton.runtime import interpreter

import softcheck
from softcheck.toolchain._interpreter_folds import asked_for_truth
from softcheck.toolchain.interpreter import wrapped
from softcheck.tracing.memory import Memory
from softcheck.tracing.model import Phase
from softcheck.tracing.operations import (
    SHADOW,
    Followed,
    folded,
    follow,
    is_float,
    numbers,
    shadow_of,
    unfollowed,
    with_argument,
    with_constant,
    with_moved_lanes,
)
from softcheck.tracing.shadow import Array

_NOT_THE_KERNEL = (
    str(Path(triton.__file__).parent),
    *(str(Path(softcheck.__file__).parent / folder) for folder in ("toolchain", "tracing")),
)
_MOVES = ("reshape", "trans", "expand_dims", "broadcast", "splat", "unsplat", "cat", "join", "split", "gather")
_CONSTANTS = ("get_fp16", "get_bf16", "get_fp32", "get_fp64")
_UNRECORDED = ("fcmp", "load", "store", "atomic_load", "atomic_store", "descriptor", "print", "assert")
"""Beginnings of operations whose result needs no shadow, or that are made of others."""


@dataclass(frozen=True, kw_only=True)
class TracedOperation(Followed):
    """One operation whose result depends on a traced row. Arrays have the result's shape."""

    phase: Phase
    kernel: str
    place: tuple[str, int] | None
    """File and line of the kernel."""
    program: tuple[int, int, int]
    dtype: Any
    values: Array
    """The result, as numbers."""
    makes_nan: Array
    """True where the result is NaN and no operand is."""
    addresses: Array | None = None
    """The address to which a store puts each lane; 0 where it stores nothing, or what a later store replaces."""

    @property
    def source(self) -> str:
        """The text of the kernel's line."""
        return "" if self.place is None else linecache.getline(*self.place).strip()


@dataclass(slots=True)
class TraceRecorder:
    """Records what a call does to the traced rows of ``memory``."""

    memory: Memory
    rescales: bool = True
    """False if sums are taken as the kernel forms them, without a look at the maxima below which their terms lie."""
    operations: list[TracedOperation] = field(default_factory=list)
    unfollowed: set[str] = field(default_factory=set)
    """Operations on data that no rule follows."""
    kernel: str = ""
    is_folding: bool = False
    """True inside a reduction by a function of the kernel's own, whose operations are parts of one step."""

    def take(
        self, followed: Followed | None, handle: Any, operands: Sequence[Any] = (), addresses: Array | None = None
    ) -> None:
        """Gives a result of these operands its shadow, and keeps the operation if it is a step of a traced row."""
        if followed is None:
            return
        shadow = followed.shadow
        if not self.rescales:
            shadow = replace(shadow, shift=np.full_like(shadow.shift, np.nan))
        setattr(handle, SHADOW, shadow)
        if not shadow.has_data or self.is_folding:
            return
        if not followed.is_followed:
            self.unfollowed.add(followed.name)
        if followed.phase is None:
            return
        values = np.broadcast_to(numbers(handle), shadow.state.shape)
        same = {**vars(followed), "shadow": shadow, "expected": np.broadcast_to(followed.expected, values.shape)}
        self.operations.append(
            TracedOperation(
                **same,
                kernel=self.kernel,
                place=_place_of_caller(),
                program=tuple(interpreter.interpreter_builder.grid_idx),
                dtype=handle.dtype.scalar,
                values=values,
                makes_nan=np.isnan(values) & ~_have_nan(operands, values.shape) & bool(operands),
                addresses=addresses,
            )
        )

    def launch(self, original: Any, executor: Any, *args: Any, **kwargs: Any) -> Any:
        """A launch, whose arguments the memory gets to know."""
        self.kernel = executor.fn.__name__
        for argument in (*args, *kwargs.values()):
            self.memory.know(argument)
        return original(executor, *args, **kwargs)

    def operation(self, name: str, original: Any, builder: Any, *args: Any, **kwargs: Any) -> Any:
        """An operation on elements, followed where an operand carries a shadow."""
        result = original(builder, *args, **kwargs)
        handles = [arg for arg in args if isinstance(arg, interpreter.TensorHandle)]
        if name == "extern_elementwise":
            name, handles = args[2].removeprefix("__nv_").removesuffix("f"), list(args[3])
        if any(hasattr(handle, SHADOW) for handle in handles):
            if not is_float(result) and any(shadow_of(h).has_data for h in handles if hasattr(h, SHADOW)):
                self.unfollowed.add(name)
            self.take(follow(name, handles, result), result, handles)
        return result

    def load(self, original: Any, builder: Any, ptrs: Any, mask: Any, *args: Any, **kwargs: Any) -> Any:
        """A load, whose addresses say which columns it reads."""
        result = original(builder, ptrs, mask, *args, **kwargs)
        if is_float(result):
            values = numbers(result)
            shadow = self.memory.load(ptrs.data, np.broadcast_to(mask.data, values.shape), values)
            if shadow is not None:
                self.take(Followed("load", "load", shadow, values), result)
        return result

    def store(self, original: Any, builder: Any, ptrs: Any, value: Any, mask: Any, *args: Any, **kwargs: Any) -> Any:
        """A store, whose shadow the memory keeps."""
        result = original(builder, ptrs, value, mask, *args, **kwargs)
        if is_float(value) and hasattr(value, SHADOW):
            shape = ptrs.data.shape
            shadow = shadow_of(value).each(lambda data: np.broadcast_to(data, shape))
            values, within = np.broadcast_to(numbers(value), shape), np.broadcast_to(mask.data, shape)
            self.memory.store(ptrs.data, within, values, shadow)
            addresses = np.where(within, ptrs.data, np.uint64(0))
            self.take(Followed("store", "store", shadow, values), value, addresses=addresses)
        return result

    def reduction(self, original: Any, reducer: Any, inputs: Any) -> Any:
        """A reduction along an axis, by a function of the language or of the kernel."""
        if not any(hasattr(arg.handle, SHADOW) for arg in inputs):
            return original(reducer, inputs)
        before, self.is_folding = self.is_folding, True
        try:
            results = original(reducer, inputs)
            found = _folded(reducer, inputs, results)
        finally:
            self.is_folding = before
        for result, followed in zip(results, found, strict=True):
            self.take(followed, result.handle, [arg.handle for arg in inputs])
        return results

    def scan(self, original: Any, scanner: Any, inputs: Any) -> Any:
        """A scan, which no rule follows."""
        results = original(scanner, inputs)
        for result in results if any(hasattr(arg.handle, SHADOW) for arg in inputs) else ():
            self.take(unfollowed("scan", [arg.handle for arg in inputs], result.handle), result.handle)
        return results


@contextmanager
def recording(memory: Memory, *, rescales: bool = True) -> Iterator[TraceRecorder]:
    """Records every kernel that is launched inside the block, in this thread alone."""
    recorder, builder = TraceRecorder(memory, rescales), interpreter.InterpreterBuilder
    places: dict[tuple[Any, str], Callable[..., Any]] = {
        (interpreter.GridExecutor, "__call__"): recorder.launch,
        (interpreter.ReduceOps, "apply_impl"): recorder.reduction,
        (interpreter.ScanOps, "apply_impl"): recorder.scan,
        (builder, "create_masked_load"): recorder.load,
        (builder, "create_masked_store"): recorder.store,
        (interpreter, "_implicit_cvt"): with_argument,
        **{(builder, name): with_constant for name in _CONSTANTS},
        **{(builder, f"create_{name}"): with_moved_lanes for name in _MOVES if hasattr(builder, f"create_{name}")},
    }
    for name in dir(builder):
        said = name.removeprefix("create_")
        if said != name and (builder, name) not in places and not said.startswith(_UNRECORDED):
            places[builder, name] = partial(recorder.operation, said)
    with wrapped(places):
        yield recorder


def _folded(reducer: Any, inputs: Any, results: Any) -> list[Followed | None]:
    try:
        return folded(reducer, inputs, results[0].handle.data.shape)
    except Exception as error:
        # A function that asks if a value is true can't be tried on whole arrays.
        if not asked_for_truth(error):
            raise
        return [unfollowed("reduce", [arg.handle for arg in inputs], result.handle) for result in results]


def _have_nan(operands: Sequence[Any], shape: tuple[int, ...]) -> Array:
    """True where an operand of the result's shape is NaN; of one of another shape, as a reduction has it, everywhere if any number is."""
    found = np.zeros(shape, np.bool_)
    for operand in operands:
        if is_float(operand):
            is_nan = np.isnan(numbers(operand))
            found |= is_nan if is_nan.shape == shape else is_nan.any()
    return found


def _place_of_caller() -> tuple[str, int] | None:
    """File and line of the innermost function that is neither Triton's nor softcheck's machinery: the kernel's."""
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - the only way to a caller's line
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_NOT_THE_KERNEL):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None
