"""``dim=`` and ``dtype=`` as torch's own functions take them, where a function has such parameters; each answer is judged.

A report calls a function over the last dimension and in the input's type. A wrapper that takes ``dim`` moves that dimension of all its
operands to the end and back, and one that takes ``dtype`` converts the input or, wrongly, the answer.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial, wraps
from typing import Any

import msgspec
import torch

from oracles.formats import FORMATS, Bits, Format, decode, encode
from softcheck.calling.call import TORCH_DTYPES
from softcheck.calling.call import place as place_bits
from softcheck.calling.state import preserved
from softcheck.cases.case import PACKED
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.diagnose import differ_grossly
from softcheck.probes.helpers import ordinary_rows, parameters_of, prefixed
from softcheck.probes.judged import beyond, judged, judged_after, told
from softcheck.probes.outcome import NOTHING_TO_TRY, Outcome
from softcheck.variants.adapt import Adapted
from softcheck.variants.recognise import DTYPES

_OF_DIMENSION = ("dim", "axis")
_LEADING = (2, 3, 4)
"""Sizes of the dimensions beside the row, chosen so that none can be taken for another."""
_PLACES = {2: (0,), 3: (0, 1, -2), 4: (1,)}
"""Places of the row's dimension, by the number of dimensions."""
_COLUMNS, _MATRIX = 65, 2
_LARGE = {"dim/vector": ((), 66049), "dim/large": ((65,), 1030)}
"""Sizes of the other dimensions and of the row, which comes first: tensors that a wrapper may cut into parts to spare memory."""
_NOTHING = f"{NOTHING_TO_TRY}takes no dim and no dtype"
_LAST_TWO = "dim/last-two"
"""The trial of a row that lies in two dimensions, where a function has one answer for a row, as torch.logsumexp takes it."""
_AFTERWARDS = "afterwards"
"""The trial of calls without an option after one with it."""


@dataclass(frozen=True, slots=True)
class _Moved:
    """A function over one dimension of several, as a function of matrices."""

    function: Callable[..., Any]
    option: str
    leading: tuple[int, ...]
    place: int

    def __call__(self, *tensors: torch.Tensor, **named: Any) -> Any:
        """Returns the answers in the matrices' shape, or what was returned if that has another shape than it should."""
        rows, columns = next(each.shape for each in (*tensors, *named.values()) if isinstance(each, torch.Tensor))
        given = {name: self._given(each) for name, each in named.items()}
        answer = self.function(*map(self._given, tensors), **given, **{self.option: self.place})
        if not isinstance(answer, torch.Tensor):
            return answer
        due = self._given(answer.new_empty(rows, columns))
        if answer.shape == due.shape:
            return answer.movedim(self.place, -1).reshape(rows, columns)
        kept = due.narrow(self.place, 0, 1).shape
        return answer.reshape(rows, 1) if answer.shape in {torch.Size(self.leading), kept} else answer

    def ignores(self, *tensors: torch.Tensor) -> bool:
        """True if the answers are those over the last dimension of the same tensors."""
        given = [*map(self._given, tensors)]
        asked, last = (self.function(*given, **{self.option: place}) for place in (self.place, -1))
        are_tensors = isinstance(asked, torch.Tensor) and isinstance(last, torch.Tensor)
        return are_tensors and asked.shape == last.shape and torch.equal(asked, last)

    def _given(self, x: Any) -> Any:
        is_matrix = isinstance(x, torch.Tensor) and x.dim() == _MATRIX
        return x.reshape(*self.leading, x.shape[1]).movedim(-1, self.place).contiguous() if is_matrix else x


class _TorchOptions(Probe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        if not setting.takes(_COLUMNS):
            return []
        moved = [
            Trial(f"dim/{count}-{place}", (_LEADING[: count - 1], _COLUMNS, place))
            for count, places in _PLACES.items()
            for place in places
        ]
        if not setting.has_rows_alone:
            return moved if setting.has_matrices_alone else []
        moved += [Trial(label, (*sizes, 0)) for label, sizes in _LARGE.items() if setting.takes(sizes[1])]
        moved += [Trial(_LAST_TWO)] if setting.operation.answers_rows else []
        wider = next((name for name in ("float32", "float64") if _is_wider(name, setting)), None)
        return [*moved, *([] if wider is None else [Trial(f"dtype/{wider}", wider)]), Trial(_AFTERWARDS)]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        function = taking_the_input_first(own_function(subject.variant.function), subject.variant.call)
        if trial.label == _AFTERWARDS:
            return _afterwards(subject, function)
        names = ("dtype",) if isinstance(trial.parameters, str) else _OF_DIMENSION
        option = next((name for name in names if name in parameters_of(function)), None)
        if option is None:
            return Outcome(skipped=_NOTHING)
        if trial.label == _LAST_TWO:
            outcome = _over_two(subject, function, option)
        elif isinstance(trial.parameters, str):
            outcome = _in_a_wider_type(subject, function, option, FORMATS[trial.parameters])
        else:
            outcome = _over(subject, function, option, *trial.parameters)
        return outcome if outcome.skipped is not None else msgspec.structs.replace(outcome, varied=(option,))


PROBE = _TorchOptions()


def own_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the user's own function, with what decorates it, behind the call that makes a variant of it."""
    return function.__wrapped__ if isinstance(function, Adapted) else function  # type: ignore[attr-defined]


def taking_the_input_first(function: Callable[..., Any], call: str) -> Callable[..., Any]:
    """A function that is called as ``f(x)`` in place of one that takes its input by name alone; any other as it is."""
    taken = parameters_of(function).values()
    if not taken or any(each.kind is not each.KEYWORD_ONLY for each in taken):
        return function
    needed = [each.name for each in taken if each.default is each.empty and each.name not in _OF_DIMENSION]
    named = re.search(r"(\w+)=x\b", call)
    name = named[1] if named else needed[0] if len(needed) == 1 else None
    if name is None:
        return function

    @wraps(function)
    def by_name(x: torch.Tensor, **options: Any) -> Any:
        return function(**{name: x}, **options)

    return by_name


def _in_a_wider_type(subject: Subject, function: Callable[..., Any], option: str, wider: Format) -> Outcome:
    fmt = subject.setting.fmt
    bits = encode(decode(ordinary_rows(4, _COLUMNS, fmt, subject.setting.seed), fmt), wider)
    subject = replace(subject, setting=replace(subject.setting, dtype=wider.name))
    found = judged(subject, bits, partial(_narrowed, function, option, TORCH_DTYPES[fmt.name]))
    return told(found, found.violations, f"with {option}=torch.{wider.name} for {fmt.name}")


def _over(
    subject: Subject, function: Callable[..., Any], option: str, leading: tuple[int, ...], columns: int, place: int
) -> Outcome:
    """Judges answers over one dimension of several, and keeps what is wrong there alone.

    On a CPU torch computes 16-bit answers over other dimensions than the last in 16 bits, so that only other numbers count there.
    """
    setting = subject.setting
    bits = ordinary_rows(math.prod(leading), columns, setting.fmt, setting.seed)
    moved, adapted = _Moved(function, option, leading, place), subject.variant.function
    call: Callable[[torch.Tensor], Any] = moved
    if isinstance(adapted, Adapted) and not setting.has_rows_alone:
        # The call gives the operands, each of which is moved.
        call = adapted.on(moved)
    found = judged(subject, bits, call)
    words = f"with {option}={place} of {len(leading) + 1} dimensions"
    plain = cache(lambda: judged(subject, bits))
    outcome = beyond(found, plain, words, option=option)
    if not outcome.violations or found.output is None:
        return outcome
    if plain().output is not None and setting.fmt.width == 16 and not setting.on_gpu:
        numbers = (
            decode(each, setting.fmt)
            for each in (found.bits(setting.fmt), plain().bits(setting.fmt))
            if each is not None
        )
        if not differ_grossly(*numbers):
            return Outcome()
    if leading and _is_ignored(subject, bits, moved):
        words = f"{words}, where the answers are those of {option}=-1"
        return beyond(found, plain, words, option=option, answers_of="the last dimension")
    return outcome


def _over_two(subject: Subject, function: Callable[..., Any], option: str) -> Outcome:
    """Judges answers over the last two of three dimensions, and keeps what is wrong there alone."""
    setting = subject.setting
    bits = ordinary_rows(math.prod(_LEADING), _COLUMNS, setting.fmt, setting.seed)

    def of_two(x: torch.Tensor) -> Any:
        answer = function(x.view(len(x), _COLUMNS // 5, 5), **{option: (-2, -1)})
        is_for_rows = isinstance(answer, torch.Tensor) and answer.shape in {(len(x),), (len(x), 1, 1)}
        return answer.reshape(len(x), 1) if is_for_rows else answer

    found = judged(subject, bits, of_two)
    return beyond(found, lambda: judged(subject, bits), f"with {option}=(-2, -1) of 3 dimensions")


def _is_ignored(subject: Subject, bits: Bits, moved: _Moved) -> bool:
    """True if a function of one tensor gives the same answers over the dimension that is asked for and over the last one."""
    x = place_bits(bits, subject.setting.fmt, PACKED, subject.device).view
    try:
        with preserved():
            return moved.ignores(x)
    except Exception:  # noqa: BLE001 - a function may refuse any dimension
        return False


def _afterwards(subject: Subject, function: Callable[..., Any]) -> Outcome:
    """Calls with another value of each option that is a number, a flag or None, whatever that gives, and then without it."""
    given = {
        name: value for name, value in _options(function, subject.setting.dtype).items() if name not in _OF_DIMENSION
    }
    if not given:
        return Outcome(skipped=f"{NOTHING_TO_TRY}takes no option that is a number, a flag or None")
    setting = subject.setting
    before, bits = (ordinary_rows(3, _COLUMNS, setting.fmt, setting.seed + number) for number in range(2))
    if judged(subject, before).violations:
        return Outcome()
    for name, value in given.items():
        other = place_bits(before, setting.fmt, PACKED, subject.device).view
        found = judged_after(subject, bits, partial(function, other, **{name: value}))
        if found.violations or found.fatal:
            return Outcome(
                violations=prefixed(found.violations, f"after a call with {name}={value}"), fatal=found.fatal
            )
    return Outcome()


def _options(function: Callable[..., Any], dtype: str) -> dict[str, Any]:
    """Returns another value for each parameter whose default is None, a flag or a float; a dtype where the name says one."""
    named = [
        each
        for each in list(parameters_of(function).values())[1:]
        if each.kind in {each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY}
    ]
    found: dict[str, Any] = {each.name: not each.default for each in named if isinstance(each.default, bool)}
    found |= {each.name: _other_value(each.name, dtype) for each in named if each.default is None}
    return found | {each.name: 0.5 * (each.default or 1.0) for each in named if isinstance(each.default, float)}


def _other_value(parameter: str, dtype: str) -> Any:
    other = torch.float32 if dtype == "float16" else torch.float16
    return other if parameter.lower() in DTYPES.split() else 0.5


def _is_wider(dtype: str, setting: Setting) -> bool:
    return dtype in setting.declaration.dtypes and FORMATS[dtype].width > setting.fmt.width


def _narrowed(function: Callable[..., Any], option: str, dtype: torch.dtype, x: torch.Tensor) -> Any:
    """Calls a function on numbers of a narrower type, which the matrix holds, and asks for an answer of the matrix's type."""
    return function(x.to(dtype), **{option: x.dtype})
