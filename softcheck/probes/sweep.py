"""Many sizes in one trial, and one finding per kind over all of them, with a predicate in place of a list."""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from oracles.formats import Bits
from softcheck.cases.case import PACKED, Layout
from softcheck.contract import FindingKind, Violation
from softcheck.errors import UninterpretableError
from softcheck.facts import Measure, Sweep, Where
from softcheck.probes.base import Subject, Trial, skipped_of
from softcheck.probes.judged import MOST, Calls, Judged
from softcheck.probes.judged_shapes import by_kind, together
from softcheck.probes.outcome import Conclusion, Outcome, Shown
from softcheck.probes.predicate import sizes_of

_SECONDS = 0.5
_SECONDS_EACH = 0.05


def sweep(
    subject: Subject,
    sizes: Sequence[int],
    make: Callable[[int], Bits],
    *,
    layout: Callable[[int], Layout] = lambda _: PACKED,
    dispensable: frozenset[int] = frozenset(),
    seconds: float = _SECONDS,
    seconds_each: float = _SECONDS_EACH,
) -> Outcome:
    """Judges the variant at each size, in order, on the input that ``make`` gives; on a GPU in groups.

    Sizes that Triton's interpreter can't run are left out, and the outcome gives the reason. Once calls on dispensable
    sizes have taken ``seconds``, and ``seconds_each`` on average, the remaining dispensable sizes are left out: some
    kernels are compiled anew for every size. So they are once their judgement has taken ten times as long: answers of
    attention take the judge long.
    """
    calls = Calls(subject, most=MOST if subject.setting.on_gpu else 1)
    seen = _Seen()
    spent, judging, paid = 0.0, 0.0, 0
    for size in sizes:
        if size in dispensable and max(spent, judging / 10) > max(seconds, seconds_each * paid):
            seen.is_cut = True
            continue
        try:
            bits = make(size)
            taken = calls.make(bits, size, layout(size))
            seen.shapes[size] = (bits.shape[0], bits.shape[1])
        except UninterpretableError as error:
            seen.skipped = str(error)
            continue
        if size in dispensable:
            spent, paid = spent + taken, paid + 1
        if calls.is_full:
            begun = subject.setting.now()
            seen.add(calls.settle())
            judging += subject.setting.now() - begun if size in dispensable else 0.0
        if seen.fatal:
            break
    seen.add(calls.settle())
    return seen.outcome()


class _Seen:
    """Broken promises of calls at many sizes."""

    def __init__(self) -> None:
        self.fatal = False
        self.is_cut = False
        self.skipped: str | None = None
        """The reason why some sizes could not be tried."""
        self.shapes: dict[int, tuple[int, int]] = {}
        """Rows and columns of the input of each size."""
        self._tried: list[int] = []
        self._failing: dict[FindingKind, list[int]] = {}
        self._smallest: dict[FindingKind, Violation] = {}

    def add(self, settled: Sequence[tuple[int, Judged]]) -> None:
        for size, found in settled:
            self._tried.append(size)
            self.fatal = found.fatal
            for violation in found.violations:
                known = self._failing.setdefault(violation.kind, [])
                self._smallest[violation.kind] = merged(
                    self._smallest.get(violation.kind), violation, first=size < min(known, default=size + 1)
                )
                known.append(size)

    def outcome(self) -> Outcome:
        return Outcome(
            violations=tuple(self._smallest.values()),
            tried=tuple(sorted(self._tried)),
            failing={kind: tuple(sorted(set(broken))) for kind, broken in self._failing.items()},
            judged_shapes=by_kind(
                (self.shapes[size] for size in self._tried),
                ((kind, [self.shapes[size] for size in broken]) for kind, broken in self._failing.items()),
            ),
            fatal=self.fatal,
            skipped=self.skipped,
            is_cut=self.is_cut,
        )


def merged(known: Violation | None, violation: Violation, *, first: bool) -> Violation:
    """Merges the violations of two sizes: the witness of the smaller size, the larger share, the sum of the counts."""
    if known is None:
        return violation
    shares = [v.share for v in (known, violation) if v.share is not None]
    witness = violation if first else known
    is_one_refusal = known.refusal and violation.refusal and known.refusal.kind == violation.refusal.kind
    return msgspec.structs.replace(
        witness,
        share=max(shares, default=None),
        count=known.count + violation.count,
        refusal=witness.refusal if is_one_refusal else None,
    )


def conclude_sweep(
    done: Sequence[tuple[Trial, Outcome]],
    of: Measure,
    sizes: str,
    *,
    beside: Callable[[Where, FindingKind], Where] = lambda where, _: where,
) -> Conclusion:
    """Returns one finding per kind, and one for each violation that belongs to no size.

    ``of`` is what the sizes measure; ``sizes`` is the word for several of them, such as
    "widths". A trial's parameters are the sizes that it was to try. ``beside`` may
    replace the predicate over sizes of a kind by one that says more.
    """
    tried = {size for _, outcome in done for size in outcome.tried}
    # A trial that ended its process left sizes out for another reason, which its finding or its skip tells.
    ended = [(trial, outcome) for trial, outcome in done if not outcome.fatal and outcome.skipped is None]
    planned = {size for trial, outcome in ended if outcome.tried for size in trial.parameters}
    shown = [_kind_over_sizes(done, kind, sorted(tried), of, sizes, beside) for kind in FindingKind]
    others = [
        Shown(trial.label, violation)
        for trial, outcome in done
        for violation in outcome.violations
        if violation.kind not in outcome.failing
    ]
    missed = len(planned - tried)
    made = sum(outcome.skipped is None or bool(outcome.tried) for _, outcome in done)
    left_out = (
        (f"{missed} of {len(planned)} {sizes} were left out: calls take over 50 ms, as where each is compiled anew",)
        if missed
        else ()
    )
    return Conclusion(
        findings=(*(s for s in shown if s is not None), *others),
        trials=made,
        skipped=(*skipped_of(done), *left_out),
        judged_shapes=shapes_judged(outcome for _, outcome in done),
    )


def shapes_judged(outcomes: Iterable[Outcome]) -> dict[str, str]:
    """The shapes of all calls of some trials by kind: those of sizes, and those over rows and columns."""
    return together(
        part
        for outcome in outcomes
        for part in (outcome.judged_shapes, by_kind(outcome.shapes, outcome.failing_shapes.items()))
    )


def _kind_over_sizes(
    done: Sequence[tuple[Trial, Outcome]],
    kind: FindingKind,
    tried: list[int],
    of: Measure,
    sizes: str,
    beside: Callable[[Where, FindingKind], Where],
) -> Shown | None:
    broken = [
        (min(o.failing[kind]), t.label, v) for t, o in done if kind in o.failing for v in o.violations if v.kind is kind
    ]
    if not broken:
        return None
    broken.sort(key=lambda found: found[0])
    least, label, violation = broken[0]
    for _, _, other in broken[1:]:
        violation = merged(violation, other, first=False)
    failing = {size for _, outcome in done for size in outcome.failing.get(kind, ())}
    where = beside(Where(any_of=tuple((each,) for each in sizes_of(tried, failing, of))), kind)
    answered = max(set(tried) - failing, default=0)
    refusal = violation.refusal
    if refusal is not None and 0 not in (refusal.rows, refusal.columns):
        # If a larger size was answered, the refused size is no limit.
        refusal = msgspec.structs.replace(refusal, answered=answered) if 0 < answered < least else None
    at = f"{'N' if of == 'columns' else of} = {least}"
    found = over_sizes(violation, where, Sweep.among(tried, failing, sizes), at, columns="N")
    return Shown(label, msgspec.structs.replace(found, refusal=refusal))


def over_sizes(violation: Violation, where: Where, swept: Sweep, at: str, *, columns: str = "columns") -> Violation:
    """The violation with the sizes at which it shows before its message, and among its facts; ``at`` names its witness's."""
    facts = msgspec.structs.replace(violation.facts, where=where, sweep=swept)
    message = f"{where.words(columns)} ({swept.words()}); at {at}: {violation.message}"
    return msgspec.structs.replace(violation, message=message, facts=facts)
