"""Calls of a variant on a case: place the input in memory, poison uninitialised memory, and read bits back."""

import math
import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from oracles.formats import Bits, Format
from softcheck.calling import activity, launches, operands
from softcheck.calling.memory import refuse_lack
from softcheck.calling.state import Snapshot
from softcheck.calling.unable import limit_behind, refusal_behind
from softcheck.cases.case import PACKED, Layout
from softcheck.contract import FindingKind, Violation
from softcheck.operations.operation import Operation
from softcheck.operations.strides import whole

INTEGERS = {16: torch.int16, 32: torch.int32, 64: torch.int64}
"""Types whose numbers are the bit patterns of a format, by its width."""
TORCH_DTYPES = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}


@dataclass(frozen=True, slots=True)
class Placed:
    """An input matrix in device memory: ``view`` has the case's strides and offset inside ``storage``."""

    view: torch.Tensor
    storage: torch.Tensor
    fmt: Format


Output = TypeVar("Output")


@dataclass(frozen=True, slots=True)
class CallOutcome(Generic[Output]):
    """A call's outcome: the output, or None where there is none to judge, and broken promises."""

    output: Output | None
    violations: tuple[Violation, ...] = ()
    fatal: bool = False
    """This process can't go on: its device can't be used any more, or its global state can't be put back."""
    of_cpu_library: bool = False
    """True if the call ran on a CPU and launched no Triton kernel, so that a library computed the output."""


Returned = CallOutcome[torch.Tensor]
"""The output stays on the device."""
Called = CallOutcome[Bits]
"""The output's bit patterns are on the host, [rows, columns]."""


def to_tensor(bits: Bits, fmt: Format, device: torch.device) -> torch.Tensor:
    """Tensor of the format's dtype with exactly these bits, in memory of its own."""
    signed = np.array(bits, order="C").view(f"i{fmt.itemsize}")
    # CUDA has read pageable memory by the time this returns (PyTorch's tutorial on pin_memory and non_blocking), and up to
    # 64 KB of it without waiting for the device (CUDA C++ programming guide, asynchronous concurrent execution).
    return torch.from_numpy(signed).to(device, non_blocking=True).view(TORCH_DTYPES[fmt.name])


def to_bits(tensor: torch.Tensor, fmt: Format) -> Bits:
    """Bit patterns of a tensor of the format's dtype, or of a wider one as an answer for a row may have, on the host, in memory of their own."""
    width = 8 * tensor.element_size()
    signed = tensor.detach().contiguous().view(INTEGERS[width]).cpu().numpy()
    copied: Bits = signed.copy().view(fmt.storage if width == fmt.width else f"u{width // 8}")
    return copied


def place(
    bits: Bits, fmt: Format, layout: Layout, device: torch.device, *, around: float = math.nan, behind: int = 0
) -> Placed:
    """Puts a matrix into device memory in the given layout; a packed matrix is no view.

    A number lies ``around`` it: before, between and ``behind`` its elements, behind the last as many as that.
    """
    rows, columns = bits.shape
    row_stride, column_stride = layout.strides(columns)
    extent = layout.extent(rows, columns) + behind
    storage = torch.full((extent,), around, dtype=TORCH_DTYPES[fmt.name], device=device)
    placing = (rows, columns), (row_stride, column_stride)
    if layout == PACKED:
        view = torch.empty(0, dtype=storage.dtype, device=device).set_(storage.untyped_storage(), 0, *placing)
    else:
        view = storage.as_strided(*placing, layout.offset)
    if rows and columns:
        # Rows of stride 0 share memory: writing the first row once writes all.
        source = to_tensor(bits[:1] if row_stride == 0 else bits, fmt, device)
        view[: source.shape[0]].copy_(source)
    return Placed(view, storage, fmt)


def call(function: Callable[[torch.Tensor], Any], placed: Placed, operation: Operation | None = None) -> Called:
    """Runs a variant once, as ``call_on_device`` does, and brings the output's bits to the host."""
    return on_host(call_on_device(function, placed, operation), placed.fmt)


def on_host(returned: Returned, fmt: Format) -> Called:
    """Returns what a call returned, with the bits of its output."""
    output = None if returned.output is None else to_bits(returned.output, fmt)
    return CallOutcome(output, returned.violations, returned.fatal, returned.of_cpu_library)


def call_on_device(
    function: Callable[[torch.Tensor], Any], placed: Placed, operation: Operation | None = None
) -> Returned:
    """Runs a variant once, waits for its device, checks what needs no reference, and puts global state back.

    Raises UninterpretableError if the call ended because Triton's interpreter, or a machine without a GPU, can't do an
    operation, and torch.OutOfMemoryError if other processes had taken a GPU's memory. Such an end shows nothing about the variant.
    """
    device = placed.view.device
    taken, before, lent = placed, _stored(placed).clone(), []
    state = Snapshot()
    kernels = launches.counted()
    try:
        x, inputs = placed.view, operands.inputs_of(function, placed.view)
        if inputs is not None:
            function, lent = operands.given(function, inputs), inputs.lent()
            if inputs.seen is not x and not x.requires_grad:
                storage = whole(inputs.seen) if placed.storage.numel() else placed.storage
                taken = Placed(inputs.seen, storage, placed.fmt)
                before = _stored(taken).clone()
        described = _described(taken.view)
        with activity.calling():
            output = function(x)
            synchronize(device)
    except Exception as error:  # noqa: BLE001 - whatever a variant raises is a finding about it
        changed = _state_changed(state.restore())
        limit = limit_behind(error)
        if limit is not None:
            raise limit from None
        violation, is_ruined = raised(error, device)
        if not is_ruined:
            violation = _refused(error, violation, taken, before, is_first=launches.counted() == kernels)
        return CallOutcome(None, (violation, *changed), is_ruined or not state.is_restored)
    changed = (*_state_changed(state.restore()), *_redescribed(described, taken.view))
    changed += tuple(operands.changes(lent))
    output = _in_rows(output, placed.view, operation)
    wrong = returned_wrongly(output, placed.view, operation)
    if wrong is not None:
        return CallOutcome(None, (wrong, *changed), not state.is_restored)
    of_library = device.type == "cpu" and launches.counted() == kernels
    return CallOutcome(output, (*_modified(taken, before), *changed), not state.is_restored, of_library)


def _in_rows(output: Any, view: torch.Tensor, operation: Operation | None) -> Any:
    """The answers for rows as [rows, 1]: where each row has one, [rows] is as right, and nobody promises either."""
    has_one = operation is not None and operation.answers_rows and operation.parts is None
    is_flat = isinstance(output, torch.Tensor) and output.shape == view.shape[:-1]
    return output.unsqueeze(-1) if has_one and is_flat else output


def _described(view: torch.Tensor) -> dict[str, object]:
    """Returns what a caller's tensor says about itself, beside its values."""
    return {
        "requires_grad": view.requires_grad,
        "grad_fn": view.grad_fn,
        "shape": tuple(view.shape),
        "stride": view.stride(),
        "data_ptr": view.data_ptr(),
    }


def _redescribed(before: dict[str, object], view: torch.Tensor) -> tuple[Violation, ...]:
    after = _described(view)
    told = [f"{name} is {after[name]}, was {value}" for name, value in before.items() if after[name] != value]
    if not told:
        return ()
    message = f"the caller's tensor is another one after the call: {'; '.join(told)}; work on x.detach() or a copy"
    return (Violation(FindingKind.INPUT_MODIFIED, message),)


_ONE_ANSWER = "one answer for each row"


def returned_wrongly(output: object, view: torch.Tensor, operation: Operation | None = None) -> Violation | None:
    """A violation where a return value is no tensor of the operation's shape and the input's dtype (float32 for a row's answer) and device."""
    per_row = operation is not None and operation.answers_rows
    numbers = view.shape[-1] if operation is None else operation.output_shape(1, view.shape[-1])[1]
    shape = torch.Size((*view.shape[:-1], numbers))
    if not isinstance(output, torch.Tensor) or output.layout != torch.strided:
        found = f"a tensor of layout {output.layout}" if isinstance(output, torch.Tensor) else type(output).__name__
        message = f"returned {found}, expected a torch.Tensor of layout torch.strided; return the answer"
        return Violation(FindingKind.RAISED, message)
    if output.shape != shape:
        is_like_input = operation is None or operation.answers_elements
        like = "as the input's" if is_like_input else f"{numbers} numbers for each row" if numbers > 1 else _ONE_ANSWER
        if operation is not None and "reduction" in operation.parameters and not output.shape:
            like += "; if it is a mean or a sum, declare it: --declare reduction=mean"
        return Violation(FindingKind.WRONG_SHAPE, f"returned shape {list(output.shape)}, expected {list(shape)} {like}")
    if output.dtype != view.dtype and not (per_row and output.dtype == torch.float32 and view.dtype.itemsize == 2):
        return Violation(FindingKind.WRONG_DTYPE, f"returned {output.dtype}, expected {view.dtype} as the input's")
    if output.device != view.device:
        return Violation(
            FindingKind.RAISED, f"returned a tensor on {output.device}, expected {view.device} as the input's"
        )
    if output.numel() and any(
        size > 1 and stride == 0 for size, stride in zip(output.shape, output.stride(), strict=True)
    ):
        message = (
            f"returned a tensor of shape {list(output.shape)} and strides {output.stride()}, whose elements share "
            "memory, so that no caller can write to one alone; expected memory for each, as torch.empty_like gives"
        )
        return Violation(FindingKind.WRONG_LAYOUT, message)
    return None


class Dispatched(TorchDispatchMode):
    """Keeps the names of torch's operations, such as aten.sum, and carries them out."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: dict[str, None] = {}
        """The names, each once, in the order in which they came."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Leaves torch.compile's machinery alone, whose import takes a second in every process."""
        return False

    def __torch_dispatch__(
        self, function: Any, _types: Any, arguments: tuple[Any, ...] = (), options: dict[str, Any] | None = None
    ) -> Any:
        self.operations[str(function.overloadpacket)] = None
        return function(*arguments, **(options or {}))


def is_usable(device: torch.device) -> bool:
    """True if the device still works in this process: an illegal access ruins a CUDA context for good."""
    try:
        synchronize(device)
    except RuntimeError:
        return False
    return True


def synchronize(device: torch.device) -> None:
    """Waits until the device has done all of its work. Raises RuntimeError where some of it has ruined the device."""
    if device.type == "cuda":
        with activity.calling():
            torch.cuda.synchronize(device)


def is_out_of_memory(error: BaseException) -> bool:
    """True if an exception reports missing memory: a GPU's, numpy's, Python's, or torch's on the host."""
    # The message of torch's allocator for the CPU, in a RuntimeError.
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)


def raised(error: Exception, device: torch.device) -> tuple[Violation, bool]:
    """Returns the violation that an exception shows, and True if the device can't be used any more.

    A ruined device is a ``crash``. Other kinds are recognised by the type's name, since Triton's error classes move
    between releases. Raises torch.OutOfMemoryError as ``refuse_lack`` does.
    """
    refuse_lack(error, device)
    fatal = not is_usable(device)
    name = type(error).__name__
    if fatal:
        kind = FindingKind.CRASH
    elif is_out_of_memory(error):
        kind = FindingKind.OUT_OF_MEMORY
    elif "Compilation" in name or "CompileTime" in name or name == "PTXASError":
        kind = FindingKind.COMPILE_ERROR
    else:
        kind = FindingKind.RAISED
    return Violation(kind, f"{describe(error)}; expected an output"), fatal


def describe(error: BaseException) -> str:
    """Exception type, first lines of the message, and where it was raised, on one line."""
    message = " ".join(str(error).split())[:300]
    said = f"raised {message}" if isinstance(error, activity.ExitedError) else f"{type(error).__name__}: {message}"
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return said
    # The folder of an installed package says nothing, and differs between machines.
    file = re.sub(r".*/(site|dist)-packages/", "", frames[-1].filename)
    return f"{said} at {file}:{frames[-1].lineno}"


def _refused(
    error: Exception, violation: Violation, placed: Placed, before: torch.Tensor, *, is_first: bool
) -> Violation:
    """Adds the variant's refusal to a violation, if it is one; ``is_first`` is True if no kernel had been launched by then."""
    if isinstance(error, activity.ExitedError):
        # Whoever refuses a size leaves it to the caller what to do about it; an exit ends the caller.
        return violation
    *leading, columns = placed.view.shape
    rows = math.prod(leading)
    is_empty = 0 in (rows, columns)
    # A kernel that refuses an empty input when it is launched has computed nothing either.
    did_nothing = (is_first or is_empty) and bool((before == _stored(placed)).all())
    refusal = refusal_behind(error, (rows, columns), did_nothing=did_nothing)
    if refusal is None or violation.kind is FindingKind.OUT_OF_MEMORY:
        return violation
    kind = FindingKind.EMPTY_REFUSED if is_empty else violation.kind
    return msgspec.structs.replace(violation, kind=kind, refusal=refusal)


def _stored(placed: Placed) -> torch.Tensor:
    """All of the input's storage as integers, so that NaN equals itself."""
    return placed.storage.view(INTEGERS[placed.fmt.width])


def _state_changed(changed: list[str]) -> tuple[Violation, ...]:
    if not changed:
        return ()
    what = ", ".join(changed)
    message = f"changed {what[:300]}, which other code in the process relies on; expected the call to leave it alone"
    return (Violation(FindingKind.STATE_CHANGED, message, count=len(changed)),)


def _modified(placed: Placed, before: torch.Tensor) -> tuple[Violation, ...]:
    """Returns changes of the input's storage, which was as it is ``before`` as integers: of its elements, and of the memory beside them."""
    if bool((before == _stored(placed)).all()):
        return ()
    old, new = (to_bits(each, placed.fmt) for each in (before.view(placed.storage.dtype), placed.storage))
    changed = old != new
    # Not torch.zeros, whose memory a probe hands out between bands, where the view's offset would be another place.
    mine = np.zeros(old.shape, dtype=np.bool_)
    torch.from_numpy(mine).as_strided(placed.view.shape, placed.view.stride(), placed.view.storage_offset()).fill_(True)
    found = []
    for kind, mask, what in (
        (FindingKind.INPUT_MODIFIED, changed & mine, "element of the input"),
        (FindingKind.OUT_OF_BOUNDS_WRITE, changed & ~mine, "element beside the input"),
    ):
        if mask.any():
            at = int(np.flatnonzero(mask)[0])
            found.append(
                Violation(
                    kind,
                    f"{what} at storage index {at} changed from {int(old[at]):#x} to {int(new[at]):#x}; "
                    "expected the call to leave it alone",
                    count=int(mask.sum()),
                )
            )
    return tuple(found)
