"""Rows that are changed in what must not matter: their columns' order, a constant added, -inf beside them, the rest of the batch.

Of ``shifts``, ``permutations`` and ``appended_masks`` the changed rows' answers are judged; that their bits stay the same is a property.
Of ``batch_invariance`` it is a promise where a declaration says so.

``neighbours`` puts NaN, infinities, huge values and padding into a row's neighbours: the row's own result must keep its bits. NaN and infinities
in the output gradient of a backward must show in their own row, wherever they stand: the product of a probability of 0 and an infinity
is NaN, and a loss scaler looks for such a row to leave a step out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracles.formats import Bits, Values, decode, encode
from softcheck.contract import FindingKind, Violation
from softcheck.probes.base import Setting, Subject, TrialTable
from softcheck.probes.helpers import (
    call_on,
    ordinary_rows,
    stopped,
    takes_gradients,
    with_gradients,
    with_packed_gradients,
)
from softcheck.probes.outcome import Outcome
from softcheck.probes.same_bits import Places, Repeated, judged_beside, unlike

_SHIFTS = {
    "float16": (128.0, 1e3, 1e4, 6e4),
    "bfloat16": (16.0, 128.0, 1e4, 1e30),
    "float32": (1e4, 8e6, 1e8, 1e14),
    "float64": (1e4, 4e15, 1e17, 1e30),
}
"""Constants at which the spacing is up to about 1/8, 1, 8, and more than any spread that leaves two probabilities above 0."""
_SHIFTED, _PERMUTED, _PERMUTED_ON_GPU, _PADDED = 130, 700, 5000, 500
"""Columns of the rows."""
_GROWN, _GROWN_ON_GPU = (513, 1025, 4200), (501, 513, 1025, 2049, 8200, 65537)
"""Columns of padded rows, across block sizes: one tile becomes a whole tile of -inf and another tile, before or behind it."""
_BATCH, _BATCH_INTERPRETED = 257, 5
_OF_BATCHES, _OF_BATCHES_ON_GPU = (100, 700), (37, 1000, 8191)

ORDERS: Mapping[str, tuple[str, Callable[[Values, int], NDArray[np.int64]]]] = {
    "reversed": ("reversed", lambda row, _: np.arange(row.size)[::-1]),
    "descending": ("by descending logits of the first row", lambda row, _: np.argsort(row, kind="stable")[::-1]),
    "rotated": ("rotated by one", lambda row, _: np.roll(np.arange(row.size), 1)),
    "rotated-half": ("rotated by half", lambda row, _: np.roll(np.arange(row.size), row.size // 2)),
    "ascending": ("by ascending logits of the first row", lambda row, _: np.argsort(row, kind="stable")),
    "shuffled": ("shuffled", lambda row, seed: np.random.default_rng(seed).permutation(row.size)),
}
"""Orders of columns with words for each, from the first row and a seed."""
_SIDES: Mapping[str, Callable[[int], NDArray[np.int64]]] = {
    "leading": lambda columns: np.arange(columns - _PADDED, columns),
    "trailing": lambda _: np.arange(_PADDED),
    "interleaved": lambda columns: np.linspace(0, columns - 1, _PADDED).astype(np.int64),
}
"""Places of padding, with the ordinary columns among all columns."""


class RelatedRows(NamedTuple):
    """Two matrices whose exact answers agree in some of their columns: all of them in order, where it does not say which."""

    plain: Bits
    changed: Bits
    words: str
    of_plain: Places = ...
    of_changed: Places = ...


def _relation(
    name: str,
    shows: str,
    trials: Callable[[Setting], Iterable[tuple[str, Any]]],
    change: Callable[[Setting, Any], RelatedRows],
) -> TrialTable:
    """Returns a probe of changed rows. The plain rows' values are not judged: cases do that."""

    def compared(subject: Subject, asked: Any) -> Iterator[Outcome]:
        plain, changed, words, *places = change(subject.setting, asked)
        yield judged_beside(call_on(subject, plain), subject, changed, words, shows, *places)

    return TrialTable(lambda setting: trials(setting) if name in setting.operation.relations else (), compared)


def _shifts(setting: Setting) -> Iterable[tuple[str, float]]:
    shifts = _SHIFTS[setting.dtype][1:3] if setting.quick else _SHIFTS[setting.dtype]
    signed = [sign * shift for shift in shifts for sign in (1.0, -1.0)] if setting.takes(_SHIFTED) else []
    return [(f"{shift:+g}", shift) for shift in signed]


def _shifted(setting: Setting, shift: float) -> RelatedRows:
    """Returns logits between -12 (or 12 spacings) and 0, and the same plus a constant, exactly.

    They are multiples of the format's spacing at the constant. The shifted ones lie between the shift and 0, where the spacing is nowhere
    larger than at the shift.
    """
    fmt = setting.fmt
    spacing = 2.0 ** (int(np.frexp(shift)[1]) - fmt.precision)
    base = spacing * float(np.rint(shift / spacing))
    steps = 12 if spacing >= 1.0 else int(12 / spacing)
    constant = base if base > 0 else base + spacing * steps
    generator = np.random.default_rng([setting.seed, steps])
    drawn = generator.integers(0, steps + 1, (64 if setting.on_gpu else 2, _SHIFTED))
    plain: Values = -spacing * drawn.astype(np.float64)
    return RelatedRows(encode(plain, fmt), encode(constant + plain, fmt), f"with {constant:+g} added to every logit")


def _orders(setting: Setting) -> Iterable[tuple[str, str]]:
    return [(name, name) for name in [*ORDERS][: 2 if setting.quick else None]] if setting.takes(_PERMUTED) else []


def _permuted(setting: Setting, name: str) -> RelatedRows:
    columns = _PERMUTED_ON_GPU if setting.on_gpu and setting.takes(_PERMUTED_ON_GPU) else _PERMUTED
    bits = ordinary_rows(64 if setting.on_gpu else 2, columns, setting.fmt, setting.seed)
    words, order_of = ORDERS[name]
    order = order_of(decode(bits, setting.fmt)[0], setting.seed)
    return RelatedRows(bits, bits[:, order], f"columns {words}", of_plain=order)


def _sides(setting: Setting) -> Iterable[tuple[str, tuple[str, int]]]:
    grown = (_GROWN_ON_GPU if setting.on_gpu else _GROWN)[: 2 if setting.quick else None]
    return [(f"{side}-{n}", (side, n)) for n in grown if setting.takes(n) for side in _SIDES]


def _padded(setting: Setting, asked: tuple[str, int]) -> RelatedRows:
    (side, columns), fmt = asked, setting.fmt
    bits, kept = ordinary_rows(8 if setting.on_gpu else 2, _PADDED, fmt, setting.seed), _SIDES[side](columns)
    padded = np.full((len(bits), columns), encode(np.array([-np.inf]), fmt)[0], dtype=fmt.storage)
    padded[:, kept] = bits
    words = f"{_PADDED} columns with {columns - _PADDED} {side} columns of -inf"
    return RelatedRows(bits, padded, words, of_changed=kept)


def _batches(setting: Setting) -> Iterable[tuple[str, int]]:
    chosen = [n for n in (_OF_BATCHES_ON_GPU if setting.on_gpu else _OF_BATCHES) if setting.takes(n)]
    return [(f"columns-{n}", n) for n in chosen[: 1 if setting.quick else None]]


def _parts_of_a_batch(subject: Subject, columns: int) -> Iterator[Outcome | None]:
    """Compares a row alone, first, last and in batches of other sizes."""
    setting, kind = subject.setting, FindingKind.ROW_DEPENDENCE
    rows = _BATCH if setting.on_gpu else _BATCH_INTERPRETED
    bits = ordinary_rows(rows, columns, setting.fmt, setting.seed)
    subject = with_packed_gradients(subject, rows, columns)
    whole, half, named = call_on(subject, bits), rows // 2, subject.variant.named
    parts = {
        "the first row alone of": slice(1),
        "the last row alone of": slice(rows - 1, rows),
        f"the first {half} rows of": slice(half),
        f"the last {rows - half} rows of": slice(half, rows),
        "the second and third row of": slice(1, 3),
    }
    for words, part in parts.items():
        variant = subject.variant if named is None else subject.variant.of(named.of_rows(part))
        expected = whole if whole.output is None else replace(whole, output=whole.output[part])
        found = Repeated(partial(call_on, replace(subject, variant=variant), bits[part]))
        message = f"{words} a batch of {rows} rows give other bits than within it, of {columns} columns"
        one = Repeated(found.make, expected)
        ended = unlike(one, found, kind, message, setting.fmt, inputs=bits[part], varies=True)
        if ended is None or kind not in {violation.kind for violation in ended.violations}:
            yield ended
        else:
            promised = ended.violations if setting.declaration.batch_invariant else ()
            yield Outcome(violations=promised, properties={"batch_invariant": False})
    yield Outcome(properties={"batch_invariant": True})


_INTERPRETED = ((5, 129), (3, 8))
_BACKWARD = (129, 1100, 8200)
"""Columns of the output gradients that hold NaN and infinities: the first half of a row, which is hidden, is more than a tile."""
_ON_DEVICE = ((2, 129), (3, 513), (5, 1025), (8, 127), (65, 33), (300, 5), (1200, 64), (3000, 257), (2, 32768))
"""Rows of one tile and of several, and more rows than a grid that fills the device has programs."""
_INF = float("inf")


def _with_neighbours(setting: Setting) -> Iterator[tuple[str, Any]]:
    """One trial per shape. Each shape has at least two rows, so that there is a neighbour."""
    for rows, columns in _ON_DEVICE[: 3 if setting.quick else None] if setting.on_gpu else _INTERPRETED:
        if setting.takes(columns) and not (setting.has_row_calls and rows > setting.fewer(rows, columns)):
            yield f"{rows}x{columns}", partial(_with_poisoned_rows, rows=rows, columns=columns)
    for columns in _BACKWARD[: 2 if setting.quick else None] if takes_gradients(setting.operation) else ():
        if setting.takes(columns):
            yield f"output-gradients/{columns}", partial(_with_special_gradients, columns=columns)


def _with_poisoned_rows(subject: Subject, rows: int, columns: int) -> Iterator[Outcome | None]:
    """Poisons every second row, first the even rows and then the odd ones, and compares the rows between them.

    Under the interpreter each poison takes one half only.
    """
    fmt, half = subject.setting.fmt, columns // 2
    bits = ordinary_rows(rows, columns, fmt, subject.setting.seed)
    subject = with_packed_gradients(subject, rows, columns)
    plain = Repeated(partial(call_on, subject, bits))
    poisons = {
        "NaN": (float("nan"), slice(None)),
        "+inf": (_INF, slice(None)),
        "the largest finite value": (fmt.max, slice(None)),
        "-inf": (-_INF, slice(None)),
        "what is padded on the right by -inf": (-_INF, slice(half, None)),
        "what is padded on the left by -inf": (-_INF, slice(half)),
    }
    for number, (name, (poison, where)) in enumerate(poisons.items()):
        message = f"rows change when every other row is replaced by rows of {name}"
        for parity in (0, 1) if subject.setting.on_gpu else ((number // 2 + number) % 2,):
            changed, kept = bits.copy(), np.arange(rows)[:, None] % 2 != parity
            changed[parity::2, where] = encode(np.array([poison]), fmt)[0]
            other = Repeated(partial(call_on, subject, changed))
            yield unlike(plain, other, FindingKind.ROW_DEPENDENCE, message, fmt, kept=kept, inputs=bits)


def _with_special_gradients(subject: Subject, columns: int) -> Iterator[Outcome | None]:
    """Puts NaN into the second row's output gradient and an infinity into the fourth one's, where y is 0 and elsewhere."""
    fmt, half = subject.setting.fmt, columns // 2
    bits = ordinary_rows(5, columns, fmt, subject.setting.seed)
    bits[1::2, :half] = encode(np.array([-_INF]), fmt)[0]
    grads = decode(ordinary_rows(5, columns, fmt, subject.setting.seed + 1), fmt)
    plain = Repeated(partial(call_on, with_gradients(subject, grads), bits))
    for where, column in (("where y is 0", half // 2), ("where y is more than 0", columns - 2)):
        special = grads.copy()
        special[1, column], special[3, column] = np.nan, np.inf
        other = Repeated(partial(call_on, with_gradients(subject, special), bits))
        if other.first.output is None:
            yield stopped(other.first)
            return
        silent = np.logical_and.reduce(np.isfinite(decode(other.first.output, fmt)), axis=1)
        for row, value in ((1, "NaN"), (3, "inf")):
            if silent[row]:
                message = (
                    f"row {row}: its output gradient is {value} in column {column}, {where}, and the input's gradient is finite throughout; "
                    "expected one that is not, as a loss scaler looks for it"
                )
                yield Outcome(violations=(Violation(FindingKind.NAN_MISMATCH, message, row=row, column=column),))
        message = "rows change when the output gradients of the rows between them hold NaN or infinity"
        even = np.arange(len(bits))[:, None] % 2 == 0
        yield unlike(plain, other, FindingKind.ROW_DEPENDENCE, message, fmt, kept=even, inputs=bits)


SHIFTS = _relation("shifts", "shift_invariant", _shifts, _shifted)
PERMUTATIONS = _relation("permutations", "permutation_invariant", _orders, _permuted)
APPENDED_MASKS = _relation("appended_masks", "padding_invariant", _sides, _padded)
BATCH_INVARIANCE = TrialTable(_batches, _parts_of_a_batch)
NEIGHBOURS = TrialTable(_with_neighbours)
