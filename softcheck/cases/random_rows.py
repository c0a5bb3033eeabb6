"""Fresh random rows of every case family, made on the device that judges them, at any width.

The random numbers are torch's, so the same seed gives the same rows on one
device and one version of torch. A row that matters is kept as bits. Only the worker and benchmarks import this module.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch

from oracles.formats import Format
from softcheck.cases.families import FAMILIES, random_bits_rows

SIGNED = {16: torch.int16, 32: torch.int32, 64: torch.int64}


@dataclass(frozen=True, slots=True)
class Draw:
    """A matrix to fill. Every method gives float32 values on the device."""

    rows: int
    columns: int
    fmt: Format
    generator: torch.Generator

    @property
    def device(self) -> torch.device:
        """The device on which the rows are made."""
        return self.generator.device

    @property
    def index(self) -> torch.Tensor:
        """Column numbers, shape [1, columns]."""
        return torch.arange(self.columns, device=self.device)[None, :]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype in which numbers are drawn before they are rounded to the format."""
        return torch.float64 if self.fmt.width == 64 else torch.float32

    def normal(self, scale: float | torch.Tensor = 1.0, shift: float = 0.0) -> torch.Tensor:
        """Normal values, [rows, columns]."""
        drawn = torch.randn((self.rows, self.columns), generator=self.generator, device=self.device, dtype=self.dtype)
        return drawn.mul_(scale).add_(shift)

    def uniform(self, low: float, high: float, columns: int | None = None) -> torch.Tensor:
        """Uniform values between two limits, [rows, columns] or as many columns as given."""
        shape = (self.rows, self.columns if columns is None else columns)
        return (
            torch.rand(shape, generator=self.generator, device=self.device, dtype=self.dtype).mul_(high - low).add_(low)
        )

    def whole(self, low: int, high: int, columns: int | None = None) -> torch.Tensor:
        """Whole numbers, ``high`` excluded, [rows, columns] or as many columns as given, as int64."""
        shape = (self.rows, self.columns if columns is None else columns)
        return torch.randint(low, high, shape, generator=self.generator, device=self.device)

    def full(self, value: float) -> torch.Tensor:
        """One value everywhere."""
        return torch.full((self.rows, self.columns), value, device=self.device, dtype=self.dtype)

    def pick(self, values: Sequence[float], columns: int | None = None) -> torch.Tensor:
        """One of the values per element; per row with ``columns`` 1."""
        table = torch.tensor(values, dtype=self.dtype, device=self.device)
        return table[self.whole(0, len(values), columns)]

    def pick_whole(self, values: Sequence[int]) -> torch.Tensor:
        """One of the whole numbers per element, int64."""
        return torch.tensor(values, device=self.device)[self.whole(0, len(values))]

    def of_patterns(self, patterns: torch.Tensor) -> torch.Tensor:
        """The values of bit patterns, int64, in the format's dtype."""
        # Integer conversion keeps the low bits, which are the pattern.
        return patterns.to(SIGNED[self.fmt.width]).view(torch_dtype(self.fmt))

    def by_row(self, *choices: "Filler") -> torch.Tensor:
        """One of several ways of filling for each run of rows."""
        cuts = [self.rows * i // len(choices) for i in range(len(choices) + 1)]
        parts = zip(choices, pairwise(cuts), strict=True)
        return torch.cat([choice(replace(self, rows=end - first)) for choice, (first, end) in parts if end > first])

    def put(self, values: torch.Tensor, number: float | torch.Tensor, chance: float = 1.0) -> torch.Tensor:
        """Overwrites one random column, of each row or of a share of them."""
        place = self.whole(0, self.columns, 1)
        new = torch.as_tensor(number, dtype=values.dtype, device=self.device).expand(self.rows, 1)
        if chance < 1:
            new = torch.where(self.uniform(0.0, 1.0, 1) < chance, new, values.gather(1, place))
        return values.scatter_(1, place, new)

    def finite(self, values: torch.Tensor) -> torch.Tensor:
        """The values within the format's range."""
        largest = min(self.fmt.max, torch.finfo(values.dtype).max)
        return values.clamp_(-largest, largest)

    def masks(self) -> torch.Tensor:
        """True for masked elements, [rows, columns]: leading, trailing, every second column, or all but one."""
        count, stays = self.whole(0, self.columns + 1, 1), self.whole(0, self.columns, 1)
        kind = self.whole(0, 5, 1)
        index = self.index
        masked = torch.where(kind == 0, index < count, index >= count)
        masked = torch.where(kind == 2, (index % 2 == 0).expand_as(masked), masked)
        masked = torch.where(kind == 3, (index % 2 == 1).expand_as(masked), masked)
        return torch.where(kind == 4, index != stays, masked)


Filler = Callable[[Draw], torch.Tensor]


def fill(filler: Filler, rows: int, columns: int, fmt: Format, generator: torch.Generator) -> torch.Tensor:
    """Rows of a family, contiguous, shape [rows, columns], of the format's dtype, on the generator's device.

    ``filler`` is one of ``FILLERS`` or ``ORDINARY``; both counts are at least 1.
    """
    return filler(Draw(rows, columns, fmt, generator)).to(torch_dtype(fmt))


def torch_dtype(fmt: Format) -> torch.dtype:
    """Torch's name for a format."""
    found: torch.dtype = getattr(torch, fmt.name)
    return found


FILLERS: dict[str, Filler] = {name: family.rows for name, family in FAMILIES.items() if family.rows is not None}
"""Functions that draw each family's rows. "one-column", "layout", "wide" and "rows" are special only by their shape or
strides, which the caller gives."""

ORDINARY: dict[str, Filler] = {
    **{name: FILLERS[name] for name in FILLERS if name not in {"special", "one-column", "layout", "sources", "rows"}},
    "random-bits": lambda d: random_bits_rows(d, special=0),
}
"""The families whose rows have a finite answer, but for a few that are masked whole; none twice."""


def mixed(
    rows: int,
    columns: int,
    fmt: Format,
    generator: torch.Generator,
    fillers: Sequence[Filler] = tuple(ORDINARY.values()),
) -> torch.Tensor:
    """Rows of all ``fillers``, a run of each; where there are fewer rows than fillers, of some of them."""
    first = 0
    if rows < len(fillers):
        first = int(torch.randint(len(fillers), (1,), generator=generator, device=generator.device))
    turned = [*fillers[first:], *fillers[:first]]
    return Draw(rows, columns, fmt, generator).by_row(*(lambda d, f=f: f(d).to(torch_dtype(fmt)) for f in turned))
