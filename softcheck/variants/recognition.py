"""Finds how a function is called and what it computes, by trials on random numbers before a run. Imports torch when it is needed."""

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from softcheck.calling import activity, launches
from softcheck.errors import NotCalledError, UninterpretableError, UsageError
from softcheck.operations.causal import ALIGNMENTS, BOTTOM_RIGHT, TOP_LEFT
from softcheck.operations.operation import Parameter, value_in_words, without_layout
from softcheck.operations.registry import OPERATIONS, named_in
from softcheck.operations.registry import operation as operation_of
from softcheck.variants.adapt import SMALL, Adapted, Tried
from softcheck.variants.declaration import Declaration
from softcheck.variants.forms import OPERANDS, PLAIN, names_in, operands_in
from softcheck.variants.recognise import Guess
from softcheck.variants.recognised import NEGATED, OVER_OTHERS, OVER_OTHERS_OF_ROWS, Recognised, unrecognised

if TYPE_CHECKING:
    import torch

_MASKS = ("torch.zeros_like(x)", "torch.zeros_like(x, dtype=torch.bool)", "torch.ones_like(x, dtype=torch.bool)")
"""Masks that mask nothing: one that is added, one of what is left out, one of what is kept."""

_TOLD: tuple[dict[str, Parameter], ...] = (
    {},
    {"base": 2.0},
    {"causal": TOP_LEFT},
    {"causal": BOTTOM_RIGHT},
    {"reduction": "mean"},
    {"reduction": "sum"},
)
"""Parameters that answers tell where nobody declares them."""
_OF_A_SHAPE = ("causal", "reduction")
"""Those of them that the operation's own name, which somebody said, leaves open."""

_FEW_QUERIES = 5.0
"""Queries of a trial that tells from which end a causal mask counts them."""

_FINEST_FIRST = ("float32", "float64", "float16", "bfloat16")


class Candidate(NamedTuple):
    """A function with the calls that may be its own under a declaration."""

    function: Adapted
    declaration: Declaration
    """The declaration with the parameters that the calls, and the function's defaults, imply."""
    remarks: tuple[str, ...] = ()
    """Sentences on what these defaults say of the operation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognition:
    """The trials of one function.

    ``begin`` makes the likeliest call alone, which most often is the right one, so that whoever watches knows which call
    ended the process. ``found`` makes the others.
    """

    candidate: Callable[[Declaration], Candidate]
    """Raises UsageError, with the next step, where a function has no call."""
    declaration: Declaration
    """That by which the function is judged unless trials show another operation."""
    name: str
    """The function's name."""
    is_said: bool
    """True if somebody said the operation, which is then obeyed."""
    is_declared: bool
    """True if the function's own file declares it, so that a mask or a sign that it does not declare is a fault."""
    device: "torch.device"
    dtypes: Sequence[str]
    """The dtypes that it is judged in."""

    @property
    def _dtypes(self) -> list[str]:
        return sorted(self.dtypes or self.declaration.dtypes, key=_FINEST_FIRST.index)

    def begin(self) -> Recognised | None:
        """Returns the likeliest call if it is right on the trial, else None."""
        try:
            likeliest = self.candidate(self.declaration)
            found = self._attempt(likeliest.function, likeliest.function.ways[0].text, self._dtypes[0])
        except Exception:  # noqa: BLE001 - whatever it raises, the call is tried again by ``found``
            return None
        return _fact(likeliest, found, self._dtypes[0]) if found.is_right else None

    def found(self, *, as_said: bool = False) -> Recognised:
        """Returns the call and the operation that the trials show; ``as_said`` looks for no other operation.

        Of calls that are all wrong it is the one that is right on most elements; where none gives an answer, the likeliest by the
        names of parameters. Raises UsageError, with the next step, for a function of which no call is known.
        """
        refusal: UsageError | None = None
        judged: Candidate | None = None
        best: Recognised | None = None
        try:
            judged = self.candidate(self.declaration)
            best, is_right = self._best_call(judged)
        except UsageError as error:
            refusal, is_right = error, False
        except UninterpretableError:
            # The cases say what this machine can't do.
            return unrecognised(self.declaration)
        if best is not None and is_right:
            return best
        other = None if as_said else self._other_operation()
        if other is not None and other.taken:
            return other
        computes = "" if other is None else other.computes
        if best is None and (judged is None or not _may_be_its_own(judged.function)):
            step = f"; its answers are those of another operation: add {computes}" if computes else ""
            raise UsageError(f"{refusal if judged is None else judged.function.refusal()}{step}")
        return msgspec.structs.replace(best or unrecognised(self.declaration), computes=computes)

    def _other_operation(self) -> Recognised | None:
        """The operation, or the parameters, that explain every element of the answers, else the one that the name says, unless somebody said one."""
        for declaration, options in _others(self.declaration):
            try:
                candidate = self.candidate(declaration)
            except UsageError:
                continue
            needed = {operand.name for operand in candidate.declaration.computed.operands} - {"x"}
            if not needed <= {*map(without_layout, candidate.function.names)}:
                continue
            found = self._right_call(candidate, with_others=not options.count("="))
            if found is None:
                continue
            is_open = declaration.operation == self.declaration.operation
            is_open &= any(name in options for name in _OF_A_SHAPE)
            if self.is_declared or (self.is_said and not is_open):
                return msgspec.structs.replace(unrecognised(self.declaration), computes=options)
            aligned = self._aligned(declaration) if TOP_LEFT in options else {}
            return msgspec.structs.replace(found, parameters={**found.parameters, **aligned}, taken="its answers")
        return None if self.is_said else self._by_name()

    def _aligned(self, declaration: Declaration) -> dict[str, Parameter]:
        """The alignment of a causal mask, which fewer queries than keys tell; nothing where the function takes as many alone."""
        right = []
        for alignment in ALIGNMENTS:
            more: dict[str, Parameter] = {"causal": alignment, "queries": _FEW_QUERIES}
            with contextlib.suppress(UsageError):
                candidate = self.candidate(_declared_as(declaration, declaration.operation, more))
                right += [alignment] if self._right_call(candidate, with_others=False) is not None else []
        return {"causal": right[0]} if len(right) == 1 else {}

    def _by_name(self) -> Recognised | None:
        named = named_in(self.name)
        if named is None or named == self.declaration.operation:
            return None
        try:
            best, _ = self._best_call(self.candidate(_declared_as(self.declaration, named, {})))
        except (UsageError, UninterpretableError):
            return None
        return best and msgspec.structs.replace(best, taken="its name")

    def _attempt(self, function: Adapted, text: str, dtype: str) -> Tried:
        import torch

        from softcheck.calling.call import synchronize

        function.move_to(self.device)
        on = self.device, getattr(torch, dtype)
        with launches.forgotten():
            try:
                with activity.calling():
                    found = function.tried(text, on)
            except Exception:
                if all(text != guess.text for guess in function.ways):
                    raise
                # It may refuse so many elements, and is not called otherwise for that.
                with activity.calling():
                    found = function.tried(text, on, SMALL)
        synchronize(self.device)
        return found

    def _best_call(self, candidate: Candidate) -> tuple[Recognised | None, bool]:
        """The first right call, else the one that is right on most elements, in the first dtype with an answer, and True if it is right.

        Of a wrong call that takes operands, those with other meanings of them come with it. A function that takes an operand,
        such as a mask, is not called without it as long as it answers with it. Raises UninterpretableError for what this machine
        can't do.
        """
        from softcheck.calling.unable import limit_behind

        for dtype in self._dtypes:
            answered: list[tuple[bool, float, Tried]] = []
            answers = False
            for guess in _calls(candidate.function, negates=not self.is_declared):
                if answered and _settles(_best(answered).form.names, guess):
                    break
                if answers and "x1" in names_in(guess.text):
                    continue
                try:
                    found = self._attempt(candidate.function, guess.text, dtype)
                except Exception as error:  # noqa: BLE001 - a call that is not the function's may raise anything
                    limit = limit_behind(error)
                    if limit is not None and not isinstance(limit, NotCalledError):
                        raise limit from None
                    continue
                if found.is_right:
                    return _fact(candidate, found, dtype), True
                answers |= found.is_something and not guess.is_last_resort
                if found.share >= 0 and (guess.sure or found.share == 1.0):
                    answered.append((guess.sure, found.share, found))
            if answered:
                best = _best(answered)
                meanings = (
                    each.form.text for _, _, each in answered if each is not best and each.form.names & OPERANDS
                )
                return msgspec.structs.replace(_fact(candidate, best, dtype), others=tuple(meanings)), False
        return None, False

    def _right_call(self, candidate: Candidate, *, with_others: bool) -> Recognised | None:
        """The first right call in the first dtype in which calls give anything, or None; ``with_others`` tries other dimensions too."""
        function = candidate.function
        for dtype in self._dtypes:
            answers = False
            for guess in _calls(function, negates=not self.is_declared) if with_others else function.ways:
                if answers and guess.is_last_resort:
                    break
                try:
                    found = self._attempt(function, guess.text, dtype)
                except Exception:  # noqa: BLE001, S112 - a function may raise anything on other operands
                    continue
                if found.is_right:
                    return _fact(candidate, found, dtype)
                answers |= found.is_something
            if answers:
                break
        return None


def _fact(candidate: Candidate, found: Tried, dtype: str) -> Recognised:
    return Recognised(
        operation=candidate.declaration.operation,
        parameters=candidate.declaration.parameters,
        call=found.form.without_part,
        part=found.form.part,
        beside=found.form.beside,
        remarks=candidate.remarks,
        dtype=dtype,
    )


def _calls(function: Adapted, *, negates: bool) -> Iterator[Guess]:
    """The guesses, then with a mask, over another dimension, negated, in place, and with other numbers of dimensions."""
    yield from function.ways
    if function.is_given:
        return
    for guess in function.ways:
        for mask in _MASKS if "None" in guess.text else ():
            yield Guess(guess.text.replace("None", mask), sure=False)
    operation = function.operation
    if any(guess.text == PLAIN for guess in function.ways):
        over_others = OVER_OTHERS_OF_ROWS if operation.answers_rows else OVER_OTHERS
        yield from (Guess(text, sure=False) for text in (*over_others, "f((x, out))"))
        yield Guess("f(copy)", is_last_resort=True)
    if negates and "target" in {operand.name for operand in operation.operands}:
        yield from (Guess(guess.text + NEGATED, sure=False) for guess in function.ways)
    for name in ("x4", "x3", "x5", "x1"):
        for guess in function.ways:
            if guess.sure:
                yield Guess(re.sub(r"\bx\b", name, guess.text), is_last_resort=True)


def _best(answered: Sequence[tuple[bool, float, Tried]]) -> Tried:
    """The call that is right on most elements, the likeliest of several; one that names alone do not tell comes last."""
    return max(answered, key=lambda each: each[:2])[2]


def _settles(found: frozenset[str], guess: Guess) -> bool:
    """True if a call that answers, wrongly perhaps, makes another needless: a last resort, or one without its operands."""
    return guess.is_last_resort or (bool(found & OPERANDS) and not operands_in(guess.text))


def _may_be_its_own(function: Adapted) -> bool:
    """True if the names of all parameters tell the likeliest call, though it gave no answer; beside an output alone they tell too little."""
    likeliest = function.ways[0]
    return function.is_given or (
        likeliest.sure and ("out" not in names_in(likeliest.text) or bool(operands_in(likeliest.text)))
    )


def _others(declaration: Declaration) -> Iterator[tuple[Declaration, str]]:
    """Other operations and parameters that answers tell, each with the options that say so; those that differ least come first."""
    for name in (declaration.operation, *(each for each in OPERATIONS if each != declaration.operation)):
        known = operation_of(name).parameters
        for more in _TOLD:
            is_open = more.keys() <= known.keys() - declaration.parameters.keys()
            if not is_open or (name == declaration.operation and not more):
                continue
            try:
                changed = _declared_as(declaration, name, more)
            except UsageError:
                continue
            option = [] if name == declaration.operation else [f"--operation {name}"]
            option += [f"--declare {key}={value_in_words(value)}" for key, value in more.items()]
            yield changed, " ".join(option)


def _declared_as(declaration: Declaration, operation: str, more: dict[str, Parameter]) -> Declaration:
    """The declaration of another operation. Raises UsageError where it has not all parameters that are declared."""
    changed = msgspec.structs.replace(declaration, operation=operation, parameters={**declaration.parameters, **more})
    changed.computed  # noqa: B018 - which refuses them
    return changed
