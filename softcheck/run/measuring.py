"""A worker's measurements of a variant: of its output on a case or a part of a domain, of compile times, of orders of columns."""

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from oracles.formats import FORMATS, Bits, Format, bits_hex, decode, encode, format_of
from oracles.reference import Reference
from softcheck.calling.call import (
    INTEGERS,
    TORCH_DTYPES,
    Called,
    Placed,
    Returned,
    call,
    call_on_device,
    is_out_of_memory,
    place,
    to_bits,
    to_tensor,
)
from softcheck.cases.case import PACKED, Case
from softcheck.cases.exhaustive import Domain, domain, telling_rows
from softcheck.contract import Violation
from softcheck.errors import TooLittleMemoryError, UninterpretableError
from softcheck.judge import peers as peers_
from softcheck.judge.by_contract import breaks_bounds, judge_call, judge_in_place
from softcheck.judge.contracts import candidates, contract_of
from softcheck.judge.judge import judge
from softcheck.judge.measurement import Measurement, unmeasured
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.operation import Operation
from softcheck.probes.judged import Attempt, diagnose
from softcheck.probes.poison import nan_filled
from softcheck.run.protocol import CompareOrders, OrdersCompared, Reply, RunDomain, Started, TryWidth, WidthTried
from softcheck.toolchain.compile_seconds import METER
from softcheck.variants.registry import LoadedVariant


class Measuring:
    """Calls variants on one device and judges their outputs; both methods also tell if the process can't go on."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._candidates: dict[tuple[str, str], tuple[Arithmetic, ...]] = {}
        """Weaker arithmetics that have explained every output beyond the bound so far, by variant and dtype."""

    def rows_of(self, request: RunDomain) -> torch.Tensor:
        """Returns a part of a domain, [count, columns], on the device. Raises TooLittleMemoryError."""
        with _memory_needed(f"the device has no memory left for {request.count} rows"):
            return rows_on(request.domain, request.start, request.count, self._device)

    def of_rows(self, variant: LoadedVariant, rows: torch.Tensor, fmt: Format) -> tuple[Measurement, bool]:
        """Calls a variant on packed rows, [rows, columns], and judges its output on the device if that is a GPU.

        Raises TooLittleMemoryError if other processes have the device's memory.
        """
        with nan_filled(), _memory_needed(f"the device has no memory left for a call on {len(rows)} rows"):
            returned = call_on_device(variant.function, Placed(rows, rows.view(-1), fmt), variant.operation)
        if returned.output is None:
            return unmeasured(rows.shape, returned.violations), returned.fatal
        of_library = returned.of_cpu_library
        with _memory_needed(f"the device has no memory left to judge {list(rows.shape)} outputs"):
            measurement = judge_in_place(variant, rows, returned.output, fmt, of_cpu_library=of_library)
        return _with(measurement, returned.violations), returned.fatal

    def of_case(
        self, variant: LoadedVariant, case: Case, bits: Bits, exact: Reference, *, peers: bool = False
    ) -> tuple[Measurement, bool]:
        """Calls a variant on the case's rows ``bits``, of which ``exact`` holds the answers, and explains what is wrong.

        With ``peers``, the verdicts of usual rules are measured too. Raises TooLittleMemoryError if the input can't be placed on the
        host, and torch.OutOfMemoryError and UninterpretableError as ``call`` does.
        """
        fmt = case.format
        is_shared = self._device.type == "cuda"
        with _memory_needed("the input can't be placed in the device's memory", is_shared=is_shared):
            placed = place(bits, fmt, case.layout, self._device)
        with nan_filled():
            called = call(variant.function, placed, variant.operation)
        if called.output is None:
            return unmeasured(bits.shape, called.violations), called.fatal

        of_library = called.of_cpu_library

        def judged(output: Bits) -> Measurement:
            return judge_call(
                variant, bits, output, fmt, self._device, of_cpu_library=of_library, reference=exact, with_peaks=True
            )

        measurement = judged(called.output)
        attempt = Attempt(
            function=variant.function,
            operation=variant.operation,
            bits=bits,
            fmt=fmt,
            layout=case.layout,
            device=self._device,
            output=called.output,
            wrong=lambda output: judged(output).violations,
        )
        violations = diagnose(attempt, measurement.violations)
        measurement = msgspec.structs.replace(measurement, violations=violations)
        if variant.declaration.arithmetic is None and breaks_bounds(measurement):
            fits = self._fitting(variant, bits, called, exact, fmt)
            measurement = msgspec.structs.replace(measurement, fits=fits)
        measurement = _with(measurement, called.violations)
        if peers:
            said = _said_by_peers(variant.operation, placed, called.output, exact)
            measurement = msgspec.structs.replace(measurement, peers=said)
        return _with_torch(measurement, variant.operation, placed, called.output), called.fatal

    def _fitting(
        self, variant: LoadedVariant, bits: Bits, called: Called, exact: Reference, fmt: Format
    ) -> tuple[Arithmetic, ...]:
        """Returns the arithmetics that explain this output and all earlier outputs in this process."""
        output, masked, operation = called.output, variant.declaration.fully_masked, variant.operation
        assert output is not None

        def judge_by(declared: Arithmetic) -> Measurement:
            contract = contract_of(declared, of_cpu_library=called.of_cpu_library)
            return judge(
                bits, output, fmt, fully_masked=masked, arithmetic=contract, reference=exact, operation=operation
            )

        left = self._candidates.get((variant.name, fmt.name), candidates(fmt.width))
        fits = tuple(declared for declared in left if not breaks_bounds(judge_by(declared)))
        self._candidates[variant.name, fmt.name] = fits
        return fits


def _with_torch(measurement: Measurement, operation: Operation, placed: Placed, output: Bits) -> Measurement:
    """Adds the largest absolute difference to torch's own answer, the figure that most other comparisons print."""
    if output.size == 0:
        return measurement
    theirs = operation.yardstick(placed.view).to(torch.float64).cpu().numpy()
    with np.errstate(invalid="ignore"):
        difference = np.abs(decode(output, placed.fmt) - theirs)
    finite = difference[np.isfinite(difference)]
    if finite.size == 0:
        return measurement
    return msgspec.structs.replace(measurement, max_abs_difference_to_torch=float(finite.max()))


def _said_by_peers(operation: Operation, placed: Placed, output: Bits, exact: Reference) -> dict[str, tuple[int, int]]:
    """Returns one judged output, and whether it was refused, by usual rule, of the elements whose answer is due and finite."""
    fmt = format_of(output, placed.fmt)
    rounded = encode(exact.values, fmt)
    due = np.isfinite(decode(rounded, fmt))
    values = decode(to_bits(placed.view, placed.fmt), placed.fmt)
    if operation.undefined is not None:
        unpromised = operation.undefined(values, placed.fmt)
        due &= ~np.repeat(unpromised, due.size // max(1, len(unpromised))).reshape(due.shape)
    host = torch.device("cpu")
    plain = operation.yardstick if operation.plain is None else operation.plain
    computed = plain(placed.view).to(host, TORCH_DTYPES[fmt.name])
    chosen = torch.from_numpy(due)
    found = peers_.verdicts(
        *(tensor[chosen] for tensor in (to_tensor(output, fmt, host), to_tensor(rounded, fmt, host), computed)),
        softcap=bool(operation.parameters.get("softcap")),
    )
    return {name: (1, int(not accepted)) for name, accepted in found.items()}


@contextmanager
def _memory_needed(complaint: str, *, is_shared: bool = False) -> Iterator[None]:
    """Raises TooLittleMemoryError if a device has too little memory, for which no variant is to blame.

    What lacks on a device that ``is_shared`` is left to the caller, who tries again.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error) or (is_shared and isinstance(error, torch.OutOfMemoryError)):
            raise
        raise TooLittleMemoryError(f"{complaint}: {error}") from None


def _with(measurement: Measurement, violations: tuple[Violation, ...]) -> Measurement:
    return msgspec.structs.replace(measurement, violations=(*violations, *measurement.violations))


def rows_on(domain: Domain, start: int, count: int, device: torch.device) -> torch.Tensor:
    """Rows ``start`` to ``start + count`` of a domain, shape [count, columns], with the bits of ``Domain.bits``."""
    if device.type == "cpu" or domain.kind == "lattice":
        return to_tensor(domain.bits(start, count), domain.format, device)
    index = torch.arange(start, start + count, dtype=torch.int64, device=device)
    rows = torch.empty((count, domain.columns), dtype=INTEGERS[domain.format.width], device=device)
    for column, numbers in enumerate(domain.patterns(index, lambda numbers: numbers.to(torch.int64))):
        # Integer conversion keeps the low bits, which are the pattern.
        rows[:, column] = numbers
    return rows.view(TORCH_DTYPES[domain.dtype])


_TRIED_ROWS = 2


def unsplit(operation: Operation, columns: int) -> int:
    """The widest row of up to so many columns that a call gets as one row; most rows are split where it takes a matrix for each.

    It is more than half as wide, so that a block that is a power of two is the same.
    """
    if operation.matrix is None:
        return columns
    return next((n for n in range(columns, columns // 2, -1) if operation.matrix(n)[1] == n), columns)


def try_width(request: TryWidth, variant: LoadedVariant, device: torch.device) -> Iterator[Reply]:
    """Calls the variant on two rows of zeros. Cases and probes judge the call, not this.

    The seconds are those that its Triton kernels took to compile. If it launches no Triton kernel, they are the seconds
    by which the first call took longer than the second.
    """
    fmt = FORMATS[request.dtype]
    columns = unsplit(variant.operation, request.columns)
    placed = place(np.zeros((_TRIED_ROWS, columns), dtype=fmt.storage), fmt, PACKED, device)

    def call() -> tuple[Returned | None, float]:
        begun = time.perf_counter()
        try:
            returned = call_on_device(variant.function, placed, variant.operation)
        except UninterpretableError:
            returned = None
        return returned, time.perf_counter() - begun

    METER.reset()
    returned, first = call()
    if returned is None or returned.output is None or returned.fatal:
        yield WidthTried(seconds=None, fatal=returned is not None and returned.fatal)
        return
    seconds: float | None
    if METER.kernels:
        seconds = None if METER.has_unknown else METER.seconds
    else:
        returned, again = call()
        seconds = max(0.0, first - again)
    yield WidthTried(seconds=seconds, of_compiler=METER.kernels > 0, fatal=returned is not None and returned.fatal)


def compare_orders(request: CompareOrders, variant: LoadedVariant, device: torch.device) -> Iterator[Reply]:
    """Calls the variant on sampled rows and yields the first row whose answer depends on order or place, if there is one.

    Half of the rows have random bit patterns; the others begin with telling patterns. Answers are compared as bits, but any NaN is
    as good as another.
    """
    fmt = FORMATS[request.dtype]
    whole = domain(request.dtype, request.columns)
    drawn = np.random.default_rng(request.seed)
    rows = drawn.integers(0, 2**fmt.width, (request.rows, request.columns)).astype(fmt.storage)
    telling = np.concatenate([whole.bits(number, 1) for number in telling_rows(whole)])[: request.rows // 2]
    rows[: len(telling)] = telling
    yield Started(variant.name)
    first = _answer_bits(variant, to_tensor(rows, fmt, device), request)
    if isinstance(first, str):
        yield OrdersCompared(len(rows), first)
        return
    lanes = drawn.permutation(len(rows))
    changes = [(np.arange(len(rows)), order) for order in itertools.permutations(range(request.columns))]
    changes += [(lanes, tuple(range(request.columns))), (np.arange(1), tuple(range(request.columns)))]
    for places, order in changes:
        found = _answer_bits(variant, to_tensor(rows[places][:, order], fmt, device), request)
        if isinstance(found, str):
            yield OrdersCompared(len(rows), found)
            return
        expected = first[places] if first.ndim == 1 else first[places][:, order]
        differs = (found != expected).reshape(len(places), -1).any(axis=1)
        if differs.any():
            row = places[int(differs.argmax())]
            words = " ".join(bits_hex(int(bits), fmt) for bits in rows[row])
            how = "in another row of the batch" if order == changes[0][1] else f"with its columns in the order {order}"
            yield OrdersCompared(len(rows), f"the row {words} has another answer {how}")
            return
    yield OrdersCompared(len(rows), None)


def _answer_bits(variant: LoadedVariant, rows: torch.Tensor, request: CompareOrders) -> NDArray[np.int64] | str:
    """Bit patterns of a variant's output, with one pattern for all NaN, or the reason why there are none."""
    fmt = FORMATS[request.dtype]
    returned = call_on_device(variant.function, Placed(rows, rows.view(-1), fmt), variant.operation)
    if returned.output is None:
        return f"a call of {list(rows.shape)} gave no output: {returned.violations[0].message}"
    output = returned.output
    return np.where(torch.isnan(output).cpu().numpy(), -1, to_bits(output, fmt).astype(np.int64))
