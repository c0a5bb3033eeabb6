"""Judging an output where it lies: the same measurement as ``softcheck.judge.judge``, from a few numbers per row or fewer.

Three steps, each for the rows that the one before could not settle: ``scan`` passes ordinary rows, ``tabulate`` computes
all figures of the rows left, and the numpy judge decides the rows in doubt and describes what is broken.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from oracles.formats import Bits, Format
from oracles.reference import FullyMasked, RowClass
from softcheck.contract import FindingKind, Violation
from softcheck.errors import UsageError
from softcheck.judge import bounds, ulp
from softcheck.judge.device import bins, scan, table
from softcheck.judge.device.constants import Constants
from softcheck.judge.histogram import merge
from softcheck.judge.judge import STANDARD, judge
from softcheck.judge.measurement import Extreme, Measurement
from softcheck.variants.call import TORCH_DTYPES, to_bits
from softcheck.variants.declaration import Arithmetic

MOST_BROKEN_ROWS = 256
MOST_BROKEN_ELEMENTS = 1 << 21
"""Up to so many broken rows and elements, the numpy judge judges all of them; beyond, the worst of each kind."""

_TABLE_ROWS = 1 << 20
_CANDIDATES = 4
_CLOSE = 1.0 - 2.0**-19
"""Figures that lie closer together in float32 than this may be in another order."""

Rows = NDArray[np.int64]


def judge_on_device(
    x: torch.Tensor,
    y: torch.Tensor,
    fmt: Format,
    *,
    fully_masked: FullyMasked = "nan",
    arithmetic: Arithmetic = STANDARD,
) -> Measurement:
    """Measures ``y`` as the softmax of ``x``: what ``softcheck.judge.judge.judge`` says of their bits.

    Both are [rows, columns] tensors of the format's dtype on one device, of any strides and offsets. Figures agree with
    the numpy judge's within 1e-6 ULP, relative for those above 1; bins of the histogram may differ for errors that lie so
    close to an edge, and errors below 2^-1022 ULP count as 0. Where several rows show the same largest figure, the witness
    may be another one.

    Rows whose verdict, or whose ULP, the kernels' own error could change are judged by the numpy judge, and so are broken
    rows as long as they are few (MOST_BROKEN_ROWS, MOST_BROKEN_ELEMENTS); ``rejudged_rows`` counts both. Of many broken
    rows the numpy judge describes the worst of each kind; counts are the device's, except that of order violations, which
    is then of the described rows alone. float64, and arithmetics whose bounds the kernels can't compute (prescaled
    exponents, 16-bit intermediates), are judged by the numpy judge altogether.

    Raises UsageError where shapes, dtypes or devices don't match.
    """
    _check(x, y, fmt)
    rows, columns = x.shape
    constants = Constants(fmt, bounds.model(arithmetic, fmt), columns)
    if rows == 0 or columns == 0 or not constants.supported:
        return judge(to_bits(x, fmt), to_bits(y, fmt), fmt, fully_masked=fully_masked, arithmetic=arithmetic)
    return _Judgement(x, y, constants, fully_masked, arithmetic).measurement()


def _check(x: torch.Tensor, y: torch.Tensor, fmt: Format) -> None:
    expected = TORCH_DTYPES[fmt.name]
    for name, tensor in (("input", x), ("output", y)):
        if tensor.ndim != 2 or tensor.dtype != expected:
            raise UsageError(
                f"the {name} has shape {list(tensor.shape)} and dtype {tensor.dtype}, expected [rows, columns] of {expected}"
            )
    if y.shape != x.shape or y.device != x.device:
        raise UsageError(
            f"the output has shape {list(y.shape)} on {y.device}, expected the input's {list(x.shape)} on {x.device}; report "
            "another shape as wrong_shape instead of judging it"
        )


@dataclass(slots=True)
class _Figures:
    """Sums over the rows that the device has judged, and candidates for the maxima as (value, row)."""

    elements: int = 0
    ulp_sum: float = 0.0
    flushed: int = 0
    sum_violations: int = 0
    special_rows: int = 0
    fully_masked_rows: int = 0
    special_mismatches: int = 0
    counts: dict[FindingKind, int] = field(default_factory=dict)
    errors: list[tuple[float, int]] = field(default_factory=list)
    shares: list[tuple[float, int]] = field(default_factory=list)
    deviations: list[tuple[float, int]] = field(default_factory=list)
    witnesses: set[int] = field(default_factory=set)


_KINDS = {
    FindingKind.ULP_EXCEEDS_BOUND: ("exceeding", "share"),
    FindingKind.NAN_MISMATCH: ("nan_mismatch", "nan_mismatch"),
    FindingKind.INF_MISMATCH: ("inf_mismatch", "inf_mismatch"),
    FindingKind.OUT_OF_RANGE: ("out_of_range", "range_size"),
    FindingKind.MASKED_NOT_ZERO: ("masked_not_zero", "masked_size"),
}
"""Counts of elements by kind, and the figure that makes a row its witness."""


class _Judgement:
    """One output being judged."""

    def __init__(
        self, x: torch.Tensor, y: torch.Tensor, constants: Constants, fully_masked: FullyMasked, arithmetic: Arithmetic
    ) -> None:
        self.x, self.y, self.constants = x, y, constants
        self.fully_masked: FullyMasked = fully_masked
        self.arithmetic = arithmetic
        self.figures = _Figures()
        self.histogram = torch.zeros(bins.ALL, dtype=torch.int64, device=x.device)
        self.rejudged: list[Rows] = []

    def measurement(self) -> Measurement:
        """All steps, and their figures put together."""
        left = self._scan()
        for chunk in _chunks(left):
            self._tabulate(chunk)
        rejudged = np.concatenate([np.zeros(0, dtype=np.int64), *self.rejudged])
        again = self._on_host(rejudged) if len(rejudged) else None
        return self._merged(again, self._extremes(again))

    def _scan(self) -> torch.Tensor | range:
        """Scans rows that fit a program; returns the rows that are left."""
        rows, columns = self.x.shape
        if columns > scan.MAX_COLUMNS:
            return range(rows)
        found = scan.scan(self.x, self.y, self.constants)
        self.histogram += found.histogram
        floats, integers = found.floats.cpu().numpy(), found.integers.cpu().numpy()
        figures = self.figures
        figures.elements += int(integers[:, 0].sum()) * columns
        figures.ulp_sum += float(floats[:, 0].sum())
        for candidates, place in ((figures.errors, 1), (figures.shares, 2), (figures.deviations, 3)):
            candidates.extend(_leading(floats[:, place], integers[:, place + 1]))
        if integers[:, 1].sum() == 0:
            return range(0)
        return torch.nonzero(found.status)[:, 0]

    def _table(self, rows: torch.Tensor | range, weight: int) -> table.Table:
        zero = self.fully_masked == "zero"
        constants, histogram = self.constants, self.histogram
        return table.tabulate(self.x, self.y, constants, rows, histogram, masked_gives_zero=zero, weight=weight)

    def _tabulate(self, rows: torch.Tensor | range) -> None:
        """Takes over the figures of rows that are right, or broken beyond doubt and too many to be judged again."""
        found = self._table(rows, 1)
        margin = self.constants.margin(table.DEGREE)
        share_of_sum = found["deviation"].abs() / found["allowed"]
        doubtful = (found["doubtful"] > 0) | ((share_of_sum - 1).abs() <= max(margin, 2.0**-14))
        bad_sum = share_of_sum > 1
        mismatched = (found["nan_mismatch"] + found["inf_mismatch"] + found["masked_not_zero"]) > 0
        broken = mismatched | bad_sum | (found["exceeding"] > 0) | (found["out_of_range"] > 0)
        chosen = doubtful | broken if self._few(int((broken & ~doubtful).sum())) else doubtful
        numbers = torch.arange(rows.start, rows.stop, device=self.x.device) if isinstance(rows, range) else rows
        if chosen.any():
            again = numbers[chosen]
            self._table(again, -1)
            self.rejudged.append(again.cpu().numpy())
        kept = ~chosen
        self._add(found, numbers, kept, bad_sum & kept, broken & kept)
        special = (found["row_class"] > 0) & kept
        self.figures.special_rows += int(special.sum())
        self.figures.fully_masked_rows += int(((found["row_class"] == RowClass.FULLY_MASKED) & kept).sum())
        self.figures.special_mismatches += int((special & mismatched).sum())

    def _few(self, broken: int) -> bool:
        return broken <= MOST_BROKEN_ROWS and broken * self.x.shape[1] <= MOST_BROKEN_ELEMENTS

    def _add(
        self, found: table.Table, numbers: torch.Tensor, kept: torch.Tensor, bad_sum: torch.Tensor, broken: torch.Tensor
    ) -> None:
        if not kept.any():
            return
        figures = self.figures
        figures.elements += int(found["comparable"][kept].sum())
        figures.ulp_sum = min(figures.ulp_sum + float(found["error_sum"][kept].sum()), ulp.LARGEST)
        figures.flushed += int(found["flushed"][kept].sum())
        deviations = found["deviation"].abs().nan_to_num(nan=-1.0)
        for candidates, values in (
            (figures.errors, found["error"]),
            (figures.shares, found["share"]),
            (figures.deviations, deviations),
        ):
            best, place = torch.topk(torch.where(kept, values, -1.0), min(_CANDIDATES, len(values)))
            candidates.extend(_leading(best.cpu().numpy(), numbers[place].cpu().numpy()))
        if bad_sum.any():
            violations = int(bad_sum.sum())
            figures.sum_violations += violations
            self._count(FindingKind.SUM_VIOLATION, violations, deviations / found["allowed"], numbers, bad_sum)
        for kind, (count, size) in _KINDS.items():
            if broken.any() and (elements := int(found[count][broken].sum())):
                self._count(kind, elements, found[size], numbers, broken & (found[count] > 0))

    def _count(
        self, kind: FindingKind, count: int, size: torch.Tensor, numbers: torch.Tensor, showing: torch.Tensor
    ) -> None:
        """Counts broken promises, and notes the row that shows the worst as a witness."""
        self.figures.counts[kind] = self.figures.counts.get(kind, 0) + count
        place = int(torch.where(showing, size.nan_to_num(nan=0.0), -1.0).argmax())
        self.figures.witnesses.add(int(numbers[place]))

    def _bits(self, tensor: torch.Tensor, rows: Rows) -> Bits:
        return to_bits(tensor[torch.from_numpy(rows).to(tensor.device)], self.constants.fmt)

    def _on_host(self, rows: Rows) -> Measurement:
        """The numpy judge's measurement of some rows, with the rows' own numbers."""
        fmt = self.constants.fmt
        found = judge(
            self._bits(self.x, rows),
            self._bits(self.y, rows),
            fmt,
            fully_masked=self.fully_masked,
            arithmetic=self.arithmetic,
        )
        return msgspec.structs.replace(
            found,
            max_ulp=_renumbered(found.max_ulp, rows),
            max_bound_share=_renumbered(found.max_bound_share, rows),
            violations=tuple(_violation_renumbered(v, rows) for v in found.violations),
        )

    def _extremes(self, again: Measurement | None) -> Measurement | None:
        """The numpy judge's measurement of the rows that may show a largest figure, and of the witnesses."""
        rows = set(self.figures.witnesses)
        for candidates in (self.figures.errors, self.figures.shares, self.figures.deviations):
            rows.update(_likely(candidates))
        return self._on_host(np.array(sorted(rows), dtype=np.int64)) if rows else again

    def _merged(self, again: Measurement | None, extremes: Measurement | None) -> Measurement:
        figures = self.figures
        judged = [m for m in (again, extremes) if m is not None]
        counts = self.histogram.cpu().numpy()
        on_device = {int(b): int(counts[b]) for b in np.flatnonzero(counts)}
        if sum(on_device.values()) != figures.elements:
            raise RuntimeError(
                f"the device's histogram holds {sum(on_device.values())} elements, expected {figures.elements}; report this "
                "as an error of softcheck, with the versions of torch and triton"
            )
        max_ulp = _largest([m.max_ulp for m in judged])
        deviations = [m.max_sum_deviation for m in judged if m.max_sum_deviation is not None]

        def also(own: int, name: str) -> int:
            return own + (int(getattr(again, name)) if again is not None else 0)

        return Measurement(
            rows=self.x.shape[0],
            columns=self.x.shape[1],
            elements=also(figures.elements, "elements"),
            max_ulp=max_ulp,
            ulp_sum=min(figures.ulp_sum + (again.ulp_sum if again else 0.0), ulp.LARGEST),
            histogram=merge([on_device, again.histogram] if again else [on_device]),
            max_ulp_ftz=self._as_if_flushing(judged, max_ulp),
            max_bound_share=_largest([m.max_bound_share for m in judged]),
            flushed=also(figures.flushed, "flushed"),
            max_sum_deviation=max(deviations) if deviations else None,
            sum_violations=also(figures.sum_violations, "sum_violations"),
            special_rows=also(figures.special_rows, "special_rows"),
            fully_masked_rows=also(figures.fully_masked_rows, "fully_masked_rows"),
            special_mismatches=also(figures.special_mismatches, "special_mismatches"),
            rejudged_rows=sum(map(len, self.rejudged)),
            violations=self._violations(again, extremes),
        )

    def _as_if_flushing(self, judged: list[Measurement], max_ulp: Extreme | None) -> float | None:
        """The largest error in a format without subnormals, which no error exceeds.

        Where the row with the largest error shows it there too, that is the answer. Else a table of all rows tells.
        """
        if max_ulp is None:
            return None
        known = max(m.max_ulp_ftz for m in judged if m.max_ulp_ftz is not None)
        if known == max_ulp.value:
            return known
        zero, largest = self.fully_masked == "zero", known
        left_out = torch.from_numpy(np.concatenate([np.zeros(0, dtype=np.int64), *self.rejudged])).to(self.x.device)
        unused = torch.zeros_like(self.histogram)
        rows = self.x.shape[0]
        for first in range(0, rows, _TABLE_ROWS):
            part = range(first, min(first + _TABLE_ROWS, rows))
            found = table.tabulate(self.x, self.y, self.constants, part, unused, masked_gives_zero=zero)["error_ftz"]
            found[left_out[(left_out >= part.start) & (left_out < part.stop)] - first] = -1.0
            largest = max(largest, float(found.max()))
        return largest

    def _violations(self, again: Measurement | None, extremes: Measurement | None) -> tuple[Violation, ...]:
        """One violation per kind: the witness with the worst claim, and the counts of device and host together."""
        merged = []
        for kind in FindingKind:
            first = _of_kind(again, kind)
            counted = self.figures.counts.get(kind, 0)
            described = _of_kind(extremes, kind) if counted or kind is FindingKind.ORDER_VIOLATION else None
            witness = described or first
            if witness is None:
                continue
            count = counted + (first.count if first else 0)
            if kind is FindingKind.ORDER_VIOLATION and described is not None and self.figures.witnesses:
                count += described.count
            merged.append(msgspec.structs.replace(witness, count=count))
        return tuple(merged)


def _chunks(rows: torch.Tensor | range) -> Iterator[torch.Tensor | range]:
    for first in range(0, len(rows), _TABLE_ROWS):
        yield rows[first : first + _TABLE_ROWS]


def _leading(values: NDArray[np.floating], rows: Rows) -> list[tuple[float, int]]:
    """The values that may be the largest, with their rows; negative ones stand for none."""
    if not len(values):
        return []
    largest = float(values.max())
    chosen = np.flatnonzero((values >= largest * _CLOSE) & (values >= 0))
    return [(float(values[i]), int(rows[i])) for i in chosen]


def _likely(candidates: list[tuple[float, int]]) -> list[int]:
    """The rows of the largest values, at most a few: those that are equal in float32 are equal to 1e-6."""
    if not candidates:
        return []
    largest = max(value for value, _ in candidates)
    close = sorted((-value, row) for value, row in candidates if value >= largest * _CLOSE)
    return [row for _, row in close[:_CANDIDATES]]


def _largest(extremes: list[Extreme | None]) -> Extreme | None:
    """The largest, and of equal ones that of the first row."""
    found = [e for e in extremes if e is not None]
    return min(found, key=lambda e: (-e.value, e.row)) if found else None


def _of_kind(measurement: Measurement | None, kind: FindingKind) -> Violation | None:
    if measurement is None:
        return None
    return next((v for v in measurement.violations if v.kind is kind), None)


def _renumbered(extreme: Extreme | None, rows: Rows) -> Extreme | None:
    return None if extreme is None else msgspec.structs.replace(extreme, row=int(rows[extreme.row]))


def _violation_renumbered(violation: Violation, rows: Rows) -> Violation:
    """The violation with its row's number among all rows, in the message too, which starts with it."""
    assert violation.row is not None
    row = int(rows[violation.row])
    start = f"row {violation.row}"
    assert violation.message.startswith(start)
    message = f"row {row}{violation.message.removeprefix(start)}"
    return msgspec.structs.replace(violation, row=row, message=message)
