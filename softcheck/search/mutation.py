"""Ways of changing thousands of rows at once. Each change is small enough to keep a row's badness and add to it."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from oracles.formats import Format
from softcheck.calling.call import INTEGERS, TORCH_DTYPES
from softcheck.cases.families.tiny import least_normal_distance, zero_distance
from softcheck.cases.random_rows import Draw

_FEW = 8


@dataclass(frozen=True, slots=True)
class Parents:
    """Rows to change, [rows, columns] of the format's dtype, with their worst elements and other good rows."""

    bits: torch.Tensor
    mates: torch.Tensor
    """Other good rows, to cross with; same shape."""
    witness: torch.Tensor
    """The column of each row's worst element, [rows, 1]."""
    fmt: Format
    generator: torch.Generator

    @property
    def draw(self) -> Draw:
        """Random numbers of the rows' shape."""
        return Draw(self.bits.shape[0], self.bits.shape[1], self.fmt, self.generator)

    @property
    def values(self) -> torch.Tensor:
        """The logits as float32, in memory of their own."""
        return self.bits.to(torch.float32, copy=True)

    @property
    def peak(self) -> torch.Tensor:
        """The column of each row's maximum, [rows, 1]."""
        return self.bits.to(torch.float32).argmax(dim=1, keepdim=True)

    def target(self, count: int = 1) -> torch.Tensor:
        """Columns to change, [rows, count]: the first is the worst element, the maximum or any other column."""
        d = self.draw
        columns = d.whole(0, d.columns, count)
        chosen = d.whole(0, 4, 1)
        columns[:, :1] = torch.where(chosen < 2, self.witness, torch.where(chosen == 2, self.peak, columns[:, :1]))
        return columns

    def some(self) -> torch.Tensor:
        """A random subset of each row's columns, of a size between one in two and one in 1024; bool [rows, columns]."""
        d = self.draw
        return d.uniform(0.0, 1.0) < torch.exp2(-d.uniform(1.0, 10.0, 1))


Mutation = Callable[[Parents], torch.Tensor]
"""Gives the changed rows as float32 values or in the format's dtype."""


def _stepped(p: Parents, columns: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
    """Moves elements by so many representable numbers, up or down."""
    width = p.fmt.width
    whole = p.bits.view(INTEGERS[width]).clone()
    pattern = whole.gather(1, columns).to(torch.int64)
    magnitude = pattern & ((1 << (width - 1)) - 1)
    ordered = torch.where(pattern < 0, -magnitude, magnitude)
    largest = p.fmt.exponent_mask - 1
    moved = (ordered + steps).clamp_(-largest, largest)
    back = torch.where(moved < 0, -moved - (1 << (width - 1)), moved).to(INTEGERS[width])
    # A masked logit stays masked.
    back = torch.where(magnitude > largest, pattern.to(INTEGERS[width]), back)
    return whole.scatter_(1, columns, back).view(TORCH_DTYPES[p.fmt.name])


def _steps(d: Draw, count: int, most: int) -> torch.Tensor:
    size = torch.exp2(d.uniform(0.0, float(most), count)).to(torch.int64)
    return torch.where(d.whole(0, 2, count) == 0, -size, size)


def step_one(p: Parents) -> torch.Tensor:
    """One element by 1 to 4 representable numbers."""
    return _stepped(p, p.target(), _steps(p.draw, 1, 2))


def step_few(p: Parents) -> torch.Tensor:
    """A few elements by up to 2^12 representable numbers, in 16-bit formats 2^6."""
    return _stepped(p, p.target(_FEW), _steps(p.draw, _FEW, p.fmt.precision // 2))


def step_all(p: Parents) -> torch.Tensor:
    """Every element by -1, 0 or 1 representable number."""
    d = p.draw
    columns = d.index.expand(d.rows, d.columns)
    return _stepped(p, columns, d.whole(-1, 2))


def nudge_one(p: Parents) -> torch.Tensor:
    """One element, any of the row, by a distance of any size."""
    d = p.draw
    values, column = p.values, d.whole(0, d.columns, 1)
    sizes = torch.exp2(d.uniform(-16.0, 3.0, 1))
    step = torch.randn((d.rows, 1), generator=d.generator, device=d.device)
    return values.scatter_add_(1, column, step.mul_(sizes))


def nudge(p: Parents) -> torch.Tensor:
    """A subset of the columns, or all, by normal distances of one size."""
    d = p.draw
    moved = p.values.add_(d.normal(torch.exp2(d.uniform(-16.0, 1.0, 1))))
    return torch.where(p.some() | (d.whole(0, 2, 1) == 0), moved, p.values)


def shift(p: Parents) -> torch.Tensor:
    """One number added to a whole row: the differences stay, their rounding changes."""
    d = p.draw
    return p.values.add_(torch.exp2(d.uniform(-8.0, 7.0, 1)) * d.pick((1.0, -1.0), 1))


def scale(p: Parents) -> torch.Tensor:
    """A whole row times a number near 1."""
    d = p.draw
    return p.values.mul_(1 + d.pick((1.0, -1.0), 1) * torch.exp2(-d.uniform(1.0, 20.0, 1)))


def spread(p: Parents) -> torch.Tensor:
    """Distances to the maximum times a number."""
    values = p.values
    top = values.amax(dim=1, keepdim=True)
    return top - (top - values) * torch.exp2(p.draw.uniform(-1.0, 1.0, 1))


def swap(p: Parents) -> torch.Tensor:
    """Two elements exchanged."""
    first, second = p.target(), p.draw.whole(0, p.bits.shape[1], 1)
    changed = p.bits.clone()
    changed.scatter_(1, first, p.bits.gather(1, second))
    return changed.scatter_(1, second, p.bits.gather(1, first))


def rotate(p: Parents) -> torch.Tensor:
    """Columns moved round, so that sums run in another order and the peak stands elsewhere."""
    d = p.draw
    return p.bits.gather(1, (d.index + d.whole(0, d.columns, 1)) % d.columns)


def at_distance(p: Parents) -> torch.Tensor:
    """A few elements put at a distance below the maximum: anywhere, or close above a power of two."""
    d = p.draw
    values = p.values
    near = torch.exp2(d.whole(-3, 10, _FEW).float()) * (1 + torch.exp2(-d.uniform(4.0, 20.0, _FEW)))
    distance = torch.where(d.whole(0, 2, _FEW) == 0, near, d.uniform(0.0, 104.0, _FEW))
    return values.scatter_(1, p.target(_FEW), values.amax(dim=1, keepdim=True) - distance)


def tune(p: Parents) -> torch.Tensor:
    """Moves one element, any of the row, to a value 3 to 20 below the maximum, where it changes the sum by little."""
    d = p.draw
    values = p.values
    peak, column = p.peak, d.whole(0, d.columns, 1)
    # Neither the maximum nor the worst element: the rest of the row stays as it is.
    keeps = (column == peak) | (column == p.witness)
    below = torch.where(keeps, values.gather(1, column), values.gather(1, peak) - d.uniform(3.0, 20.0, 1))
    return values.scatter_(1, column, below)


def one_hot(p: Parents) -> torch.Tensor:
    """Everything but the maximum and the worst element moved to one distance below the maximum."""
    d = p.draw
    values = p.values
    top = values.gather(1, p.peak)
    flat = (top - d.uniform(0.0, 110.0, 1)).expand(d.rows, d.columns).contiguous()
    flat.scatter_(1, p.witness, values.gather(1, p.witness))
    return flat.scatter_(1, p.peak, top)


def tie(p: Parents) -> torch.Tensor:
    """A subset of the columns given the value of one of them."""
    return torch.where(p.some(), p.bits.gather(1, p.target()), p.bits)


def subnormal(p: Parents) -> torch.Tensor:
    """A subset of the columns moved to where results are subnormal."""
    d = p.draw
    values = p.values
    below = values.amax(dim=1, keepdim=True) - d.uniform(least_normal_distance(p.fmt), zero_distance(p.fmt))
    return torch.where(p.some(), below, values)


def redraw(p: Parents) -> torch.Tensor:
    """A subset of the columns drawn anew, at distances of one scale below the maximum."""
    d = p.draw
    values = p.values
    fresh = values.amax(dim=1, keepdim=True) - d.normal(torch.exp2(d.uniform(-3.0, 6.0, 1))).abs_()
    return torch.where(p.some(), fresh, values)


def cross(p: Parents) -> torch.Tensor:
    """Columns from two rows, mixed, or cut at one column."""
    d = p.draw
    mixed = torch.where(d.whole(0, 2, 1) == 0, d.index < d.whole(0, d.columns + 1, 1), d.uniform(0.0, 1.0) < 0.5)
    return torch.where(mixed, p.bits, p.mates)


MUTATIONS: dict[str, Mutation] = {
    "step one": step_one,
    "step few": step_few,
    "step all": step_all,
    "nudge one": nudge_one,
    "nudge": nudge,
    "shift": shift,
    "scale": scale,
    "spread": spread,
    "swap": swap,
    "rotate": rotate,
    "at distance": at_distance,
    "tune": tune,
    "one hot": one_hot,
    "tie": tie,
    "subnormal": subnormal,
    "redraw": redraw,
    "cross": cross,
}
"""Every way by name."""


def mutate(name: str, parents: Parents) -> torch.Tensor:
    """Changed rows, [rows, columns] of the format's dtype: finite, but for logits that were masked before."""
    changed = MUTATIONS[name](parents)
    if changed.dtype == torch.float32:
        masked = changed == float("-inf")
        changed = (
            changed.nan_to_num_(nan=0.0).clamp_(-parents.fmt.max, parents.fmt.max).masked_fill_(masked, -torch.inf)
        )
    return changed.to(TORCH_DTYPES[parents.fmt.name])
