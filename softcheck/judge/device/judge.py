"""Judgement of an output in device memory: the same measurement as ``softcheck.judge.judge``, from few numbers per row.

``scan`` (``scan_pairs`` for two columns) passes ordinary rows, and ``tabulate`` computes all figures of the rows left.
The numpy judge decides the rows in doubt and describes the broken ones. ``scan`` and ``tabulate`` are launched without
waiting in between.
"""

from contextlib import nullcontext

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from oracles.formats import Bits, Format
from oracles.reference import FullyMasked
from softcheck.calling.call import TORCH_DTYPES, to_bits
from softcheck.contract import FindingKind, Violation
from softcheck.errors import SoftcheckError, UsageError
from softcheck.judge import histogram
from softcheck.judge.device import bins, dispatch, scan, table
from softcheck.judge.device.constants import Constants, constants_of
from softcheck.judge.device.fields import FEW_ROWS, MORE, FigureTable
from softcheck.judge.device.reduction import Numbers
from softcheck.judge.device.summary import peak, summarise
from softcheck.judge.judge import STANDARD, judge
from softcheck.judge.measurement import Extreme, Measurement
from softcheck.judge.merge import merge, moved
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
    arithmetic, if there are two (``dispatch.arithmetic_of``); the measurement names the one used. ``programs`` is the
    scan's grid (``dispatch.scan_in``). Without ``scans`` tables judge all rows, with three kernels for all widths.

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
    elsewhere = x.is_cuda and x.device.index != torch.cuda.current_device()
    with torch.cuda.device(x.device) if elsewhere else nullcontext():
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
        self.parts: list[Measurement] = []
        """Figures of parts of the rows that the device has judged, without numbers of rows, histograms and violations."""
        self.least_ftz = -1.0
        """Bound on all scanned rows' errors in a format without subnormals. If the largest of the parts reaches it, that is
        the largest of all rows."""
        self.counts: dict[FindingKind, int] = {}
        self.witnesses: set[int] = set()
        """Elements or rows that the device has seen break each promise, and the rows that show the worst."""
        self._histogram: torch.Tensor | None = None
        self._is_unread = False
        """True if the histogram in device memory holds more than the host has read."""
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
        witnesses = np.array(sorted(self.witnesses), dtype=np.int64)
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
        """Adds the figures of the scanned rows; ``best`` is a table on the host of the rows that show the largest."""
        fmt = self.constants.fmt
        error, _, deviation = (value >= 0 for value in numbers.largest)
        if error:
            # No error of the other scanned rows is larger than this row's.
            self.least_ftz = float(best["error"][0])
        scanned = Measurement(
            rows=0,
            columns=0,
            elements=numbers.passed * self.x.shape[1],
            max_ulp=peak(best, "error", 0, fmt) if error else None,
            ulp_sum=numbers.error_sum,
            max_ulp_ftz=float(best["error_ftz"][0]) if error else None,
            max_bound_share=peak(best, "share", 1, fmt) if numbers.largest[1] >= 0 else None,
            max_sum_deviation=abs(float(best["deviation"][2])) if deviation else None,
            special_rows=numbers.special,
            fully_masked_rows=numbers.fully_masked,
        )
        self.parts.append(scanned)

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
        margin = self.constants.scalars(table.DEGREE)[7]
        summary = summarise(found, self.constants.fmt, margin=margin, most_broken=most)
        if summary.left:
            again = torch.as_tensor(found["row"][summary.chosen]).to(self.x.device, torch.int64)
            taken_back = self._no_counts()
            self._table(again, taken_back)
            self.histogram.sub_(taken_back)
            self.rejudged.append(again.cpu().numpy())
        self.parts.append(summary.kept)
        if counted is not None and not summary.left and int(counted.sum()) == summary.kept.elements:
            self.read.append(counted)
        else:
            self._is_unread = True
        for kind, (count, row) in summary.broken.items():
            self.counts[kind] = self.counts.get(kind, 0) + count
            self.witnesses.add(row)

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
        return moved(found, lambda row: int(rows[row]))

    def _merged(self, again: Measurement | None, extremes: Measurement | None) -> Measurement:
        if self._is_unread:
            self.read.append(self.histogram.cpu().numpy())
        counts = np.zeros(max(map(len, self.read), default=0), dtype=np.int64)
        for part in self.read:
            counts[: len(part)] += part
        judged = sum(part.elements for part in self.parts)
        if int(counts.sum()) != judged:
            raise SoftcheckError(
                f"the device's histograms hold {' + '.join(str(int(part.sum())) for part in self.read)} elements, expected "
                f"{' + '.join(str(part.elements) for part in self.parts)}, for {self.constants.fmt.name} "
                f"{list(self.x.shape)} with strides {self.x.stride()} and {self.y.stride()}; report this as an error of "
                "softcheck, with the versions of torch and triton"
            )
        used = np.flatnonzero(counts)
        on_device = dict(zip(used.tolist(), counts[used].tolist(), strict=True))
        parts = self.parts if again is None else [*self.parts, again]
        merged = merge(parts)
        shares = [part.max_bound_share for part in (*parts, *([] if extremes is None else [extremes]))]
        return msgspec.structs.replace(
            merged,
            rows=self.x.shape[0],
            columns=self.x.shape[1],
            max_ulp=_largest([part.max_ulp for part in parts]),
            histogram=histogram.merge([on_device, again.histogram]) if again else on_device,
            max_ulp_ftz=None if merged.max_ulp_ftz is None else self._as_if_flushing(merged.max_ulp_ftz),
            max_bound_share=_largest(shares),
            max_standard_share=None,
            rejudged_rows=sum(map(len, self.rejudged)),
            violations=self._violations(again, extremes),
            contract=None,
        )

    def _as_if_flushing(self, known: float) -> float:
        """Returns the largest error in a format without subnormals, of which ``known`` is the largest of the parts.

        If need be, a table of all rows supplies that of the scanned rows.
        """
        if known >= self.least_ftz:
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
        if not self.counts and again is None and extremes is None:
            return ()
        for kind in FindingKind:
            first = _of_kind(again, kind)
            counted = self.counts.get(kind, 0)
            described = _of_kind(extremes, kind) if counted or kind is FindingKind.ORDER_VIOLATION else None
            witness = described or first
            if witness is None:
                continue
            count = counted + (first.count if first else 0)
            if kind is FindingKind.ORDER_VIOLATION and described is not None and self.witnesses:
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
