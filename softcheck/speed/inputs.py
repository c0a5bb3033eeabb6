"""Inputs that change before every timed call, so that no earlier answer fits, and the check of their answers."""

import random
from collections.abc import Mapping

import torch

from oracles.formats import Bits, Format
from softcheck.calling.call import to_bits, to_tensor
from softcheck.cases.recipe import Normal, Recipe
from softcheck.operations.operation import Operation
from softcheck.operations.softmax import SOFTMAX

_MOST_ROWS = 64
_MOST_JUDGED = 2**20
_QUANTA = 4
FLUSHED = 2.0**-126
"""float32's least normal number: the most that a kernel that flushes may lose."""
_TOLERANCE = 0.05
"""A row that was computed agrees with the judged row far within this; one left from another call misses by far more."""


_CANCELLED = 2.0**-6
"""Part of the largest answer by which sums that cancel may differ."""


def as_rows(output: object, rows: int) -> object:
    """Returns an answer of heads as a matrix of so many rows; anything else as it is."""
    return output.reshape(rows, -1) if isinstance(output, torch.Tensor) and output.dim() > 2 and rows else output


class Rotation:
    """A block of different rows, repeated down an input and shifted by another number of rows before each call.

    Row i of the input holds row (i + shift) mod n of the block, so the right answer to a call is a shifted repetition of the
    block's answer, which the judge has looked at. A variant that does nothing, keeps an answer or reads its input too early
    returns rows of another shift. Operands beside the matrix, whose ``names`` are those of the calls, are made of the block once,
    and change with the input: each input has its own.
    """

    def __init__(
        self,
        rows: int,
        columns: int,
        fmt: Format,
        seed: int,
        device: torch.device,
        operation: Operation = SOFTMAX,
        names: frozenset[str] = frozenset(),
    ) -> None:
        self.rows = rows
        self.columns = columns
        self.fmt = fmt
        self._heads_first = None if operation.arguments is None else operation.arguments.heads_first
        most = rows if self._heads_first is not None else min(_MOST_ROWS, max(8, _MOST_JUDGED // columns))
        distinct = max(1, min(rows, most))
        self.bits: Bits = Recipe(Normal(seed=seed, scale=2.0)).bits(distinct, columns, fmt)
        self._block = to_tensor(self.bits, fmt, device)
        self._blocks: dict[str, torch.Tensor] = {}
        self._shared: dict[str, torch.Tensor] = {}
        self._operands: dict[int, dict[str, torch.Tensor]] = {}
        self.operation = operation
        """The operation, whose calls get the operands of an input that were made with it."""
        if names and operation.arguments is not None:
            chosen = operation.arguments.trial(self._block, names)
            self.bits = to_bits(chosen, fmt)
            self._blocks = dict(operation.arguments.make(chosen, names))
            self._block = self._blocks.pop("x", chosen)
            dims = operation.dims_of(names)
            self._shared = {name: self._blocks.pop(name) for name in dims if "rows" not in dims[name]}
            self.operation = operation.making(lambda x, _names: self.operands(x))
        self._least: dict[int, float] = {}
        """Differences of sums that cancel, by the answer's identity: the host waits for the device once to know one."""
        self._random = random.Random(seed)  # noqa: S311 - an order, not a secret
        self._shift = 0

    @property
    def distinct(self) -> int:
        """Rows of the block."""
        return len(self.bits)

    def new_input(self) -> torch.Tensor:
        """A tensor [rows, columns], filled with the block unshifted."""
        x = torch.empty(self.rows, self.columns, dtype=self._block.dtype, device=self._block.device)
        self._operands[x.data_ptr()] = {
            name: torch.empty_like(block) if self._heads_first else block.new_empty(self.rows, *block.shape[1:])
            for name, block in self._blocks.items()
        } | {name: operand.clone() for name, operand in self._shared.items()}
        self.fill(x, 0)
        return x

    def operands(self, x: torch.Tensor) -> Mapping[str, torch.Tensor]:
        """The operands beside an input of ``new_input``."""
        return self._operands[x.data_ptr()]

    @property
    def input_bytes(self) -> int:
        """Bytes of one input, its operands included."""
        shared = sum(operand.numel() * operand.element_size() for operand in self._shared.values())
        if self._heads_first is not None:
            return shared + sum(block.numel() * block.element_size() for block in self._blocks.values())
        blocks = (self._block, *self._blocks.values())
        return shared + sum(self.rows * block[0].numel() * block.element_size() for block in blocks)

    def next_shift(self) -> int:
        """Draws a random shift, different from the last one if the block has more than one row."""
        if self.distinct > 1:
            self._shift = (self._shift + self._random.randrange(1, self.distinct)) % self.distinct
        return self._shift

    def fill(self, x: torch.Tensor, shift: int) -> None:
        """Writes the input of this shift, and the operands beside it."""
        pairs = [(self.operands(x)[name], block) for name, block in self._blocks.items()]
        if self._heads_first is not None:
            for name, block in self._blocks.items():
                rolled = self._heads_first(name, block, self.rows).flatten(0, 1)
                heads = self._heads_first(name, self.operands(x)[name], self.rows)
                heads.copy_(rolled.roll(-shift * (len(rolled) // self.rows), dims=0).view(heads.shape))
            pairs = []
        for whole, block in ((x, self._block), *pairs):
            rolled_block = block.roll(-shift, dims=0)
            for part, rolled in _parts(whole.view(self.rows, -1), rolled_block.view(len(block), -1)):
                part.copy_(rolled)

    def wrong_rows(self, output: torch.Tensor, answer: torch.Tensor, shift: int) -> torch.Tensor:
        """Number of rows of an output [rows, columns] that differ from the block's answer at this shift.

        It is a tensor on the device: nothing waits. NaN is wrong unless the answer has it.
        """
        expected = answer.roll(-shift, dims=0)
        floor = max(_QUANTA * self.fmt.least_subnormal, FLUSHED)
        if self._heads_first is not None:
            # Sums that cancel may be as small as you like, and differ by the order in which they were taken.
            if id(answer) not in self._least:
                self._least[id(answer)] = _CANCELLED * float(answer.abs().nan_to_num(0.0, 0.0, 0.0).amax())
            floor = max(floor, self._least[id(answer)])
        total = torch.zeros((), dtype=torch.int64, device=output.device)
        for part, rolled in _parts(output, expected):
            close = torch.isclose(part, rolled.expand_as(part), rtol=_TOLERANCE, atol=floor, equal_nan=True)
            total += (~close.all(dim=-1)).sum()
        return total


def _parts(whole: torch.Tensor, block: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Splits a tensor into the block's whole repetitions, [repetitions, n, columns], and the rows left.

    Each part comes with its expected rows.
    """
    n, columns = block.shape
    repeated = len(whole) // n * n
    parts = [(whole[:repeated].view(-1, n, columns), block)] if repeated else []
    if repeated < len(whole):
        parts.append((whole[repeated:], block[: len(whole) - repeated]))
    return parts
