"""The calls of ways: their numbers, where these lie, the function with what it is given beside them, and the call before."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import msgspec
import numpy as np
import torch

from oracles.formats import FORMATS, Bits, decode, encode
from softcheck.calling.call import TORCH_DTYPES, to_bits, to_tensor
from softcheck.calling.operands import Around, Change, Inputs, given, inputs_of, with_operands
from softcheck.contract import FindingKind, Violation
from softcheck.errors import UsageError
from softcheck.operations.heads import split
from softcheck.operations.operation import without_layout
from softcheck.operations.registry import operation
from softcheck.operations.targets import in_rows
from softcheck.probes.base import Subject
from softcheck.probes.histories.player import failing, in_vain
from softcheck.probes.operand_moves import (
    OF_ALL_HEADS,
    OF_QUERIES,
    KeptOperands,
    laid_out,
    rows_of_shared,
    with_shared_masks,
)
from softcheck.probes.options import TEMPERATURE, VALUES, called_as, giving, temperature_call, with_options
from softcheck.probes.poison import handing_out
from softcheck.probes.same_bits import differing
from softcheck.probes.space import axes as ax
from softcheck.probes.space import contents, own, strides
from softcheck.probes.space.axes import WaySpace
from softcheck.probes.space.way import VALUES as NUMBERS
from softcheck.probes.space.way import Way, named
from softcheck.variants.adapt import Adapted, operands_of

OPERANDS = ("q", "k", "v")
_LONG = 2000
"""Columns from which on a wider row has one column more, and not three times as many."""
_MATRICES = 2
"""Matrices of a call's rows that have one answer: of a single one all layouts of rows are one."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call that is ready to be made."""

    subject: Subject
    function: Callable[..., Any]
    laid: strides.Laid
    place: int
    """The dimension that is the row."""
    layout: str = strides.PACKED
    over_last: Callable[..., Any] | None = None
    """The call over the last dimension of the same tensors, where it is over another."""
    beside: list[torch.Tensor] = field(default_factory=list)
    """Memory beside that which calls were given for their answers: NaN, unless they wrote there."""
    lay: Change | None = None
    """Lays the operands beside the input out as the way has them; None where they lie as they are made."""

    def at(self, x: torch.Tensor, function: Callable[..., Any] | None = None) -> Callable[..., Any]:
        """Returns the function, or another in its place, with the operands beside an input as they lie."""
        return with_operands(function or self.function, x, self.lay)

    def storage(self) -> torch.Tensor:
        """Returns the input's storage in memory of its own."""
        return to_tensor(self.laid.storage, self.subject.setting.fmt, self.subject.device)

    def view(self, storage: torch.Tensor) -> torch.Tensor:
        """Returns the input in its storage."""
        return storage.as_strided(self.laid.shape, self.laid.strides, self.laid.offset)

    def as_rows(self, tensor: torch.Tensor, due: tuple[int, int]) -> torch.Tensor | None:
        """Returns an answer, or a gradient, as a matrix of the shape that is due, [rows, numbers]; None for one of another size."""
        if tensor.numel() != due[0] * due[1]:
            return None
        if self.place != -1 and tensor.shape == torch.Size(self.laid.shape):
            tensor = tensor.movedim(self.place, -1)
        return tensor.reshape(due)

    def like(self, values: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
        """Returns numbers for each row in the shape of an answer."""
        if self.place == -1:
            return values.reshape(output.shape)
        shape = [*output.shape]
        shape.append(shape.pop(self.place))
        return values.reshape(shape).movedim(-1, self.place).contiguous()


class WayCalls:
    """Prepares the calls of ways of one space, and makes those that come before."""

    def __init__(self, space: WaySpace, seed: int) -> None:
        self.space, self._seed = space, seed
        self._subjects: dict[tuple[tuple[str, str], ...], Subject | None] = {}

    def bits(self, way: Way, again: str = "") -> Bits:
        """Returns the rows of a way, [rows, columns]; ``again`` gives others of the same contents."""
        setting, numbers = self.space.subject.setting, self.space.source.numbers
        name = self.space.contents[way.get(ax.CONTENTS, contents.PLAIN)]
        is_of_matrices = self._is_of_matrices(way)
        rows = _MATRICES * self.space.rows_of(way) if is_of_matrices else int(np.prod(self.space.leading_of(way)[0]))
        columns = self.space.columns_of(way)
        rng = np.random.default_rng([self.seed(way, again), columns])
        make = contents.mixed_rows if way.get(ax.OTHERS) else contents.rows_of
        bits = make(name, rows, columns, setting.fmt, rng, numbers)
        if name == contents.PLAIN and not way.get(ax.SHARED_MASK) and self._has_mask(way):
            # A mask that hides nothing shows nothing of where it lies; a shared one hides columns of its own.
            bits = contents.partly_hidden(bits, setting.fmt, rng)
        if way.get(ax.SHARED_MASK):
            batches = split(rows)[0] if setting.has_heads else (*self.space.leading_of(way)[0][:-1], 1)[0]
            of_one = rows // batches if way.get(ax.SHARED_MASK).startswith(OF_ALL_HEADS) else rows
            subject = self.subject(way)
            known = {} if subject is None else subject.variant.operation.parameters
            bits = rows_of_shared(bits, setting.fmt, of_one, known)
        bits = contents.beside_like(bits, way.get(ax.LIKE), setting.fmt) if way.get(ax.LIKE) else bits
        bits = bits.reshape(_MATRICES, -1) if is_of_matrices else bits
        return encode(decode(bits, setting.fmt), self.space.wider) if way.get(ax.DTYPE) and self.space.wider else bits

    def _has_mask(self, way: Way) -> bool:
        """True if a call of a way is given a mask of what is hidden."""
        subject = self.subject(way)
        taken = () if subject is None else operands_of(subject.variant.function)
        return not {"mask", "keep"}.isdisjoint(map(without_layout, taken))

    def _is_of_matrices(self, way: Way) -> bool:
        """True if the rows of a way are those of one matrix, which has one answer, such as a mean."""
        subject = self.subject(way)
        return subject is not None and subject.setting.has_row_calls

    def in_matrices(self, way: Way) -> AbstractContextManager[None]:
        """Makes matrices of as many rows as a way has, where one answer is for all of them."""
        return in_rows(self.space.rows_of(way)) if self._is_of_matrices(way) else nullcontext()

    def seed(self, way: Way, again: str = "") -> int:
        """Returns the seed of a way's numbers: that of others with the same contents and the same number of ``values``."""
        digest = hashlib.sha256(f"{self._seed} {way.get(NUMBERS)} {way.get(ax.CONTENTS)} {again}".encode()).digest()
        return int.from_bytes(digest[:4])

    def subject(self, way: Way) -> Subject | None:
        """Returns the subject with a way's options, sizes of heads and layouts of operands; None where these are not judged together."""
        given = tuple(each for each in way.values if each[0] in {*VALUES, *ax.HEADS, TEMPERATURE, ax.CALL})
        if given not in self._subjects:
            self._subjects[given] = self._with_options(dict(given))
        subject = self._subjects[given]
        if subject is not None and way.get(ax.DTYPE):
            subject = replace(subject, setting=replace(subject.setting, dtype=way.get(ax.DTYPE)))
        if subject is not None and way.get(ax.SHARED_MASK) in OF_QUERIES:
            with suppress(UsageError):
                masked = float(subject.variant.operation.parameters.get("masked", 0.0))
                subject = of_other_heads(subject, {"masked": masked, "key_padding": 1.0})
        return subject

    def prepared(self, subject: Subject, way: Way, bits: Bits) -> Prepared:
        """Lays rows out as a way has them, and binds the dimension and the memory for the answer that the function is given."""
        space, subject_function = self.space, subject.variant.function
        leading, place = ((len(bits),), -1) if self._is_of_matrices(way) else space.leading_of(way)
        layout, offset = way.get(ax.LAYOUT, strides.PACKED), int(way.get(ax.OFFSET, "0"))
        beside: list[torch.Tensor] = []
        if way.get(ax.MODULE):
            subject_function = own.replaced(subject_function, lambda _: space.modules[way.get(ax.MODULE)])
        function = own.replaced(subject_function, lambda taken: self._given(taken, way, place, beside))
        over_last = None
        if place != -1:
            over_last = own.replaced(subject_function, lambda taken: self._given(taken, way, -1, beside))
            leading, place = ((len(bits),), -1) if space.is_moved(way) else (leading, place)
        laid, lay = strides.laid(bits, leading, place, layout, subject.setting.fmt, offset), _lay_of(way)
        if way.get(ax.DTYPE):

            def cast(taken: own.Function, wide: torch.Tensor) -> object:
                x = wide.to(TORCH_DTYPES[space.subject.setting.fmt.name])
                return with_operands(taken, x, lay)(x)

            function = Around(function, cast)
        function = own.mapped(function, own.VMAP[way.get(ax.VMAP)]) if way.get(ax.VMAP) else function
        return Prepared(subject, function, laid, place, layout, over_last, beside, lay)

    def _given(self, taken: own.Function, way: Way, asked: int, beside: list[torch.Tensor]) -> own.Function:
        """Returns the user's own function with what a way gives it: memory for the answer, the dimension ``asked``, and other values."""
        space, values = self.space, self.space.given_values(way)
        if way.get(ax.OUT) and space.out_parameter is not None:
            taken = _into(taken, space.out_parameter, way.get(ax.OUT), beside)
        if ax.OVER in way.get(ax.DIMS) and space.dim_parameter is not None:
            leading, place = space.leading_of(way)
            if space.is_moved(way):
                of_two = own.over_last_two(taken, space.dim_parameter)
                if place == -1:
                    return of_two
                is_packed = way.get(ax.LAYOUT, strides.PACKED) == strides.PACKED
                return own.moved(taken, {space.dim_parameter: asked}, leading, place, is_packed=is_packed)
            values[space.dim_parameter] = asked
        return own.with_values(taken, values) if values else taken

    def make_before(self, prepared: Prepared, way: Way, storage: torch.Tensor) -> Prepared:
        """Makes the call that comes before, if a way has one: whatever it gives, it must leave no mark. Returns the call that follows."""
        before = way.get(ax.BEFORE)
        if before == "the same storage":
            operands = KeptOperands()
            first = replace(prepared, lay=operands.change(prepared.lay, rewrites=False))
            whole = prepared.laid.storage.copy()
            whole[prepared.laid.places] = self.bits(way, "before")
            storage.copy_(to_tensor(whole, prepared.subject.setting.fmt, storage.device))
            x = prepared.view(storage)
            in_vain(lambda: self.space.called(first.at(x), way)(x))
            storage.copy_(prepared.storage())
            return replace(prepared, lay=operands.change(prepared.lay, rewrites=True))
        if before:
            self._make_other(prepared, way, before)
        return prepared

    def make_after(self, prepared: Prepared, way: Way, output: torch.Tensor) -> tuple[Violation, ...]:
        """Makes the calls that come after, if a way has any, on other rows of its shape; returns a violation if an answer changes by them."""
        if not way.get(ax.AFTER):
            return ()
        fmt, before = prepared.subject.setting.fmt, to_bits(output, prepared.subject.setting.fmt)
        for number in range(ax.LATER_CALLS):
            other = self.prepared(prepared.subject, way, self.bits(way, f"after {number}"))
            x = other.view(other.storage())
            with suppress(ValueError):
                in_vain(self.space.called(other.at(x), way), x)
        message = f"an answer changed in {way.get(ax.AFTER)}"
        changed = differing(FindingKind.OUTPUT_REUSED, before, to_bits(output, fmt), fmt, message)
        return () if changed is None else (changed,)

    def make_between(self, prepared: Prepared, way: Way) -> None:
        """Makes calls between a forward and its backward: of another shape, and last with another option."""
        for before in ("more rows", "another option"):
            self._make_other(prepared, way, before)

    def _make_other(self, prepared: Prepared, way: Way, before: str) -> None:
        flagged = self._with_mask_and_causal() if before == ax.MASK_AND_CAUSAL else None
        if flagged is not None:
            x = to_tensor(flagged[1], flagged[0].setting.fmt, flagged[0].device)
            in_vain(flagged[0].variant.function, x)
            return
        other = self._other(way, before)
        subject = prepared.subject
        if before == "another option":
            subject = self._with_another_option(way) or subject
            x = prepared.view(prepared.storage())
            for name, value in self.space.other_values.items():
                changed = own.replaced(subject.variant.function, lambda taken: own.with_values(taken, {name: value}))  # noqa: B023 - called at once
                in_vain(lambda: self.space.called(prepared.at(x, changed), way)(x))  # noqa: B023 - called at once
        made = self.prepared(subject, other, self.bits(other, "before"))
        x = made.view(made.storage())
        if before == "another dtype":
            setting = prepared.subject.setting
            dtype = next(dtype for dtype in setting.declaration.dtypes if dtype != setting.dtype)
            x = x.to(TORCH_DTYPES[FORMATS[dtype].name])
        try:
            function, leaves = made.at(x), dict[str, torch.Tensor]()
        except ValueError:
            # The way itself says that its operands can't be laid so.
            return
        if before == "a backward":
            inputs, has_heads = inputs_of(function, x), subject.setting.has_heads
            if has_heads and inputs is not None:
                inputs, leaves = with_leaves(inputs, OPERANDS)
                function = given(function, inputs)
            leaves = leaves or {"x": x.requires_grad_()}
        with handing_out(failing(1)) if before == "a failed allocation" else nullcontext():
            answer = in_vain(lambda: self.space.called(function, way)(x))
        if leaves and isinstance(answer, torch.Tensor) and answer.requires_grad:
            # As in a step that a loss scaler skips: what is left of it would show.
            in_vain(torch.autograd.grad, answer, [*leaves.values()], torch.full_like(answer, torch.inf))

    def _other(self, way: Way, before: str) -> Way:
        """Returns the way of the call before."""
        columns, rows, layout = self.space.columns_of(way), self.space.rows_of(way), way.get(ax.LAYOUT)
        changes = {
            "wider rows": (ax.COLUMNS, columns + 1 if columns >= _LONG else 3 * columns + 1),
            "narrower rows": (ax.COLUMNS, max(1, columns // 2)),
            "more rows": (ax.ROWS, 2 * rows + 1),
            "rows of NaN": (ax.CONTENTS, "NaN"),
            "refused memory for the answer": (ax.OUT, ax.TOO_NARROW),
            "another layout": (ax.LAYOUT, "padded by 3" if layout == "transposed" else "transposed"),
        }
        plain = way.without(ax.BEFORE).without(ax.GRADIENT).without(ax.ASKED)
        return plain.having(*changes[before]) if before in changes else plain

    def _with_another_option(self, way: Way) -> Subject | None:
        """Returns the subject with as many options at other values than the way has as are judged together."""
        found = None
        for axis in (axis for axis in self.space.axes if axis.name in VALUES):
            other = next(value for value in axis.values[::-1] if value != way.get(axis.name, axis.plain))
            changed = way.without(axis.name) if other == axis.plain else way.having(axis.name, other)
            subject = self.subject(Way(tuple(each for each in changed.values if not each[0].startswith(ax.OPERAND))))
            found, way = (found, way) if subject is None else (subject, changed)
        return found

    def _with_options(self, given: Mapping[str, str]) -> Subject | None:
        subject = self.space.subject
        if ax.CALL in given:
            call = named(self.space.calls.values())[given[ax.CALL]]
            others = {name: text for name, text in given.items() if name != ax.CALL}
            if not others:
                return called_as(subject, call)
            return with_options(subject, self.space.declared(others), giving(subject.variant.function, call, others))
        function = subject.variant.function
        taken = function.open_options if isinstance(function, Adapted) else {}
        sizes = {name: float(text) for name, text in given.items() if name in ax.HEADS and name not in taken}
        declared = self.space.declared({name: text for name, text in given.items() if name not in sizes})
        if declared:
            call = temperature_call(subject.variant.function) if TEMPERATURE in given else ""
            changed = with_options(subject, declared, call)
            if changed is None:
                return None
            subject = changed
        return of_other_heads(subject, sizes) if sizes else subject

    def _with_mask_and_causal(self) -> tuple[Subject, Bits] | None:
        """Returns a call with an operand and a causal flag, which say together what is hidden, and rows of its own.

        The rows have the shape of the matrix that a causal mask makes of a row, so that what is kept by shapes is met again.
        """
        subject, function = self.space.subject, self.space.subject.variant.function
        causal = with_options(subject, {"causal": VALUES["causal"][0]})
        if causal is None or causal.setting.operation.matrix is None or not isinstance(function, Adapted):
            return None
        call = next(iter(self.space.calls.values()))
        flagged = called_as(subject, f"{call[:-1]}, {function.open_options['causal']}=True)")
        rows, columns = causal.setting.operation.matrix(self.space.columns_of(Way()))
        fmt = subject.setting.fmt
        values = decode(contents.ordinary_rows(rows, columns, fmt), fmt)
        # Some of the first keys, which many queries of a causal mask see.
        values[:, 1::2] = -np.inf
        return None if flagged is None else (flagged, encode(values, fmt))


def with_leaves(
    inputs: Inputs, asking: Sequence[str], *, is_shared: bool = False
) -> tuple[Inputs, dict[str, torch.Tensor]]:
    """Returns inputs with operands that require a gradient, those of the names asked for, and these operands.

    All batches get those of the first if they are shared. A bias of a softmax has the matrix's own size, whose gradient is that of each
    element.
    """
    asked = {name: each for name, each in inputs.calls[-1].items() if without_layout(name) in asking}
    leaves = {n: each[:1] if is_shared else each for n, each in asked.items() if each.is_floating_point()}
    leaves = {name: each.detach().requires_grad_() for name, each in leaves.items()}
    return inputs.changed(lambda _: leaves), leaves


def of_other_heads(subject: Subject, parameters: Mapping[str, float]) -> Subject:
    """Returns the subject as if it declared heads of these parameters."""
    declared = subject.setting.declaration
    changed = {**declared.parameters, **parameters}
    return replace(
        subject,
        setting=replace(subject.setting, declaration=msgspec.structs.replace(declared, parameters=changed)),
        variant=subject.variant.of(operation(declared.operation, changed)),
    )


def _lay_of(way: Way) -> Change | None:
    """Returns the layout of a way's operands: some in layouts of their own, and all others packed, or one mask for several rows."""
    moves = {name.removeprefix(ax.OPERAND): move for name, move in way.values if name.startswith(ax.OPERAND)}
    if way.get(ax.SHARED_MASK):
        return partial(with_shared_masks, words=way.get(ax.SHARED_MASK))
    return partial(laid_out, moves=moves) if moves else None


def _into(
    function: Callable[..., Any], name: str, memory: str, beside: list[torch.Tensor]
) -> Callable[..., torch.Tensor]:
    """Returns the function with its answer in memory that it is given; what lies ``beside`` that is added to a list."""
    before, behind = (4, 9) if memory == ax.SLICE else (0, -1 if memory == ax.TOO_NARROW else 0)

    def called(*given: Any, **named: Any) -> torch.Tensor:
        x = next(each for each in (*given, *named.values()) if isinstance(each, torch.Tensor))
        end = before + x.shape[-1] + min(behind, 0)
        leading = x.shape[:-1] if memory != ax.EXCHANGED else (x.shape[1], x.shape[0], *x.shape[2:-1])
        whole = x.new_full((*leading, end + max(behind, 0)), float("nan"))
        whole = whole if memory != ax.EXCHANGED else whole.transpose(0, 1)
        beside.extend((whole[..., :before], whole[..., end:]))
        own.with_values(function, {name: whole[..., before:end]})(*given, **named)
        return whole[..., before:end]

    return own.signed_as(function, called)
