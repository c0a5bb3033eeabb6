"""The fields that every operation fills: its operands, exact answer, the errors allowed, the rules, and its neighbours."""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracles.formats import Format, Values
from oracles.reference import FullyMasked, Reference
from softcheck.contract import FindingKind
from softcheck.numbers.model import Model
from softcheck.operations.bounds import Bounds
from softcheck.operations.gradient import Gradient
from softcheck.operations.rules import NUMBERS, Rule
from softcheck.operations.ulp import Flags, Scaled

if TYPE_CHECKING:
    import torch


Named = Mapping[str, NDArray[Any]]
"""Operands that a case names: ``target`` is int64 [rows], others are values in float64, [rows, columns]."""

Parameter = float | str
"""The value of a parameter of an operation."""


def value_in_words(value: Parameter) -> str:
    """Returns a parameter's value as ``--declare`` takes it."""
    return value if isinstance(value, str) else f"{value:g}"


class Operand(NamedTuple):
    """A tensor that an operation reads or writes. Operands that share the name of a dimension share its size."""

    name: str
    dims: tuple[str, ...]
    itemsize: int | None = None
    """Bytes of an element; None for the matrix's own."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """Values that a call takes beside the matrix or in its place, such as masks and targets.

    All are made from the matrix, each row's from that row alone. So whoever judges a row can make them again, they travel
    with the row to another batch, and a saved row is the whole input.
    """

    words: Mapping[str, tuple[str, ...]]
    """Names in a call (``softcheck.variants.forms``) that a function's parameter of a name may stand for, the likeliest first;
    the parameters' names are in lower case and separated by spaces."""
    make: "Callable[..., Mapping[str, Any]]"
    """Returns the values of the names that a call holds, from the matrix and these names. An ``x`` among them stands in the
    matrix's place."""
    trial: "Callable[[torch.Tensor, frozenset[str]], torch.Tensor]"
    """Changes a matrix of random numbers so that wrong arguments of these names show."""
    heads_first: "Callable[[str, torch.Tensor, int], torch.Tensor] | None" = None
    """Returns a view of an operand of so many rows whose first two dimensions are those rows, whatever its layout; None where the first is."""
    operands: tuple[Operand, ...] = ()
    """The tensors among the values that only some calls hold; ``Operation.operands`` has those that every call takes."""


def without_layout(name: str) -> str:
    """Returns the name of an operand without what it says of the operand's layout."""
    return name.removesuffix("_blhd").removesuffix("3")


def beside(x: "torch.Tensor", operand: "torch.Tensor", between: float) -> "torch.Tensor":
    """Returns an operand of the matrix's shape in a layout of its own: packed for a packed matrix.

    For any other matrix its rows are three elements further apart than they are long, and ``between`` fills those elements.
    """
    if x.is_contiguous():
        return operand.contiguous()
    columns = operand.shape[-1]
    wider = operand.new_full((*operand.shape[:-1], columns + 3), between)
    wider[..., :columns] = operand
    return wider[..., :columns]


def of_matrix(named: Named, name: str, x: "torch.Tensor") -> "torch.Tensor | None":
    """Returns a named operand where the matrix lies, in its dtype but for integers; None if none is named for so large a matrix."""
    import torch

    operand = named.get(name)
    if operand is None or operand.shape != tuple(x.shape[: operand.ndim]):
        return None
    found = torch.from_numpy(np.ascontiguousarray(operand))
    return found.to(x.device, x.dtype if found.is_floating_point() else found.dtype)


CERTAIN = 2.0**-12
"""ULPs of the largest error of an exact value whose figures count: the numpy judge asks Arb from four times as many on."""


class Exact(NamedTuple):
    """Exact values of a matrix from torch's float64 where it lies, [rows, columns], or [rows, 1] with one answer for each row.

    Those of a row with NaN, with +inf or of -inf alone are the convention's, with NaN for a row of -inf.
    """

    values: "torch.Tensor"
    uncertainty: "float | torch.Tensor"
    """The largest error of a value in ULPs, where it counts; of any size where each row has its own, [rows]."""


class Limits(NamedTuple):
    """Exact values and limits of a matrix on a device; all float64, [rows, columns], or [rows, 1] with one answer for each row.

    Of an operation with ``parts`` each part of an answer is a row here, [rows * parts, numbers of a part]. Limits of special rows
    have no meaning.
    """

    exact: "torch.Tensor"
    per_ulp: "torch.Tensor"
    """1 / ulp(r), a power of two."""
    limits: "torch.Tensor"
    """The largest error allowed, in ULPs, 0 where the answer is settled."""
    uncertainty: "float | torch.Tensor"
    """The largest error of ``exact`` in ULPs, where it counts; of any size where each row has its own, [rows]."""
    logits: "torch.Tensor"
    """The logits of each row, or the largest, [rows, 1]: NaN or +inf where a part sees such a logit, -inf where it sees none."""
    sums: "torch.Tensor | None" = None
    """Largest |sum - 1| of each row, float64 [rows]; None if no rule is about sums."""
    below: "torch.Tensor | None" = None
    """The limits of outputs below the exact value, where they differ from ``limits``; None if they are the same."""
    undefined: "torch.Tensor | None" = None
    """The rows whose answer nobody promises, bool [rows]; None if there are none."""
    least: "torch.Tensor | None" = None
    """The least value that keeps the rule of a range; None if an operation has one range for all elements, or none."""
    most: "torch.Tensor | None" = None
    """The largest such value."""


FAMILIES = (
    *("huge", "shifted", "padding", "special", "widths", "finfo-min", "subnormal-logits", "subnormal-results"),
    *("ties", "one-hot", "ramp", "normal", "uniform", "negative", "positive", "sorted", "one-column", "empty"),
    *("layout", "sources", "wide", "rows", "temperature", "format-specials", "random-bits", "cancellation"),
)
"""The families of a matrix of logits."""


def as_they_are(outputs: Values) -> Values:
    """The probabilities of outputs that are probabilities."""
    return outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A function of each row of a matrix, and all that judges an output of it. ``operations.registry`` names it."""

    name: str
    operands: tuple[Operand, ...] = (Operand("x", ("rows", "columns")),)
    """The tensors that it takes, in order. The families fill the first."""
    outputs: tuple[Operand, ...] = (Operand("y", ("rows", "columns")),)
    """The tensors that it returns, in order. The judge measures the first."""
    families: tuple[str, ...] = FAMILIES
    """The case families whose logits it takes (``softcheck.cases.families``). Other cases, such as regressions, it
    takes too."""
    relations: tuple[str, ...] = ()
    """The probes ``softcheck.probes.NAME`` whose two inputs have the same answers, but for their places."""
    answer: Callable[[Values, Format, FullyMasked], Reference]
    """Returns the everyday oracle's answer for outputs of a format: float64 for 16 and 32 bits, a better one for float64.

    Takes the inputs' values, float64 [rows, columns], and the convention for a row of -inf.
    """
    prove: Callable[[Values, Format, FullyMasked], Reference]
    """Returns the Arb oracle's answer: proven enclosures, for rows that the everyday oracle's own error could decide."""
    bounds: Callable[[Values, Scaled, Values, Model], Bounds]
    """Returns the errors that an arithmetic allows; takes the inputs' values, the exact answer in units of its ULP, the
    exact answer rounded to float64, and the arithmetic's constants."""
    rules: tuple[Rule, ...] = NUMBERS
    """The rules that an output must keep."""
    yardstick: "Callable[[torch.Tensor], torch.Tensor]"
    """Computes the operation as torch does; the speed of variants is given beside it."""
    allowed: Callable[..., Bounds] | None = None
    """Returns ``bounds`` for logits with errors of their own, a ``Number``; None for an operation without options of logits. Logarithms take a
    keyword argument ``base``."""
    plain: "Callable[[torch.Tensor], torch.Tensor] | None" = None
    """Computes the operation by single operations in the matrix's dtype, which a usual rule compares with; None if that is ``yardstick``."""
    by_torch: "Callable[[Mapping[str, torch.Tensor]], torch.Tensor] | None" = None
    """Computes the operation as torch does, from the operands of a call by name, beside which such calls are timed; None if
    calls take no operands but masks."""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    """Numbers and words that the operation depends on, such as a scale, with their values."""
    with_parameters: "Callable[..., Operation] | None" = None
    """Returns the operation for other values of its parameters, which are keyword arguments. Raises UsageError for a value
    that is not judged."""
    matrix: Callable[[int], tuple[int, int]] | None = None
    """Returns the rows and columns of the matrix that a row of so many columns is given as, such as queries and keys; None if it is
    given as it is. If a row has one answer, such as a mean, each matrix is given in a call of its own."""
    parts: Callable[[int], tuple[int, int]] | None = None
    """Returns for a row of so many columns how many parts its answer has, and the numbers of a part: queries and the dimension of
    a head, or queries and keys. None where the answer is like the row, or one number."""
    logits: Callable[[Values, Format], Values] | None = None
    """Returns the logits behind each part of the rows' answers, float64 [rows * parts, keys], from the inputs' values and format.
    Conventions for special values, sums and order hold for each part by itself. None if a row has its own logits alone."""
    most_columns: int | None = None
    """Columns of the widest row that is judged; None for any width."""
    arguments: Arguments | None = None
    """The values that calls take beside the matrix; None if the matrix is all."""
    named: Named = field(default_factory=dict)
    """Operands of the rows of one matrix in place of those that ``arguments`` makes of it."""
    with_named: "Callable[[Operation, Named], Operation] | None" = None
    """Returns an operation for named operands; None if it takes none."""
    undefined: Callable[[Values, Format], Flags] | None = None
    """Returns the rows whose answer nobody promises, [rows], or the parts of rows, [rows * parts], since a right arithmetic may
    overflow on its way, from the inputs' values and format; None if there are no such rows."""
    scale: Callable[[Values, Values, Format], Values] | None = None
    """Returns the size of what a right arithmetic rounds on the way, where r itself may be as small as you like: errors are
    counted in ulp(max(|r|, size)). Takes the inputs' values, the answers rounded to float64, and the output's format, and returns
    what can be broadcast to the answers' shape. None counts in ulp(r)."""
    scale_text: str = ""
    """The unit in words, as ``of max(|r|, 1)``."""
    probabilities: Callable[[Values], Values] = as_they_are
    """Returns the probabilities of outputs, whose sum is 1 where ``rules`` has such a rule."""
    ways: "Callable[[], Mapping[str, Callable[[Mapping[str, torch.Tensor]], torch.Tensor]]] | None" = None
    """Returns torch's ways to compute it from the operands of a call, by name, of which the quickest is timed; None for ``by_torch``."""
    flops: Callable[[int, int], float] | None = None
    """Returns the floating-point operations that count for so many rows and columns; None where only bytes count."""
    timed_shape: tuple[int, int] | None = None
    """Rows and columns on which a report times it, whatever ``most_columns`` is; None for those of softmax."""
    gradient: Gradient | None = None
    """The judge of its gradients; None if they are not looked at."""
    sum_sign: int = 0
    """1 where answers grow with the sum of a row's exponentials, -1 where they shrink, 0 where the sum does not tell."""
    sums: str = "logsumexp"
    """The operation of the log-sum-exp that a function may give beside the answer."""
    takes_exponentials: bool = True
    """False if large operands alone make its terms large, as in softmax's backward."""
    subtracts_maximum: bool = True
    """False if exponentials are taken of the matrix's own numbers, which are at most 0 for any other reason."""
    operand_gradients: "Callable[[Values, Values, Format, Model], Mapping[str, tuple[Values, Values]]] | None" = None
    """Returns the exact gradient by each operand and the largest error of one, float64 [rows, length, dimension], from the inputs' values, the
    output's gradient, [rows, parts * numbers], the format and the arithmetic's constants; None if they are not looked at."""
    on_device: "Callable[..., Exact] | None" = None
    """Returns exact values where a tensor lies, from the tensor and the output's format. Functions of the operation then take tensors for
    values too. Without it there is no search for the worst row."""
    limits: "Callable[[torch.Tensor, Format, Model], Limits] | None" = None
    """Returns limits too, in place of ``on_device``, for an operation that takes parts of a row at a time."""
    range_of: "Callable[[Values, Format, Model], tuple[Values, Values]] | None" = None
    """Returns the least and the largest value of each output, for the rule ``WITHIN_ITS_VALUES``; None for an operation without it."""

    def decimal(self, row: Values, column: int, fmt: Format, fully_masked: FullyMasked) -> str:
        """Returns one exact element of a row in decimal, from the row's values, the element's column, and the inputs' format."""
        proven = self.prove(row[None], fmt, fully_masked)
        return proven.decimal(0, min(column, proven.high.shape[1] - 1), 20)

    def naming(self, named: Named) -> "Operation":
        """Returns the operation for the operands that a case names."""
        if not named:
            return self
        assert self.with_named is not None
        return replace(self.with_named(self, named), named=named)

    def of_rows(self, rows: "slice | NDArray[np.int64]") -> "Operation":
        """Returns the operation for some rows of the matrix whose operands are named; itself where none is."""
        return self.naming({name: operand[rows] for name, operand in self.named.items()}) if self.named else self

    def making(self, make: "Callable[..., Mapping[str, Any]]") -> "Operation":
        """Returns the operation whose calls get the operands that ``make`` gives, as ``Arguments.make`` does."""
        assert self.arguments is not None, "calls take no operands"
        return replace(self, arguments=replace(self.arguments, make=make))

    @property
    def answers_rows(self) -> bool:
        """True if each row, or each of a row's queries, has one answer, in place of one for each element."""
        return self.outputs[0].dims in (("rows",), ("rows", "queries"))

    @property
    def answers_logits(self) -> bool:
        """True if each answer belongs to one logit, of the row or of its part."""
        return self.outputs[0].dims[-1] == "columns"

    @property
    def answers_elements(self) -> bool:
        """True if each answer belongs to one element of the matrix."""
        return self.answers_logits and self.parts is None

    def part_shape(self, columns: int) -> tuple[int, int]:
        """Returns how many parts the answer for a row of so many columns has, and the numbers of a part."""
        if self.parts is not None:
            return self.parts(columns)
        return (1, 1 if self.answers_rows else columns)

    @property
    def is_judged_on_device(self) -> bool:
        """True if outputs can be judged where they lie."""
        return self.on_device is not None or self.limits is not None

    def output_shape(self, rows: int, columns: int) -> tuple[int, int]:
        """Returns the shape of an output as it is judged: the parts of a row's answer stand one behind the other."""
        parts, numbers = self.part_shape(columns)
        return (rows, parts * numbers)

    def least_scale(self, values: Values, answers: Values, fmt: Format) -> Values | None:
        """Returns ``scale`` of finite answers, 0 elsewhere; None if errors are counted in ulp(r)."""
        if self.scale is None:
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            size = np.broadcast_to(self.scale(values, answers, fmt), answers.shape)
        return np.where(np.isfinite(size), size, 0.0)

    @property
    def gradient_in_place(self) -> bool:
        """True if a call may overwrite its input with the gradient for an output gradient of 1."""
        return bool(self.parameters.get("gradient_in_place", 0.0))

    @property
    def hides_by_zero(self) -> bool:
        """True if a rule holds that the answer for what is hidden is 0."""
        return any(rule.kind is FindingKind.MASKED_NOT_ZERO for rule in self.rules)

    @property
    def sums_rows(self) -> bool:
        """True if a rule holds for the sum of a row's probabilities."""
        return any(rule.kind is FindingKind.SUM_VIOLATION for rule in self.rules)

    def dims_of(self, names: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Returns the dimensions of operands by name; empty where one of them is not made row by row."""
        optional = () if self.arguments is None else self.arguments.operands
        found = {each.name: each.dims for each in (*self.operands, *optional)}
        known = {name: found[without_layout(name)] for name in names if without_layout(name) in found}
        return known if len(known) == len(names) else {}

    def per_logit(self, columns: int) -> int:
        """Returns how many numbers of operands and answers there are for each two logits of a row: 1 for softmax, many for a head."""
        return max(1, self.bytes_moved({"rows": 1, "columns": columns}, 1) // (2 * max(1, columns)))

    def bytes_moved(self, sizes: Mapping[str, int], itemsize: int, names: Collection[str] = ()) -> int:
        """Returns the bytes that must be read and written at least, for dimensions of these sizes and elements of ``itemsize``.

        ``names`` are those in the call, which may be of further operands, such as a mask.
        """
        optional = () if self.arguments is None else self.arguments.operands
        moved = (*self.operands, *self.outputs, *(each for each in optional if each.name in map(without_layout, names)))
        queries, numbers = self.part_shape(sizes["columns"])
        known = {
            "queries": queries,
            "head_dim": int(self.parameters.get("head_dim", numbers)),
            "value_dim": numbers,
            **sizes,
        }
        return sum(math.prod(known[dim] for dim in each.dims) * (each.itemsize or itemsize) for each in moved)


def functions_of(of: object, plain: Operation | None = None) -> dict[str, Any]:
    """Returns the functions of an operation that an object has as methods; those alone that the operation ``plain`` has, if it is given."""
    names = (each.name for each in fields(Operation) if callable(getattr(of, each.name, None)))
    return {name: getattr(of, name) for name in names if plain is None or getattr(plain, name) is not None}
