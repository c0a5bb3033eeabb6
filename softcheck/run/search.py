"""The parent's part of a search for the worst row: seeds, the judgement of rows found, and a smaller row as bad.

The evolution itself runs in a worker (``softcheck.run.evolution``). Imports no torch.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import numpy as np

from oracles.formats import FORMATS, Bits, Format
from softcheck.cases.case import MAX_STORED_ELEMENTS, Case
from softcheck.cases.drawing import call_with_each
from softcheck.cases.families import FAMILIES
from softcheck.cases.families.draft import Draft
from softcheck.cases.importing import case_from_bits
from softcheck.cases.recipe import Recipe
from softcheck.contract import Violation
from softcheck.errors import UsageError
from softcheck.judge.measurement import Measurement, unmeasured
from softcheck.run.interruption import Interruption
from softcheck.run.process import WorkerDiedError
from softcheck.run.protocol import Candidate, RunSearch, Searched, Searching, SearchOptions
from softcheck.run.session import Session, death
from softcheck.run.shrink import shrink
from softcheck.search.objective import Objective, badness
from softcheck.variants.declaration import Declaration

FAMILY = "generated"
"""Family of the rows found. They are in no corpus until they are added to one."""

KEPT = 0.99
"""Share of the figure that a smaller row must keep."""

SEARCHED = ("float16", "bfloat16", "float32")
"""The formats that float64 operations can rate."""

_ELEMENTS_PER_LAUNCH = {"cuda": 1 << 21, "interpreter": 1 << 14}
_MOST_ROWS = {"cuda": 1 << 15, "interpreter": 64}
_FEWEST_ROWS = 16
_MOST_SEED_ELEMENTS = {"cuda": 1 << 20, "interpreter": 1 << 16}
_ROWS_PER_CASE = 2
_EXAMPLES = 60
_SHRINK_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Row:
    """A row found by a search: as a case of its own, with its measurements in the launch that found it and alone.

    Both measurements come from the judge. They differ if a variant's answer depends on the other rows or on their
    number.
    """

    case: Case
    in_launch: Measurement
    alone: Measurement

    def figure(self, objective: Objective) -> float:
        """The larger figure of both measurements."""
        return max(badness(self.in_launch, objective), badness(self.alone, objective))

    @property
    def worse(self) -> Measurement:
        """The measurement with the larger error over bound; ``alone`` if equal, since it is simpler to show."""
        is_worse = badness(self.in_launch, "bound") > badness(self.alone, "bound")
        return self.in_launch if is_worse else self.alone

    @property
    def violations(self) -> tuple[Violation, ...]:
        """Promises that the row breaks alone, then promises that it breaks only among the other rows of its launch."""
        alone = {violation.kind for violation in self.alone.violations}
        return (*self.alone.violations, *(v for v in self.in_launch.violations if v.kind not in alone))


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The outcome of a search; rows are None if the variant gave no output."""

    options: SearchOptions
    declaration: Declaration
    rows_per_launch: int
    rounds: int
    elements: int
    """Elements judged by the search; random sampling judged as many."""
    found: Row | None
    random: Row | None
    smaller: Row | None
    """A smaller input with at least ``KEPT`` of the figure, if there is one."""
    violations: tuple[Violation, ...]
    """Promises other than accuracy that calls broke."""
    seconds: float


def search(
    session: Session,
    options: SearchOptions,
    declaration: Declaration,
    progress: Callable[[Searching], None],
    interruption: Interruption | None = None,
) -> SearchOutcome:
    """Searches, judges the rows found and shrinks the worst. An interruption cuts the search and the shrinking short.

    Raises UsageError if the declaration does not cover the dtype or the width, and for float64, which the device can't
    rate.
    """
    _check(options, declaration)
    begun = time.monotonic()
    backend = session.ready.backend
    fmt = FORMATS[options.dtype]
    rows = options.rows or _rows_per_launch(options.columns, backend)
    first = seeds(fmt, options.columns, options.seed, _MOST_SEED_ELEMENTS[backend])
    request = RunSearch(**msgspec.structs.asdict(options) | {"rows": rows, "seeds": first.tobytes()})
    interruption = Interruption() if interruption is None else interruption
    searched = _evolved(session, request, progress, interruption)
    found = _row(session, options, searched.found)
    smaller = _shrunk(session, options, found, interruption) if found is not None and options.shrinks else None
    return SearchOutcome(
        options=options,
        declaration=declaration,
        rows_per_launch=rows,
        rounds=searched.rounds,
        elements=searched.elements,
        found=found,
        random=_row(session, options, searched.random),
        smaller=smaller,
        violations=_unlike(searched, found),
        seconds=time.monotonic() - begun,
    )


def seeds(fmt: Format, columns: int, seed: int, most_elements: int) -> Bits:
    """First rows to try, [any number, columns]: rows of every family's cases at this width, and generated rows.

    Of each case the first rows are taken. Small cases are repeated along the row, others made as wide as it. The rows
    are shuffled and cut to ``most_elements``.
    """
    # Drafts, since the digest of a case would ask for all of its bits.
    drafts = (draft for family in FAMILIES.values() for draft in family.drafts(fmt))
    rows = [row for draft in drafts for row in _fitted(draft, columns, fmt)]
    rows += _generated(fmt.name, columns, seed)
    unique = np.unique(np.array(rows, dtype=fmt.storage), axis=0)
    limit = max(1, most_elements // columns)
    # Shuffled, so that a search of few rounds meets rows of all kinds.
    chosen = np.random.default_rng(seed).permutation(len(unique))[:limit]
    return unique[chosen]


def _evolved(
    session: Session, request: RunSearch, progress: Callable[[Searching], None], interruption: Interruption
) -> Searched:
    """Runs the search in a worker and returns its findings.

    A variant that ends the worker gets a violation and no rows. Raises SoftcheckError if the request can't be carried
    out.
    """
    worker = session.take()
    rounds = 0
    try:
        with interruption.passed_on(worker.interrupt):
            for reply in session.ask(worker, request, session.seconds, request.variant):
                if isinstance(reply, Searching):
                    rounds = reply.rounds
                    progress(reply)
                elif isinstance(reply, Searched):
                    return reply
    except WorkerDiedError as died:
        violation = death(died, f"expected an output in round {rounds + 1} of the search")
        return Searched(rounds, rounds * request.rows * request.columns, None, None, (violation,), fatal=True)
    raise AssertionError("ask() always ends with one of the awaited replies")


def _fitted(draft: Draft, columns: int, fmt: Format) -> Bits:
    if 0 in draft.shape:
        return np.zeros((0, columns), dtype=fmt.storage)
    rows = min(draft.shape[0], _ROWS_PER_CASE)
    if not isinstance(draft.content, Recipe):
        bits = draft.content
    elif draft.shape[0] * draft.shape[1] > MAX_STORED_ELEMENTS:
        return draft.content.bits(rows, columns, fmt)
    else:
        bits = draft.content.bits(*draft.shape, fmt)
    return bits[:rows, np.arange(columns) % draft.shape[1]]


def _generated(dtype: str, columns: int, seed: int) -> list[Bits]:
    """Rows from the hypothesis strategies."""
    from hypothesis import Phase

    from softcheck import strategies

    rows: list[Bits] = []
    drawn = strategies.rows(dtype, min_columns=columns, max_columns=columns)
    call_with_each(drawn, rows.append, seed=seed, examples=_EXAMPLES, phases=[Phase.generate])
    return rows


def _check(options: SearchOptions, declaration: Declaration) -> None:
    name, dtype = options.variant, options.dtype
    if dtype not in SEARCHED:
        raise UsageError(
            f"search rates rows in float64, which can't judge {dtype}; expected one of {', '.join(SEARCHED)}"
        )
    if dtype not in declaration.dtypes:
        raise UsageError(f"{name} declares {', '.join(declaration.dtypes)}, not {dtype}")
    if declaration.computed.on_device is None:
        raise UsageError(
            f"{name} computes {declaration.operation}, whose outputs no device can rate; use softcheck report"
        )
    limit = declaration.column_limit(dtype)
    if limit is not None and options.columns > limit:
        raise UsageError(f"{name} declares at most {limit} columns for {dtype}, got --columns {options.columns}")
    if options.rounds is None and options.seconds is None:
        raise UsageError("say how long to search: --seconds S, or --rounds N for a result that can be repeated")


def _rows_per_launch(columns: int, backend: str) -> int:
    return max(_FEWEST_ROWS, min(_MOST_ROWS[backend], _ELEMENTS_PER_LAUNCH[backend] // columns))


def _row(session: Session, options: SearchOptions, candidate: Candidate | None) -> Row | None:
    """Runs and judges a found row once more, alone."""
    if candidate is None:
        return None
    bits = np.frombuffer(candidate.row, dtype=FORMATS[options.dtype].storage)[None]
    case = case_from_bits(
        bits, options.dtype, family=FAMILY, provenance=f"found by softcheck search on {options.variant}"
    )
    # Alone the row is number 0, whatever its number was in its launch.
    return Row(case, candidate.measurement, _alone(session, options, case))


def _alone(session: Session, options: SearchOptions, case: Case) -> Measurement:
    results = session.run_case(case, [options.variant], whole=True)
    # A variant that ran out of time too often is not called again.
    return results[0].measurement if results else unmeasured(case.shape, ())


def _shrunk(session: Session, options: SearchOptions, found: Row, interruption: Interruption) -> Row | None:
    """A smaller row that keeps the figure and breaks the same promises; None if no smaller row does."""
    wanted = KEPT * badness(found.alone, options.objective)
    broken = {violation.kind for violation in found.alone.violations}
    if wanted <= 0 or (not np.isfinite(wanted) and not broken):
        return None
    # A search bounded by rounds gives the same result every time, so no clock limits its shrinking.
    until = None if options.seconds is None else time.monotonic() + _SHRINK_SECONDS

    def keeps(case: Case) -> bool:
        if interruption.is_set or (until is not None and time.monotonic() > until):
            return False
        measurement = _alone(session, options, case)
        return badness(measurement, options.objective) >= wanted and broken <= {v.kind for v in measurement.violations}

    small = shrink(found.case, keeps, row=0)
    if small.digest == found.case.digest:
        return None
    small = msgspec.structs.replace(small, id=f"{FAMILY}/{small.digest}/{small.dtype}")
    measurement = _alone(session, options, small)
    return Row(small, measurement, measurement)


def _unlike(searched: Searched, found: Row | None) -> tuple[Violation, ...]:
    """Violations of the search's calls whose kinds the found row alone does not show."""
    shown = set() if found is None else {violation.kind for violation in found.violations}
    return tuple(violation for violation in searched.violations if violation.kind not in shown)
