"""Judgement of an output in device memory: the same measurement as ``softcheck.judge.judge``, from few numbers per row.

``scan`` (``scan_pairs`` for two columns) passes ordinary rows, and ``tabulate`` computes all figures of the rows left.
The numpy judge decides the rows in doubt and describes the broken ones. ``scan`` and ``tabulate`` are launched without
waiting in between.
"""

from contextlib import nullcontext
from dataclasses import dataclass, field

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from oracles.formats import Bits, Format, bits_hex
from oracles.reference import FullyMasked
from softcheck.calling.call import TORCH_DTYPES, to_bits
from softcheck.contract import FindingKind, Violation
from softcheck.errors import SoftcheckError, UsageError
from softcheck.judge.device import bins, dispatch, scan, table
from softcheck.judge.device.constants import Constants, constants_of
from softcheck.judge.device.fields import FEW_ROWS, MORE, FigureTable
from softcheck.judge.device.reduction import Numbers
from softcheck.judge.device.summary import Peak, peak, summarise
from softcheck.judge.histogram import merge
from softcheck.judge.judge import STANDARD, judge
from softcheck.judge.measurement import Extreme, Measurement
from softcheck.operations import ulp
from softcheck.operations.arithmetic import Arithmetic

MOST_BROKEN_ROWS = 256
MOST_BROKEN_ELEMENTS = 1 << 21
"""Number of broken rows and elements up to which the numpy judge judges all of them; beyond, it judges the worst of
each kind."""

_TABLE_ROWS = 1 << 20
"""Most rows of a table: its figures, and the tensors that reduce them, take some 0.7 GB."""

Rows = NDArray[np.int64]


def judge_on_device(
    x: torch.Tensor,
    y: torch.Tensor,
    fmt: Format,
    *,
    fully_masked: FullyMasked = "nan",
    arithmetic: Arithmetic = STANDARD,
    most_broken: int | None = None,
    judged_in: dispatch.JudgedIn | None = None,
    programs: int | None = None,
    scans: bool = True,
) -> Measurement:
    """Measures ``y`` as the softmax of ``x``, as ``softcheck.judge.judge.judge`` does with their bits.

    Both are [rows, columns] tensors of the format's dtype on one device, of any strides and offsets. Figures agree with
    the numpy judge's within 1e-6 ULP, relative for figures above 1. An error so close to an edge of the histogram may
    be counted in the neighbouring bin. Errors below 2^-1022 ULP count as 0. If several rows have the largest figure,
    the witness may differ.

    The numpy judge judges rows whose verdict or ULPs the kernels' own error could change, and broken rows as long as
    they are few (``most_broken`` or MOST_BROKEN_ROWS, MOST_BROKEN_ELEMENTS); ``rejudged_rows`` counts both. Of many
    broken rows the numpy judge describes the worst of each kind. The counts are then the device's, except the count of
    order violations, which covers the described rows alone. The numpy judge alone judges float64, and arithmetics whose
    bounds the kernels can't compute (prescaled exponents, 16-bit intermediates). ``judged_in`` is the scan's
    arithmetic, if there are two (``choice.arithmetic_of``); the measurement names the one used. ``programs`` is the
    scan's grid (``choice.scan_in``). Without ``scans`` tables judge all rows, with three kernels for all widths.

    Raises UsageError if shapes, dtypes or devices don't match, SoftcheckError if the kernels' counts contradict each
    other.
    """
    _check(x, y, fmt)
    rows, columns = x.shape
    constants, supported = constants_of(fmt, arithmetic, columns)
    most = MOST_BROKEN_ROWS if most_broken is None else most_broken
    if rows == 0 or columns == 0 or not supported:
        return judge(to_bits(x, fmt), to_bits(y, fmt), fmt, fully_masked=fully_masked, arithmetic=arithmetic)
    judged_in = dispatch.arithmetic_of(constants, x.device, judged_in)
    # Triton launches on the current device, wherever its tensors are.
    with torch.cuda.device(x.device) if x.is_cuda else nullcontext():
        return _Judgement(x, y, constants, fully_masked, arithmetic, most, scans=scans).measurement(
            judged_in if scans else "float64", programs
        )


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
    """Sums over the rows that the device has judged, and their maxima."""

    left_by_scan: bool = False
    """True if the histogram in device memory holds more than the host has read."""
    elements: int = 0
    ulp_sum: float = 0.0
    flushed: int = 0
    sum_violations: int = 0
    special_rows: int = 0
    fully_masked_rows: int = 0
    special_mismatches: int = 0
    counts: dict[FindingKind, int] = field(default_factory=dict)
    errors: list[Peak | None] = field(default_factory=list)
    shares: list[Peak | None] = field(default_factory=list)
    """Largest error and share of parts of the rows."""
    deviations: list[float] = field(default_factory=list)
    errors_ftz: list[float] = field(default_factory=list)
    """Largest errors in a format without subnormals: of the table's rows, and of the scanned row with the largest
    error."""
    least_ftz: float = -1.0
    """Bound on such errors of all scanned rows: if the largest of ``errors_ftz`` reaches it, it is the largest of all
    rows."""
    witnesses: set[int] = field(default_factory=set)


class _Judgement:
    """One output being judged."""

    def __init__(
        self,
        x: torch.Tensor,
        y: torch.Tensor,
        constants: Constants,
        fully_masked: FullyMasked,
        arithmetic: Arithmetic,
        most_broken: int,
        *,
        scans: bool,
    ) -> None:
        self.scans = scans
        self.x, self.y, self.constants = x, y, constants
        self.fully_masked: FullyMasked = fully_masked
        self.arithmetic, self.most_broken = arithmetic, most_broken
        self.figures = _Figures()
        self._histogram: torch.Tensor | None = None
        self.read: list[NDArray[np.int64]] = []
        """Counts by bin that the host has read, from bin 0 on."""
        self.rejudged: list[Rows] = []

    @property
    def histogram(self) -> torch.Tensor:
        """Counts of the tables' rows by bin, in device memory; 0 at first."""
        if self._histogram is None:
            self._histogram = self._no_counts()
        return self._histogram

    def _no_counts(self) -> torch.Tensor:
        return torch.zeros(bins.ALL, dtype=torch.int64, device=self.x.device)

    def measurement(self, judged_in: dispatch.JudgedIn, programs: int | None) -> Measurement:
        """Makes all steps and merges their figures."""
        rows, columns = self.x.shape
        if not self.scans or columns > scan.MAX_COLUMNS:
            self._tabulate_all(torch.arange(rows, device=self.x.device))
        else:
            self._scan(judged_in, programs)
        again = self._on_host(np.concatenate(self.rejudged)) if self.rejudged else None
        witnesses = np.array(sorted(self.figures.witnesses), dtype=np.int64)
        merged = self._merged(again, self._on_host(witnesses) if len(witnesses) else again)
        return msgspec.structs.replace(merged, judged_in=judged_in)

    def _scan(self, judged_in: dispatch.JudgedIn, programs: int | None) -> None:
        """Scans the rows, and tabulates the rows that are left and the rows with the largest figures."""
        zero = self.fully_masked == "zero"
        found = dispatch.scan_in(judged_in, self.x, self.y, self.constants, masked_gives_zero=zero, programs=programs)
        space = found.space
        few = found.listed[: FEW_ROWS + MORE]
        self._table(few, space.table_histogram, counted=found.left, figures=space.figures)
        numbers = Numbers(found.copied())
        figures = self.figures
        figures.elements += numbers.passed * self.x.shape[1]
        figures.ulp_sum += numbers.error_sum
        figures.special_rows += numbers.special
        figures.fully_masked_rows += numbers.fully_masked
        # The memory that the host has read is overwritten by the next scan.
        self.read.append(numbers.histogram)
        if numbers.left <= FEW_ROWS:
            self._extremes(numbers, numbers.table.rows(slice(numbers.left, numbers.left + MORE)))
            if numbers.left:
                self._histogram = space.table_histogram
                # Programs list rows in any order; sums should not depend on it.
                order = numbers.table["row"][: numbers.left].argsort()
                self._tabulate(numbers.table.rows(order), numbers.table_histogram)
            return
        best = self._table(found.listed[numbers.left : numbers.left + MORE], self._no_counts())
        self._extremes(numbers, FigureTable(best.figures.cpu().numpy()))
        self._tabulate_all(found.listed[: numbers.left].sort().values)

    def _extremes(self, numbers: Numbers, best: FigureTable) -> None:
        """Notes the largest figures of the scanned rows, from a table on the host of the rows that show them."""
        error, share, deviation = (value >= 0 for value in numbers.largest)
        if error:
            self.figures.errors.append(peak(best, "error", 0))
            # No error of the other scanned rows is larger than this row's.
            self.figures.errors_ftz.append(float(best["error_ftz"][0]))
            self.figures.least_ftz = float(best["error"][0])
        if share:
            self.figures.shares.append(peak(best, "share", 1))
        if deviation:
            self.figures.deviations.append(abs(float(best["deviation"][2])))

    def _tabulate_all(self, rows: torch.Tensor) -> None:
        for first in range(0, len(rows), _TABLE_ROWS):
            self._tabulate(self._table(rows[first : first + _TABLE_ROWS], self.histogram))

    def _table(
        self,
        rows: torch.Tensor,
        histogram: torch.Tensor,
        *,
        counted: torch.Tensor | None = None,
        figures: torch.Tensor | None = None,
    ) -> FigureTable:
        zero = self.fully_masked == "zero"
        return table.tabulate(
            self.x,
            self.y,
            self.constants,
            rows,
            histogram,
            masked_gives_zero=zero,
            counted=counted,
            figures=figures,
            few_kernels=not self.scans,
        )

    def _tabulate(self, found: FigureTable, counted: NDArray[np.int64] | None = None) -> None:
        """Adds the figures of rows that are right, or that are broken beyond doubt and too many to be judged again.

        The figures are on the device, or on the host if they are few. ``counted`` holds the first bins of the rows'
        histogram, if the host has read them.
        """
        most = min(self.most_broken, MOST_BROKEN_ELEMENTS // self.x.shape[1])
        summary = summarise(found, margin=self.constants.scalars(table.DEGREE)[7], most_broken=most)
        if summary.left:
            again = torch.as_tensor(found["row"][summary.chosen]).to(self.x.device, torch.int64)
            taken_back = self._no_counts()
            self._table(again, taken_back)
            self.histogram.sub_(taken_back)
            self.rejudged.append(again.cpu().numpy())
        figures = self.figures
        if counted is not None and not summary.left and int(counted.sum()) == summary.elements:
            self.read.append(counted)
        else:
            figures.left_by_scan = True
        figures.elements += summary.elements
        figures.ulp_sum = min(figures.ulp_sum + summary.error_sum, ulp.LARGEST)
        figures.flushed += summary.flushed
        figures.special_rows += summary.special_rows
        figures.fully_masked_rows += summary.fully_masked_rows
        figures.special_mismatches += summary.special_mismatches
        figures.errors.append(summary.error)
        figures.shares.append(summary.share)
        if summary.error is not None:
            figures.errors_ftz.append(summary.error_ftz)
        if summary.deviation >= 0:
            figures.deviations.append(summary.deviation)
        for kind, (count, row) in summary.broken.items():
            figures.counts[kind] = figures.counts.get(kind, 0) + count
            figures.witnesses.add(row)
        figures.sum_violations += summary.broken.get(FindingKind.SUM_VIOLATION, (0, 0))[0]

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

    def _shown(self, found: list[Peak | None]) -> Extreme | None:
        """Returns the largest of some peaks, and among equal ones that of the first row."""
        peaks = [one for one in found if one is not None]
        if not peaks:
            return None
        value, row, column, logit, output = min(peaks, key=lambda one: (-one.value, one.row))
        fmt = self.constants.fmt
        return Extreme(min(value, ulp.LARGEST), row, column, bits_hex(logit, fmt), bits_hex(output, fmt))

    def _merged(self, again: Measurement | None, extremes: Measurement | None) -> Measurement:
        figures = self.figures
        if figures.left_by_scan:
            self.read.append(self.histogram.cpu().numpy())
        counts = np.zeros(max(map(len, self.read), default=0), dtype=np.int64)
        for part in self.read:
            counts[: len(part)] += part
        if (counted := int(counts.sum())) != figures.elements:
            raise SoftcheckError(
                f"the device's histogram holds {counted} elements, expected {figures.elements}; report this as an error of "
                "softcheck, with the versions of torch and triton"
            )
        used = np.flatnonzero(counts)
        on_device = dict(zip(used.tolist(), counts[used].tolist(), strict=True))
        errors, shares = self._shown(figures.errors), self._shown(figures.shares)
        max_ulp = _largest([errors, again.max_ulp if again else None])
        deviations = list(figures.deviations)
        if again is not None and again.max_sum_deviation is not None:
            deviations.append(again.max_sum_deviation)

        def also(own: int, name: str) -> int:
            return own + (int(getattr(again, name)) if again is not None else 0)

        return Measurement(
            rows=self.x.shape[0],
            columns=self.x.shape[1],
            elements=also(figures.elements, "elements"),
            max_ulp=max_ulp,
            ulp_sum=min(figures.ulp_sum + (again.ulp_sum if again else 0.0), ulp.LARGEST),
            histogram=merge([on_device, again.histogram]) if again else on_device,
            max_ulp_ftz=None if max_ulp is None else self._as_if_flushing(again),
            max_bound_share=_largest([shares, *(m.max_bound_share for m in (again, extremes) if m is not None)]),
            flushed=also(figures.flushed, "flushed"),
            max_sum_deviation=max(deviations) if deviations else None,
            sum_violations=also(figures.sum_violations, "sum_violations"),
            special_rows=also(figures.special_rows, "special_rows"),
            fully_masked_rows=also(figures.fully_masked_rows, "fully_masked_rows"),
            special_mismatches=also(figures.special_mismatches, "special_mismatches"),
            rejudged_rows=sum(map(len, self.rejudged)),
            violations=self._violations(again, extremes),
        )

    def _as_if_flushing(self, again: Measurement | None) -> float:
        """Returns the largest error in a format without subnormals.

        If need be, a table of all rows supplies that of the scanned rows.
        """
        of_host = again.max_ulp_ftz if again is not None else None
        known = max([*self.figures.errors_ftz, *([] if of_host is None else [of_host])])
        if known >= self.figures.least_ftz:
            return known
        left_out = np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *self.rejudged]))
        unused = self._no_counts()
        largest = torch.full((), known, dtype=torch.float64, device=self.x.device)
        rows = self.x.shape[0]
        for first in range(0, rows, _TABLE_ROWS):
            last = min(first + _TABLE_ROWS, rows)
            here = left_out[slice(*np.searchsorted(left_out, (first, last)))]
            found = self._table(torch.arange(first, last, device=self.x.device), unused)["error_ftz"]
            if len(here):
                found[torch.from_numpy(here - first).to(found.device)] = -1.0
            largest = torch.maximum(largest, found.max())
        return float(largest)

    def _violations(self, again: Measurement | None, extremes: Measurement | None) -> tuple[Violation, ...]:
        """Returns one violation per kind: the worst witness, and the counts of device and host together."""
        merged: list[Violation] = []
        if not self.figures.counts and again is None and extremes is None:
            return ()
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


def _largest(extremes: list[Extreme | None]) -> Extreme | None:
    """The largest extreme, and among equal ones the one of the first row."""
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
