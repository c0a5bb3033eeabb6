"""A worker's answers to requests: it loads variants, and runs and measures them. ``run.worker`` is the process."""

import time
from collections.abc import Iterator
from functools import partial
from operator import add

import msgspec
import numpy as np
import torch

from oracles.formats import FORMATS, Bits, decode
from oracles.reference import Reference
from softcheck.calling import activity, launches
from softcheck.calling.call import is_usable, place, returned_wrongly
from softcheck.calling.memory import give_back, lack_in_words, patiently
from softcheck.calling.state import Snapshot, is_lost, preserved
from softcheck.cases.case import PACKED, Case, check_layout
from softcheck.contract import FindingKind
from softcheck.errors import NothingRunError, UninterpretableError, UsageError, WithoutKernelError
from softcheck.judge.judge import reference
from softcheck.judge.measurement import Measurement, merge, moved, unmeasured
from softcheck.run import timing
from softcheck.run.measuring import Measuring, compare_orders, try_width
from softcheck.run.protocol import (
    FIRST_SHAPE,
    CompareOrders,
    Declared,
    Done,
    Load,
    Loaded,
    Measured,
    Refused,
    Reply,
    Request,
    RunCase,
    RunDomain,
    RunProbe,
    RunTrace,
    Started,
    Traced,
    Trying,
    TryWidth,
)
from softcheck.run.trials import probe_replies
from softcheck.variants import coverage
from softcheck.variants.adapt import Adapted
from softcheck.variants.recognised import Recognised, unrecognised
from softcheck.variants.registry import Imported, LoadedVariant, imported, known_names
from softcheck.variants.source import source_of

_ELEMENTS_WITHOUT_KERNELS = 1 << 18

_NEXT_STEPS = {
    FindingKind.WRONG_DTYPE: "; return that, or judge what is returned with --call 'f(x).to(x.dtype)'",
    FindingKind.WRONG_SHAPE: "; return that, or say what the answer is in it, as --call 'f(x)[0]' does",
}
"""The next step for a function that is refused when it is loaded."""

_TRACED_ROWS = 64
"""Rows up to which a traced row stands among those before it."""


class Server:
    """The variants loaded so far, on one device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.loaded: dict[str, LoadedVariant] = {}
        self._facts: dict[str, Recognised] = {}
        self._measuring = Measuring(device)
        self._answers: _Answers | None = None
        """Of the latest request, if that was for a case: the next one may be for another variant on it."""
        # What is put back after each request must not be softcheck's own counter.
        coverage.turn_on()
        self._initial = Snapshot()

    def answer(self, request: Request) -> Iterator[Reply]:
        """Replies to one request; the last one is Done, Loaded, Refused, Probed or Failed."""
        self._settle()
        self._facts = request.facts
        if not isinstance(request, RunCase):
            self._answers = None
        if isinstance(request, Load):
            yield from self._load(request)
        elif isinstance(request, RunCase):
            yield from self._run(request)
        elif isinstance(request, RunDomain):
            yield from self._run_domain(request)
        elif isinstance(request, RunProbe):
            yield from probe_replies(request, self._variant(request.variant), self.device)
        elif isinstance(request, TryWidth):
            yield from try_width(request, self._variant(request.variant), self.device)
        elif isinstance(request, CompareOrders):
            yield from compare_orders(request, self._variant(request.variant), self.device)
        elif isinstance(request, RunTrace):
            yield Started(request.variant)
            yield self._trace(request)
        else:
            yield from timing.measure(request, self._variant, self.device)
        give_back(self.device)

    def _settle(self) -> None:
        """Puts back what changed since the process began, without blaming a variant.

        Leftovers of a variant may act after its call, such as a finalizer that runs late or a registered callback.
        """
        self._initial.restore()

    def _variant(self, spec: str) -> LoadedVariant:
        fact = self._facts.get(spec)
        if spec not in self.loaded or fact not in (None, self.loaded[spec].fact):
            found = self._imported(spec)
            if fact is None and (trials := found.recognition(self.device)) is not None:
                with preserved():
                    fact = trials.begin() or trials.found()
            self.loaded[spec] = found.called(fact or unrecognised(found.declaration), self.device)
        variant = self.loaded[spec]
        coverage.attribute_to(variant.name, [str(file) for file in source_of(variant.function).files])
        return variant

    def _imported(self, spec: str) -> Imported:
        # A module may seed generators or set defaults for a script's sake; the next variant must not see it.
        with preserved(), activity.preparing():
            found = imported(spec)
        activity.expect_a_first_call()
        return found

    def _load(self, request: Load) -> Iterator[Reply]:
        spec = request.variant
        try:
            found = self._imported(spec)
            yield Declared(found.promised)
            if not request.is_called:
                yield Done()
                return
            before = Snapshot()
            seconds = 0.0
            dtypes = [dtype for dtype in request.dtypes if dtype in found.declaration.dtypes]
            trials = found.recognition(self.device, dtypes)
            if spec not in self.loaded and spec not in self._facts and trials is not None:
                begun = time.perf_counter()
                fact = trials.begin() if dtypes else unrecognised(found.declaration)
                seconds = time.perf_counter() - begun
                if fact is None:
                    yield Trying()
                    fact = trials.found()
                self.loaded[spec] = found.called(fact, self.device)
            variant = self._variant(spec)
        except UsageError as error:
            yield Refused(str(error))
            return
        begun = time.perf_counter()
        wrong = self._try_once(variant, dtypes[0]) if dtypes else None
        seconds += time.perf_counter() - begun
        # A change that only the first call in a process makes is left for the first case to find, in another process.
        changed = bool(before.restore())
        if wrong is None:
            fatal = changed or is_lost() or not is_usable(self.device)
            declaration = msgspec.structs.replace(variant.declaration, call=variant.call)
            with preserved():
                notes = tuple(_doubts(variant))
            function = variant.function
            at_defaults = function.at_defaults if isinstance(function, Adapted) else ()
            yield Loaded(
                declaration,
                first_call_seconds=seconds,
                fatal=fatal,
                notes=notes,
                fact=variant.fact if dtypes else None,
                at_defaults=() if variant.name in known_names() else at_defaults,
            )
        else:
            other = "" if variant.fact is None else variant.fact.computes
            step = f"; its answers are those of another operation: add {other}" if other else ""
            yield Refused(f"{wrong}{step}")

    def _try_once(self, variant: LoadedVariant, dtype: str) -> str | None:
        """Returns why a function is no softmax, None if it refuses its arguments or returns a right type.

        The function is called on an ordinary input. Only errors that the return value shows are refused here. An exception
        from inside is left to the cases, which report it as a finding.
        """
        fmt = FORMATS[dtype]
        bits = np.zeros(FIRST_SHAPE, dtype=fmt.storage)
        view = place(bits, fmt, PACKED, self.device).view
        try:
            with activity.calling():
                output = variant.function(view)
        except UsageError as error:
            return str(error)
        except Exception:  # noqa: BLE001 - reported by the first case with its input
            return None
        wrong = returned_wrongly(output, view, variant.operation)
        if wrong is None:
            return None
        step = _NEXT_STEPS.get(wrong.kind, "")
        return f"on a {dtype} input of shape {[*FIRST_SHAPE]} {variant.name} {wrong.message}{step}"

    def _run(self, request: RunCase) -> Iterator[Reply]:
        case = request.case
        if self._answers is None or self._answers.case != case:
            self._answers = _Answers(case)
            check_layout(self._answers.bits(request.first_rows), case)
        answers, name = self._answers, request.variant
        named = answers.named(self._variant(name), request.first_rows)
        self._settle()
        answers.of(named, request.first_rows)
        yield Started(name)
        begun = time.perf_counter()
        launched = launches.counted()
        measurement, fatal = self._run_rows(named, answers, request.first_rows, peers=request.peers)
        # The rows that run where no kernel is interpreted: 2^18 elements, and at least two rows.
        more = min(case.shape[0], max(2, _ELEMENTS_WITHOUT_KERNELS // max(1, case.shape[1])))
        is_cut = request.first_rows is not None and request.first_rows < more and measurement.skipped is None
        if is_cut and launches.counted() == launched and not (fatal or measurement.violations):
            # Only a program of the interpreter takes long.
            named = answers.named(self._variant(name), more)
            measurement, fatal = self._run_rows(named, answers, more, peers=request.peers)
        yield Measured(measurement, time.perf_counter() - begun, fatal)
        yield Done()

    def _run_rows(
        self, variant: LoadedVariant, answers: "_Answers", rows: int | None, *, peers: bool
    ) -> tuple[Measurement, bool]:
        """Runs a variant, whose calls get what the case names, on the first rows of a case and judges its output."""
        bits, exact = answers.of(variant, rows)
        try:
            return patiently(
                lambda: self._measuring.of_case(variant, answers.case, bits, exact, peers=peers), self.device
            )
        except UninterpretableError as error:
            return msgspec.structs.replace(unmeasured(bits.shape, ()), skipped=str(error)), False
        except torch.OutOfMemoryError as error:
            return msgspec.structs.replace(unmeasured(bits.shape, ()), skipped=lack_in_words(error)), False

    def _trace(self, request: RunTrace) -> Traced:
        # Importing it imports Triton's interpreter, which no other request of a GPU's worker needs.
        from softcheck.tracing.record import record

        case = request.case
        bits = case.bits(max(request.rows) + 1)[:, : request.columns]
        layout = case.layout if request.columns in (None, case.shape[1]) else PACKED
        rows, of_rows = request.rows, request.rows
        if len(bits) > _TRACED_ROWS:
            # Programs of the rows before take a millisecond each.
            bits, layout, of_rows = bits[list(rows)], PACKED, tuple(range(len(rows)))
        variant = self._variant(request.variant)
        if case.operands is not None:
            shown = np.arange(len(bits)) if of_rows == rows else np.array(rows)
            if (part := case.part(shown, np.arange(bits.shape[1]))) is None:
                return Traced(reason=f"the target of a row lies beyond its first {bits.shape[1]} columns; trace more")
            variant = variant.on(part)
        try:
            traced, notes = record(variant, bits, case.format, layout, of_rows, request.focus)
        except (NothingRunError, UninterpretableError) as error:
            return Traced(reason=str(error), has_kernel=not isinstance(error, WithoutKernelError))
        if of_rows != rows:
            traced = tuple(msgspec.structs.replace(one, row=row) for one, row in zip(traced, rows, strict=True))
            notes = (*notes, "the rows are traced without those before them")
        return Traced(traced, notes)

    def _run_domain(self, request: RunDomain) -> Iterator[Reply]:
        variant = self._variant(request.variant)
        end = request.start + request.count
        found: list[Measurement] = []
        begun = time.perf_counter()
        for start in range(request.start, end, request.at_once or request.count):
            part = msgspec.structs.replace(request, start=start, count=min(request.at_once or end, end - start))
            rows = self._measuring.rows_of(part)
            if not found:
                yield Started(request.variant)
                begun = time.perf_counter()
            measurement, fatal = self._measuring.of_rows(variant, rows, request.domain.format)
            found.append(moved(measurement, partial(add, start)))
            # The next rows need the memory.
            del rows
            if fatal:
                break
        yield Measured(merge(found), time.perf_counter() - begun, fatal)
        yield Done()


def _doubts(variant: LoadedVariant) -> Iterator[str]:
    """Yields notes on defaults, a call that may not be meant so, and parameters that do nothing in it; none of a built-in function's."""
    function = variant.function
    if not isinstance(function, Adapted) or variant.name in known_names():
        return
    yield from (f"{variant.name}: {remark}" for remark in variant.remarks)
    yield from (f"{variant.name}: {sentence}" for sentence in function.unjudged)
    if function.others:
        others = " or ".join(f"--call '{text}'" for text in function.others)
        yield f"{variant.name}: taken as {function.call}, and no meaning of its operands was right on a small trial; {others} says another"
    for parameter, call in function.doubtful_defaults.items():
        yield (
            f"{variant.name}: right on a small trial where {parameter} is given, and wrong without: its default is another than "
            f"{variant.operation.name} has; --call '{call}' judges it where it is given"
        )
    if found := function.untried:
        options = " or ".join(dict.fromkeys(one.option for choices in found.values() for one in choices))
        yield f"{variant.name}: only calls of the probe meetings give {', '.join(found)}; {options} judges it everywhere"


class _Answers:
    """The first rows of a case and their exact answers, computed once for all variants that ask for the same."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self._bits: dict[int | None, Bits] = {}
        self._found: dict[tuple[object, ...], Reference] = {}

    def bits(self, rows: int | None) -> Bits:
        """The bits of so many rows, of all for None."""
        if rows not in self._bits:
            self._bits[rows] = self.case.bits(rows)
        return self._bits[rows]

    def named(self, variant: LoadedVariant, rows: int | None) -> LoadedVariant:
        """The variant whose calls get what the case names for so many rows."""
        return variant.on(self.case, len(self.bits(rows)))

    def of(self, variant: LoadedVariant, rows: int | None) -> tuple[Bits, Reference]:
        """The bits of so many rows, and what the variant declares to compute of them."""
        declared, fmt, bits = variant.declaration, self.case.format, self.bits(rows)
        asked = (declared.operation, *sorted(variant.operation.parameters.items()), declared.fully_masked, rows)
        if asked not in self._found:
            self._found[asked] = reference(decode(bits, fmt), fmt, declared.fully_masked, variant.operation)
        return bits, self._found[asked]
