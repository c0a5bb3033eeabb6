"""Repeated calls, compared bit for bit: the same input must give the same output whatever ran before or beside.

Nothing is judged here but sameness. Two calls on the same input have other inputs in between, of the same or another
shape, or at the same address. On a GPU they also run under load and on another stream.
"""

from collections.abc import Callable, Sequence

from oracles.formats import Bits
from softcheck.calling.call import Called, call, place
from softcheck.cases.case import PACKED
from softcheck.contract import FindingKind, Violation
from softcheck.probes import on_streams
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.helpers import call_on, differing, ordinary_rows, same_bits, stopped, wrong_values
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import nan_filled
from softcheck.probes.tuning import untuned

PROPERTY = "history_invariant"

_KIND = FindingKind.NONDETERMINISTIC
_ROWS = 2
_WIDE = 32768
_STALE = "the answer to another input of the same shape was returned"

Trying = Callable[[Subject, int], Outcome]


class _Determinism(Probe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        tried: dict[str, Trying] = dict(_TRIALS)
        if setting.on_gpu and not setting.quick:
            tried |= on_streams.TRIALS
        # No earlier call has these shapes, so that a cache by shape can't hold an answer yet.
        widths = {label: 70 + setting.fmt.precision + 3 * number for number, label in enumerate(tried)}
        if setting.on_gpu:
            limit = setting.declaration.column_limit(setting.dtype)
            tried["wide-rows"], widths["wide-rows"] = _wide_rows, min(limit or _WIDE, _WIDE) - setting.fmt.precision
        return [
            Trial(label, (act, widths[label]))
            for label, act in tried.items()
            if widths[label] > 0 and setting.takes(widths[label])
        ]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        act, columns = trial.parameters
        outcome: Outcome = act(subject, columns)
        return outcome


def _repeats(subject: Subject, columns: int) -> Outcome:
    """Repeats a call, beginning with the first call after tuning is forgotten."""
    bits = _rows(subject, columns)
    with untuned():
        first = call_on(subject, bits)
    calls = 40 if subject.setting.on_gpu else 4
    return _same_again(subject, bits, first, calls) or _same_again(subject, bits, None, calls) or Outcome()


def _many_rows(subject: Subject, columns: int) -> Outcome:
    """Repeats a call on many rows: a race shows when many programs run at once."""
    bits = ordinary_rows(16384 if subject.setting.on_gpu else 6, columns, subject.setting.fmt, subject.setting.seed)
    calls = 4 if subject.setting.on_gpu else 2
    return (
        _same_again(subject, bits, call_on(subject, bits), calls)
        or _same_again(subject, bits, None, calls)
        or Outcome()
    )


def _wide_rows(subject: Subject, columns: int) -> Outcome:
    """Repeats a call on wide rows. Many threads or programs share a row, and may add their sums in any order.

    GPU only.
    """
    bits = ordinary_rows(32, columns, subject.setting.fmt, subject.setting.seed)
    return _same_again(subject, bits, call_on(subject, bits), 10) or _same_again(subject, bits, None, 10) or Outcome()


def _other_values_between(subject: Subject, columns: int) -> Outcome:
    ours, others = _rows(subject, columns), _rows(subject, columns, seed=1)
    first = call_on(subject, ours)
    between = call_on(subject, others)
    stale = _stale(subject, (ours, first), (others, between), "at another address")
    if stale is not None:
        return Outcome(violations=(stale,))
    words = "after a call on other values of the same shape, the first input's answer differs"
    return _unlike(subject, ours, first, call_on(subject, ours), words) or Outcome()


def _same_memory(subject: Subject, columns: int) -> Outcome:
    """Calls with new values at the same address, which a cache by ``data_ptr`` does not notice."""
    ours, others = _rows(subject, columns), _rows(subject, columns, seed=1)
    fmt, function = subject.setting.fmt, subject.variant.function
    placed = place(ours, fmt, PACKED, subject.device)
    with nan_filled():
        first = call(function, placed)
    placed.view.copy_(place(others, fmt, PACKED, subject.device).view)
    with nan_filled():
        second = call(function, placed)
    stale = _stale(subject, (ours, first), (others, second), "at the same address")
    if stale is None and not second.fatal:
        # A part of the answer may have been kept, such as the maxima. ``placed`` still holds the new values at its
        # address.
        stale = _wrong_there(subject, others, second, call_on(subject, others))
    return Outcome(violations=() if stale is None else (stale,), fatal=first.fatal or second.fatal)


def _other_shapes_between(subject: Subject, columns: int) -> Outcome:
    bits = _rows(subject, columns)
    first = call_on(subject, bits)
    for rows, width in ((1, columns), (_ROWS, columns // 2), (2 * _ROWS, columns - 1)):
        between = call_on(subject, ordinary_rows(rows, width, subject.setting.fmt, subject.setting.seed))
        if between.fatal:
            return Outcome(violations=between.violations, fatal=True)
    after = call_on(subject, bits)
    words = "after calls on other shapes, the first input's answer differs"
    found = _unlike(subject, bits, first, after, words)
    if found is None:
        return Outcome(properties={PROPERTY: True})
    if after.output is None or wrong_values(subject, bits, after.output, after):
        return found
    # Code compiled or tuned anew for the other shapes may be used from now on, and is as right.
    return _unlike(subject, bits, after, call_on(subject, bits), words) or Outcome(properties={PROPERTY: False})


_TRIALS: dict[str, Trying] = {
    "repeats": _repeats,
    "many-rows": _many_rows,
    "other-values-between": _other_values_between,
    "same-memory": _same_memory,
    "other-shapes-between": _other_shapes_between,
}

PROBE = _Determinism()


def _rows(subject: Subject, columns: int, seed: int = 0) -> Bits:
    return ordinary_rows(_ROWS, columns, subject.setting.fmt, subject.setting.seed + seed)


def _same_again(subject: Subject, bits: Bits, first: Called | None, calls: int) -> Outcome | None:
    """Repeats a call. Returns an outcome if an answer differs or is missing, None if all is well.

    Poisoning makes torch choose deterministic forms of its operations. Calls are therefore repeated without poison too:
    if ``first`` is None, all calls are made as a user makes them.
    """
    made = _bare(subject, bits) if first is None else first
    again = _bare if first is None else call_on
    for number in range(2, calls + 1):
        found = _unlike(
            subject, bits, made, again(subject, bits), f"call {number} on the same input differs from the first"
        )
        if found is not None:
            return found
    return None


def _bare(subject: Subject, bits: Bits) -> Called:
    return call(subject.variant.function, place(bits, subject.setting.fmt, PACKED, subject.device))


def _unlike(subject: Subject, bits: Bits, first: Called, again: Called, words: str) -> Outcome | None:
    """Returns an outcome if two calls on the same input give other bits, or no output; None if all is well."""
    for made in (first, again):
        if made.output is None:
            return stopped(made)
    assert first.output is not None
    assert again.output is not None
    found = differing(_KIND, first.output, again.output, subject.setting.fmt, words, bits)
    return None if found is None else Outcome(violations=(found,))


def _wrong_there(subject: Subject, bits: Bits, there: Called, elsewhere: Called) -> Violation | None:
    """Returns a violation if an input's answer is wrong at an address used before and right at a new address."""
    if there.output is None or elsewhere.output is None:
        return None
    if same_bits(there.output, elsewhere.output, subject.setting.fmt).all():
        return None
    wrong = wrong_values(subject, bits, there.output, there)
    if not wrong or wrong_values(subject, bits, elsewhere.output, elsewhere):
        return None
    words = "new values at an address that another input had get a wrong answer, and the right one elsewhere"
    return Violation(_KIND, f"{words}: {wrong[0].message}", row=wrong[0].row, column=wrong[0].column)


def _stale(subject: Subject, first: tuple[Bits, Called], second: tuple[Bits, Called], where: str) -> Violation | None:
    """Returns a violation if the second input got the first input's answer.

    The answer must be right for the first input and wrong for the second.
    """
    (ours, one), (others, two) = first, second
    if one.output is None or two.output is None:
        return next(iter((*one.violations, *two.violations)), None)
    if not same_bits(one.output, two.output, subject.setting.fmt).all():
        return None
    wrong = wrong_values(subject, others, two.output, two)
    if wrong_values(subject, ours, one.output, one) or not wrong:
        return None
    return Violation(_KIND, f"{_STALE}, {where}: {wrong[0].message}", row=wrong[0].row, column=wrong[0].column)
