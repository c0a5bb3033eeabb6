"""The worker process: runs variants, judges their outputs, sends small measurements back. Started by run.process."""

import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import numpy as np
import torch

from oracles.formats import FORMATS, Bits, Format, decode
from oracles.reference import FullyMasked, Reference
from softcheck.cases.case import Layout
from softcheck.cases.check import check_layout
from softcheck.contract import Violation
from softcheck.errors import SoftcheckError, TooLittleMemoryError, UninterpretableError, UsageError
from softcheck.judge.by_contract import breaks_bounds, by_contract, judge_call
from softcheck.judge.contracts import contract_of
from softcheck.judge.fitting import candidates
from softcheck.judge.judge import judge, reference
from softcheck.judge.measurement import Measurement, unmeasured
from softcheck.judge.merge import merge, shifted
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.softmax import SOFTMAX
from softcheck.probes.diagnose import Attempt, diagnose
from softcheck.probes.poison import nan_filled
from softcheck.run import evolution, timing
from softcheck.run.domains import rows_on
from softcheck.run.protocol import (
    Declared,
    Done,
    Failed,
    Load,
    Loaded,
    Measured,
    NoDevice,
    Ready,
    Refused,
    Reply,
    Request,
    RunCase,
    RunDomain,
    RunProbe,
    RunSearch,
    Searched,
    Started,
    TrialDone,
    TryWidth,
    WidthTried,
    decode_request,
    encode_reply,
)
from softcheck.run.trial_widths import try_width
from softcheck.run.trials import make_trials
from softcheck.variants import activity, compiling
from softcheck.variants.call import (
    Called,
    Placed,
    call,
    call_on_device,
    is_out_of_memory,
    is_usable,
    place,
    returned_wrongly,
    to_bits,
)
from softcheck.variants.registry import LoadedVariant, load
from softcheck.variants.state import Snapshot, is_lost, preserved

_FEWEST_ROWS = 2**16
"""Rows for which the device judge must have memory on any device."""


class _Session:
    """The variants loaded so far, on one device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.loaded: dict[str, LoadedVariant] = {}
        self._candidates: dict[tuple[str, str], tuple[Arithmetic, ...]] = {}
        """Weaker arithmetics that have explained every output beyond the bound so far, by variant and dtype."""
        self._initial = Snapshot()

    def answer(self, request: Request) -> Iterator[Reply]:
        """Replies to one request; the last one is Done, Loaded, Refused, Probed or Failed."""
        self._settle()
        if isinstance(request, Load):
            yield from self._load(request)
        elif isinstance(request, RunCase):
            yield from self._run(request)
        elif isinstance(request, RunDomain):
            yield from self._run_domain(request)
        elif isinstance(request, RunProbe):
            yield from make_trials(request, self._variant(request.variant), self.device)
        elif isinstance(request, TryWidth):
            yield from try_width(request, self._variant(request.variant), self.device)
        elif isinstance(request, RunSearch):
            yield from evolution.search(self._variant(request.variant), request, self.device)
        else:
            functions = {name: self._variant(name).function for name in request.variants}
            with preserved():
                yield from timing.measure(functions, request, self.device)

    def _settle(self) -> None:
        """Puts back what changed since the process began, without blaming a variant.

        Leftovers of a variant may act after its call, such as a finalizer that runs late or a registered callback.
        """
        self._initial.restore()

    def _variant(self, spec: str) -> LoadedVariant:
        if spec not in self.loaded:
            # A module may seed generators or set defaults for a script's sake; the next variant must not see it.
            with preserved(), activity.preparing():
                self.loaded[spec] = load(spec)
            activity.expect_a_first_call()
        return self.loaded[spec]

    def _load(self, request: Load) -> Iterator[Reply]:
        spec = request.spec
        try:
            variant = self._variant(spec)
        except UsageError as error:
            yield Refused(spec, str(error))
            return
        yield Declared(variant.declaration)
        dtype = next((d for d in request.dtypes if d in variant.declaration.dtypes), None)
        before = Snapshot()
        begun = time.perf_counter()
        wrong = None if dtype is None else self._try_once(variant, dtype)
        seconds = time.perf_counter() - begun
        # A change that only the first call in a process makes is left for the first case to find, in another process.
        changed = bool(before.restore())
        if wrong is None:
            fatal = changed or is_lost() or not is_usable(self.device)
            declaration = msgspec.structs.replace(variant.declaration, call=variant.call)
            yield Loaded(spec, declaration, first_call_seconds=seconds, fatal=fatal)
        else:
            yield Refused(spec, wrong)

    def _try_once(self, variant: LoadedVariant, dtype: str) -> str | None:
        """Returns why a function is no softmax: it refuses its arguments or returns a wrong type.

        The function is called on an ordinary input. Only errors that the signature and the return value show are
        refused here. An exception from inside is left to the cases, which report it as a finding. Returns None if there
        is no such error.
        """
        fmt = FORMATS[dtype]
        bits = np.zeros((2, 8), dtype=fmt.storage)
        view = place(bits, fmt, Layout(), self.device).view
        try:
            with activity.calling():
                output = variant.function(view)
        except UsageError as error:
            return str(error)
        except Exception:  # noqa: BLE001 - reported by the first case with its input
            return None
        wrong = returned_wrongly(output, view)
        if wrong is None:
            return None
        return f"on a {dtype} input of shape [2, 8] {variant.name} {wrong.message}"

    def _run(self, request: RunCase) -> Iterator[Reply]:
        case = request.case
        bits = case.bits(request.first_rows)
        check_layout(bits, case)
        values = decode(bits, case.format)
        references: dict[FullyMasked, Reference] = {}
        for name in request.variants:
            variant = self._variant(name)
            masked = variant.declaration.fully_masked
            self._settle()
            if masked not in references:
                references[masked] = reference(values, case.format, masked)
            yield Started(name)
            begun = time.perf_counter()
            try:
                measurement, fatal = self._measure(variant, request, bits, references[masked])
            except UninterpretableError as error:
                measurement, fatal = msgspec.structs.replace(unmeasured(bits.shape, ()), skipped=str(error)), False
            yield Measured(name, measurement, time.perf_counter() - begun, fatal)
            if fatal:
                return
        yield Done()

    def _run_domain(self, request: RunDomain) -> Iterator[Reply]:
        variant = self._variant(request.variant)
        with _memory_needed(f"the device has no memory left for {request.count} rows"):
            rows = rows_on(request.domain, request.start, request.count, self.device)
        yield Started(request.variant)
        begun = time.perf_counter()
        with nan_filled():
            returned = call_on_device(variant.function, Placed(rows, rows.view(-1), request.domain.format))
        if returned.output is None:
            measurement = unmeasured(rows.shape, returned.violations)
        else:
            output, fmt, masked = returned.output, request.domain.format, variant.declaration.fully_masked
            measurement = by_contract(
                variant,
                fmt,
                (rows.shape[0], rows.shape[1]),
                self.device,
                lambda contract: self._judge_where_it_is(rows, output, fmt, masked, contract),
                of_cpu_library=returned.of_cpu_library,
            )
            measurement = _with(measurement, returned.violations)
        seconds = time.perf_counter() - begun
        yield Measured(request.variant, shifted(measurement, request.start), seconds, returned.fatal)
        yield Done()

    def _judge_where_it_is(
        self, rows: torch.Tensor, output: torch.Tensor, fmt: Format, masked: FullyMasked, contract: Arithmetic
    ) -> Measurement:
        """Judges on the device, in halves if memory does not suffice for all rows.

        Raises UsageError if memory does not suffice for a few rows.
        """
        if self.device.type != "cuda":
            return judge(to_bits(rows, fmt), to_bits(output, fmt), fmt, fully_masked=masked, arithmetic=contract)
        # Imports Triton, whose own functions are interpreted or not by what TRITON_INTERPRET says at that moment.
        from softcheck.judge.device.trust import judge_trusted

        try:
            return judge_trusted(rows, output, fmt, fully_masked=masked, arithmetic=contract)
        except torch.OutOfMemoryError as error:
            if len(rows) < 2 * _FEWEST_ROWS:
                raise UsageError(
                    f"the device has no memory left to judge {list(rows.shape)} outputs: {error}"
                ) from None
        # Not in the handler: the exception there holds the memory that the failed call had taken.
        half = len(rows) // 2
        first = self._judge_where_it_is(rows[:half], output[:half], fmt, masked, contract)
        second = self._judge_where_it_is(rows[half:], output[half:], fmt, masked, contract)
        return merge([first, shifted(second, half)])

    def _measure(
        self, variant: LoadedVariant, request: RunCase, bits: Bits, exact: Reference
    ) -> tuple[Measurement, bool]:
        case = request.case
        fmt = case.format
        with _memory_needed("the input can't be placed in the device's memory"):
            placed = place(bits, fmt, case.layout, self.device)
        with nan_filled():
            called = call(variant.function, placed)
        if called.output is None:
            return unmeasured(bits.shape, called.violations), called.fatal

        of_library = called.of_cpu_library

        def judged(output: Bits) -> Measurement:
            return judge_call(variant, bits, output, fmt, self.device, of_cpu_library=of_library, reference=exact)

        measurement = judged(called.output)
        attempt = Attempt(
            function=variant.function,
            bits=bits,
            fmt=fmt,
            layout=case.layout,
            device=self.device,
            output=called.output,
            judge=judged,
        )
        measurement = diagnose(attempt, measurement)
        if variant.declaration.arithmetic is None and breaks_bounds(measurement):
            fits = self._fitting(variant, bits, called, exact, fmt)
            measurement = msgspec.structs.replace(measurement, fits=fits)
        return self._with_torch(_with(measurement, called.violations), placed.view, called.output), called.fatal

    def _fitting(
        self, variant: LoadedVariant, bits: Bits, called: Called, exact: Reference, fmt: Format
    ) -> tuple[Arithmetic, ...]:
        """Returns the arithmetics that explain this output and all earlier outputs in this process."""
        output, masked = called.output, variant.declaration.fully_masked
        assert output is not None

        def judge_by(declared: Arithmetic) -> Measurement:
            contract = contract_of(declared, of_cpu_library=called.of_cpu_library)
            return judge(bits, output, fmt, fully_masked=masked, arithmetic=contract, reference=exact)

        left = self._candidates.get((variant.name, fmt.name), candidates(fmt.width))
        fits = tuple(declared for declared in left if not breaks_bounds(judge_by(declared)))
        self._candidates[variant.name, fmt.name] = fits
        return fits

    def _with_torch(self, measurement: Measurement, view: torch.Tensor, output: Bits) -> Measurement:
        """Adds the largest absolute difference to torch.softmax, the figure that most other comparisons print."""
        if output.size == 0:
            return measurement
        fmt = FORMATS[str(view.dtype).removeprefix("torch.")]
        theirs = SOFTMAX.yardstick(view).to(torch.float64).cpu().numpy()
        with np.errstate(invalid="ignore"):
            difference = np.abs(decode(output, fmt) - theirs)
        finite = difference[np.isfinite(difference)]
        if finite.size == 0:
            return measurement
        return msgspec.structs.replace(measurement, max_abs_difference_to_torch=float(finite.max()))


@contextmanager
def _memory_needed(complaint: str) -> Iterator[None]:
    """Raises TooLittleMemoryError if an input gets no memory: no variant has run yet, so none is to blame."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise TooLittleMemoryError(f"{complaint}: {error}") from None


def _with(measurement: Measurement, violations: tuple[Violation, ...]) -> Measurement:
    return msgspec.structs.replace(measurement, violations=(*violations, *measurement.violations))


def _open_device(choice: str) -> tuple[torch.device, Ready] | NoDevice:
    """Opens the requested device. Sets TRITON_INTERPRET before any kernel is decorated."""
    has_gpu = torch.cuda.is_available()
    if choice == "cuda" and not has_gpu:
        return NoDevice(
            "--device cuda: torch sees no CUDA device. Run on a machine with a GPU and a CUDA build of torch, "
            "or ask for --device interpreter, which checks logic but not GPU arithmetic"
        )
    on_gpu = has_gpu and choice != "interpreter"
    if not on_gpu:
        os.environ["TRITON_INTERPRET"] = "1"
    import triton

    if on_gpu:
        compiling.install()
    name = torch.cuda.get_device_name(0) if on_gpu else f"{platform.machine()} CPU"
    ready = Ready(
        backend="cuda" if on_gpu else "interpreter",
        device=name,
        torch=str(torch.__version__),
        triton=str(triton.__version__),
        python=platform.python_version(),
        driver=_driver_version() if on_gpu else None,
        memory_bytes=torch.cuda.get_device_properties(0).total_memory if on_gpu else None,
    )
    return torch.device("cuda" if on_gpu else "cpu"), ready


def _driver_version() -> str | None:
    """The NVIDIA kernel driver's version, as Linux shows it."""
    try:
        words = Path("/proc/driver/nvidia/version").read_text(encoding="ascii").partition("\n")[0].split()
    except OSError:
        return None
    return next((word for word in words if word[:1].isdigit() and "." in word), None)


def _is_fatal(reply: Reply) -> bool:
    """True if the process can't continue after a reply."""
    return (isinstance(reply, Measured | Loaded | Searched | WidthTried) and reply.fatal) or (
        isinstance(reply, TrialDone) and reply.outcome.fatal
    )


def _serve(connection: Connection, answer: Callable[[Request], Iterator[Reply]]) -> None:
    while True:
        try:
            message = connection.recv_bytes()
        except EOFError:
            return
        try:
            for reply in answer(decode_request(message)):
                connection.send_bytes(encode_reply(reply))
                if _is_fatal(reply):
                    return
        except SoftcheckError as error:
            connection.send_bytes(encode_reply(Failed(str(error), isinstance(error, TooLittleMemoryError))))
        except (RuntimeError, MemoryError) as error:
            # Only the end of the process releases a device's memory.
            if isinstance(error, torch.OutOfMemoryError) or not is_out_of_memory(error):
                raise
            connection.send_bytes(encode_reply(Failed(f"out of host memory: {error}")))


def main() -> None:
    """Entry of the process: ``python -m softcheck.run.worker DEVICE PIPE ACTIVITY``, the last two file descriptors."""
    choice, descriptor = sys.argv[1], int(sys.argv[2])
    connection = Connection(descriptor)
    activity.show_in(int(sys.argv[3]))
    # The parent sends SIGINT to end a search early; it may arrive after the search has ended.
    signal.signal(signal.SIGINT, lambda _number, _frame: None)
    # Two workers on two cores: torch's own thread pool would only make them fight.
    torch.set_num_threads(1)
    opened = _open_device(choice)
    if isinstance(opened, NoDevice):
        connection.send_bytes(encode_reply(opened))
        return
    device, ready = opened
    connection.send_bytes(encode_reply(ready))
    _serve(connection, _Session(device).answer)


if __name__ == "__main__":
    main()
