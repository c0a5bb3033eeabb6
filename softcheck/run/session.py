"""Runs of cases on variants in worker processes, and the collection of their measurements. Imports no torch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from oracles.formats import FORMATS
from softcheck.cases.case import Case
from softcheck.cases.exhaustive import Domain
from softcheck.judge.measurement import Measurement, unmeasured
from softcheck.run.again import answered
from softcheck.run.blame import lay
from softcheck.run.pool import Job, Pool
from softcheck.run.process import WorkerDiedError, waits
from softcheck.run.protocol import (
    Call,
    Declared,
    Failed,
    Load,
    Loaded,
    Measured,
    Refused,
    RunCase,
    RunDomain,
    Time,
    Timed,
    Trying,
)
from softcheck.speed.samples import Sampled, ShapeSamples, TimingPlan
from softcheck.speed.statistics import PRECISE
from softcheck.variants.declaration import Declaration
from softcheck.variants.recognised import unrecognised


@dataclass(frozen=True, slots=True)
class CaseMeasurement:
    """One variant's measurement on one case."""

    variant: str
    case: Case
    measurement: Measurement
    seconds: float


SLOW = 3.0
"""Seconds of a variant's first call in a process (imports, torch.compile) beyond which the variant keeps to its share of
the workers: any other worker would have to make that slow first call too."""


class Session(Pool):
    """A pool of workers that loads a variant, runs it on cases and domains, and times it."""

    peers = False
    """True if the verdicts of usual rules on each case's output are asked for."""

    def load(self, spec: str, dtypes: Sequence[str] = tuple(FORMATS), *, fresh: bool = False) -> Declaration | str:
        """Returns a variant's declaration, or the reason why it can't be judged in the first dtype that it declares.

        ``fresh`` loads it in a process in which nothing has run yet.
        """
        worker = self.take(spec, fresh=fresh)
        before = list(worker.calls)
        worker.loaded.add(spec)
        declared: Declaration | None = None
        is_trying = False
        try:
            request = Load(spec, tuple(dtypes))
            for reply in self.ask(worker, request):
                is_trying |= isinstance(reply, Trying)
                if isinstance(reply, Declared):
                    declared = reply.declaration
                elif isinstance(reply, Loaded):
                    return self._loaded(spec, reply)
                elif isinstance(reply, Refused | Failed):
                    return reply.message
        except WorkerDiedError as died:
            if is_trying:
                # A call that is not the function's own ended the process: it is judged by the likeliest.
                self._never_recognised(spec, declared)
                return self.load(spec, dtypes, fresh=True)
            others = worker.served - {spec} and (declared is not None or not died.timed_out)
            # A first call that ran out of time may have been compiling; another finds what was compiled, if there is time for it.
            over = None if declared is None else self.patience.over(spec, declared.dtypes[0])
            may_have_compiled = declared is not None and died.was_preparing and over is None
            if not fresh and (others or may_have_compiled):
                # Another variant may have ended or ruined the process, or hold a lock; a new process shows whether this
                # variant dies alone.
                found = self.load(spec, dtypes, fresh=True)
                if spec in self.declarations:
                    lay(self, before, died)
                return found
            if declared is not None and died.timed_out:
                dtype = next((d for d in dtypes if d in declared.dtypes), None)
                self.patience.never_began(spec, f"the first calls, on small {dtype} inputs: {died}")
            self._never_recognised(spec, declared)
            # It has declared itself, so it is a variant, and its cases will show that it dies.
            return declared if declared is not None else f"while it was imported: {died}"
        raise AssertionError("ask() always ends with one of the awaited replies")

    def _loaded(self, spec: str, reply: Loaded) -> Declaration:
        """Keeps what a process tells of a variant that it has loaded."""
        self.blames.notes += [note for note in reply.notes if note not in self.blames.notes]
        if reply.fact is not None:
            self.know(spec, reply.fact)
        if reply.first_call_seconds > SLOW:
            self.slow.add(spec)
        self.at_defaults[spec] = reply.at_defaults
        self.declarations[spec] = reply.declaration
        return reply.declaration

    def _never_recognised(self, spec: str, declared: Declaration | None) -> None:
        """Has every process make the likeliest call of a variant whose trials ended the process."""
        if declared is not None:
            self.know(spec, unrecognised(declared))

    def run_case(
        self,
        case: Case,
        variants: Sequence[str],
        *,
        whole: bool = False,
        on_result: Callable[[CaseMeasurement], None] = lambda _: None,
    ) -> list[CaseMeasurement]:
        """Results of the variants on one case, in order.

        A variant that ends its worker gets a finding; the others go on. Each result reaches ``on_result`` as soon as it
        is measured. If a variant's kernels would take too long to compile for the case's width, its result says so.
        With ``whole``, every row runs under the interpreter too. A variant that was given up (``patience``) has no
        result. Raises SoftcheckError if the case itself can't be made.
        """
        results: list[CaseMeasurement] = []
        first_rows = None if whole else rows_to_run(case, self.ready.backend)
        for name in variants:
            if self.patience.over(name, case.dtype) is not None:
                continue
            limit = self.width_limit(name, case.dtype, case.shape[1])
            if limit is None:
                result = self._on_case(RunCase(case, name, first_rows, self.peers))
            else:
                why = f"{limit} (--compile-seconds {self.widths.budget:g})"
                result = CaseMeasurement(name, case, replace(unmeasured(case.shape, ()), skipped=why), 0.0)
            found = result.measurement
            self.patience.count(name, case.dtype, found.violations)
            results.append(result)
            on_result(result)
        return results

    def _on_case(self, request: RunCase) -> CaseMeasurement:
        case, variant = request.case, request.variant
        rows, columns = case.shape
        call = Call(variant, case.dtype, case.id, request)
        answer = answered(self, call, f"case {case.id}")
        if isinstance(answer, Measured):
            return CaseMeasurement(variant, case, answer.result, answer.seconds)
        assert isinstance(answer, WorkerDiedError)
        shape = min(rows, request.first_rows or rows), columns
        return CaseMeasurement(variant, case, unmeasured(shape, (answer.violation(),)), 0.0)

    def run_domain(
        self, variant: str, domain: Domain, start: int, count: int, *, at_once: int | None = None
    ) -> Measurement:
        """Returns the measurement of one variant on a part of a domain, called with ``at_once`` rows at a time.

        Raises TooLittleMemoryError if the device has no room for so many rows, and SoftcheckError if the part can't be
        run for another reason.
        """
        request = RunDomain(domain, start, count, variant, at_once)
        call = Call(variant, domain.dtype, f"rows {start} to {start + count} of {domain.describe()}", request)
        answer = answered(self, call, variant)
        if isinstance(answer, Measured):
            found = answer.result
        else:
            assert isinstance(answer, WorkerDiedError)
            found = unmeasured((count, domain.columns), (answer.violation(f"expected an output for {call.name}"),))
        self.patience.count(variant, domain.dtype, found.violations)
        return found

    def job(self, case: Case, variants: Sequence[str]) -> Job[CaseMeasurement]:
        """Returns ``run_case`` as a job of ``pool.spread``."""
        return Job(f"case {case.id}", lambda emit: self.run_case(case, variants, on_result=emit))

    def time(
        self,
        variants: Sequence[str],
        dtype: str,
        shape: tuple[int, int],
        *,
        seed: int,
        seconds: float = 1.0,
        within: float = PRECISE,
    ) -> ShapeSamples | str:
        """Times variants side by side on one shape, or returns the reason why that failed.

        Rounds go on for ``seconds``, or until every ratio to the copy is known ``within`` a share of it. A variant that
        ends its worker is left out, with its death as the reason, and the other variants are timed without it. Nothing
        else that waits for a device for itself uses it meanwhile.
        """
        refused: dict[str, Sampled] = {}
        rows, columns = shape
        plan = TimingPlan(dtype=dtype, rows=rows, columns=columns, seed=seed, seconds=seconds, within=within)
        with self.on_one_device() as own:
            own.retire_idle()
            while rest := tuple(name for name in variants if name not in refused):
                worker = own.take()
                try:
                    *_, reply = own.ask(worker, Time(rest, plan), limits=lambda _: waits(self.seconds + seconds))
                except WorkerDiedError as died:
                    if worker.running not in rest:
                        return str(died)
                    refused[worker.running] = Sampled(name=worker.running, reason=str(died))
                    continue
                if isinstance(reply, Failed):
                    return reply.message
                assert isinstance(reply, Timed)
                by_name = {**refused, **{s.name: s for s in reply.samples.variants}}
                return replace(reply.samples, variants=tuple(by_name[name] for name in variants))
        return "; ".join(f"{one.name}: {one.reason}" for one in refused.values())


_INTERPRETER_ROWS = 40
_INTERPRETER_ELEMENTS = 2**15


def rows_to_run(case: Case, backend: str) -> int | None:
    """Number of a case's rows to run: None, for all rows, on a GPU; the first rows only under the interpreter.

    The interpreter takes about a millisecond per program. There a case is cut to its first 40 rows or, if rows are
    wide, to as many as hold 2^15 elements, and at least 2.
    """
    if backend == "cuda":
        return None
    rows, columns = case.shape
    limit = max(2, min(_INTERPRETER_ROWS, _INTERPRETER_ELEMENTS // max(1, columns)))
    return None if rows <= limit else limit
