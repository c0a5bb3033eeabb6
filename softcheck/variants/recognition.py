"""Finds how a function is called and what it computes, by trials on random numbers before a run. Imports torch when it is needed."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from softcheck.calling import activity, launches
from softcheck.errors import NotCalledError, UninterpretableError, UsageError
from softcheck.operations.causal import ALIGNMENTS, BOTTOM_RIGHT, TOP_LEFT
from softcheck.operations.operation import Parameter, value_in_words, without_layout
from softcheck.operations.registry import OPERATIONS, named_in
from softcheck.operations.registry import operation as operation_of
from softcheck.variants.adapt import Adapted
from softcheck.variants.declaration import Declaration
from softcheck.variants.forms import OPERANDS, PLAIN, names_in, operands_in
from softcheck.variants.recognise import Guess
from softcheck.variants.recognised import NEGATED, OVER_OTHERS, OVER_OTHERS_OF_ROWS, Recognised, unrecognised
from softcheck.variants.trial import SMALL, Tried, tried

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


class Recognition:
    """The trials of one function.

    ``begin`` makes the likeliest call alone, which most often is the right one, so that whoever watches knows which call
    ended the process. ``found`` makes the others.
    """

    def __init__(
        self,
        candidate: Callable[[Declaration], Candidate],
        declaration: Declaration,
        name: str,
        *,
        is_said: bool,
        is_declared: bool = False,
        device: "torch.device",
        dtypes: Sequence[str] = (),
    ) -> None:
        """Takes the declaration by which the function is judged unless trials show another operation.

        ``candidate`` raises UsageError, with the next step, where a function has no call. ``name`` is the function's.
        ``is_said`` is True if somebody said the operation, which is then obeyed. ``is_declared`` is True if its own file declares it, so
        that a mask or a sign that it does not declare is a fault. ``dtypes`` are those that it is judged in,
        all that it declares by default.
        """
        self._candidate = candidate
        self._declaration = declaration
        self._name = name
        self._is_said = is_said
        self._is_declared = is_declared
        self._device = device
        self._dtypes = sorted(dtypes or declaration.dtypes, key=_FINEST_FIRST.index)

    def begin(self) -> Recognised | None:
        """Returns the likeliest call if it is right on the trial, else None."""
        try:
            likeliest = self._candidate(self._declaration)
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
        answer: Tried | None = None
        others: tuple[str, ...] = ()
        dtype = self._dtypes[0]
        try:
            judged = self._candidate(self._declaration)
            for dtype in self._dtypes:
                answer, others = self._best_call(judged.function, dtype)
                if answer is not None:
                    break
        except UsageError as error:
            refusal = error
        except UninterpretableError:
            # The cases say what this machine can't do.
            return unrecognised(self._declaration)
        if judged is not None and answer is not None and answer.is_right:
            return _fact(judged, answer, dtype)
        other = None if as_said else self._other_operation()
        if other is not None and other.taken:
            return other
        computes = "" if other is None else other.computes
        if judged is not None and answer is not None:
            return msgspec.structs.replace(_fact(judged, answer, dtype), others=others, computes=computes)
        if judged is None or not _may_be_its_own(judged.function):
            step = f"; its answers are those of another operation: add {computes}" if computes else ""
            raise UsageError(f"{refusal if judged is None else judged.function.refusal()}{step}")
        return msgspec.structs.replace(unrecognised(self._declaration), computes=computes)

    def _other_operation(self) -> Recognised | None:
        """The operation, or the parameters, that explain every element of the answers; taken where nobody says otherwise.

        If nothing explains them, the operation that the function's name says, unless somebody said one.
        """
        for declaration, options in _others(self._declaration):
            try:
                candidate = self._candidate(declaration)
            except UsageError:
                continue
            computed = candidate.declaration.computed
            needed = {operand.name for operand in computed.operands} - {"x"}
            if not needed <= {*map(without_layout, candidate.function.names)}:
                continue
            for dtype in self._dtypes:
                answer, answers = self._right_call(candidate.function, dtype, with_others=not options.count("="))
                if answer is not None:
                    is_open = declaration.operation == self._declaration.operation
                    is_open &= any(name in options for name in _OF_A_SHAPE)
                    if self._is_declared or (self._is_said and not is_open):
                        return msgspec.structs.replace(unrecognised(self._declaration), computes=options)
                    found = _fact(candidate, answer, dtype)
                    aligned = self._aligned(declaration, dtype) if TOP_LEFT in options else {}
                    parameters = {**found.parameters, **aligned}
                    return msgspec.structs.replace(found, parameters=parameters, taken="its answers")
                if answers:
                    break
        return None if self._is_said else self._by_name()

    def _aligned(self, declaration: Declaration, dtype: str) -> dict[str, Parameter]:
        """The alignment of a causal mask, which fewer queries than keys tell; nothing where the function takes as many alone."""
        right = []
        for alignment in ALIGNMENTS:
            more: dict[str, Parameter] = {"causal": alignment, "queries": _FEW_QUERIES}
            try:
                candidate = self._candidate(_declared_as(declaration, declaration.operation, more))
                answer, _ = self._right_call(candidate.function, dtype, with_others=False)
            except UsageError:
                continue
            right += [alignment] if answer is not None else []
        return {"causal": right[0]} if len(right) == 1 else {}

    def _by_name(self) -> Recognised | None:
        named = named_in(self._name)
        if named is None or named == self._declaration.operation:
            return None
        try:
            candidate = self._candidate(_declared_as(self._declaration, named, {}))
            for dtype in self._dtypes:
                answer, others = self._best_call(candidate.function, dtype)
                if answer is not None:
                    return msgspec.structs.replace(_fact(candidate, answer, dtype), others=others, taken="its name")
        except (UsageError, UninterpretableError):
            pass
        return None

    def _attempt(self, function: Adapted, text: str, dtype: str) -> Tried:
        import torch

        from softcheck.calling.call import synchronize

        function.move_to(self._device)
        form, on = function.form_of(text), (self._device, getattr(torch, dtype))
        with launches.forgotten():
            try:
                with activity.calling():
                    found = tried(function.own, form, function.operation, on)
            except Exception:
                if all(text != guess.text for guess in function.ways):
                    raise
                # It may refuse so many elements, and is not called otherwise for that.
                with activity.calling():
                    found = tried(function.own, form, function.operation, on, SMALL)
        synchronize(self._device)
        return found

    def _best_call(self, function: Adapted, dtype: str) -> tuple[Tried | None, tuple[str, ...]]:
        """The first right call, else the one that is right on most elements, or None where no call gives an answer.

        Of a wrong call that takes operands, those with other meanings of them come with it. A function that takes an operand,
        such as a mask, is not called without it as long as it answers with it. Raises UninterpretableError for what this machine
        can't do.
        """
        from softcheck.calling.unable import limit_behind

        answered: list[tuple[bool, float, Tried]] = []
        answers = False
        for guess in _calls(function, negates=not self._is_declared):
            if answered and _settles(_best(answered).form.names, guess):
                break
            if answers and "x1" in names_in(guess.text):
                continue
            try:
                found = self._attempt(function, guess.text, dtype)
            except Exception as error:  # noqa: BLE001 - a call that is not the function's may raise anything
                limit = limit_behind(error)
                if limit is not None and not isinstance(limit, NotCalledError):
                    raise limit from None
                continue
            if found.is_right:
                return found, ()
            answers |= found.is_something and not guess.is_last_resort
            if found.share >= 0 and (guess.sure or found.share == 1.0):
                answered.append((guess.sure, found.share, found))
        if not answered:
            return None, ()
        best = _best(answered)
        others = (found.form.text for _, _, found in answered if found is not best and found.form.names & OPERANDS)
        return best, tuple(others)

    def _right_call(self, function: Adapted, dtype: str, *, with_others: bool) -> tuple[Tried | None, bool]:
        """The first call that is right, None if none is, and True if some call gave anything.

        ``with_others`` tries other dimensions than the last one too.
        """
        answers = False
        for guess in _calls(function, negates=not self._is_declared) if with_others else function.ways:
            if answers and guess.is_last_resort:
                break
            try:
                found = self._attempt(function, guess.text, dtype)
            except Exception:  # noqa: BLE001, S112 - a function may raise anything on other operands
                continue
            if found.is_right:
                return found, True
            answers |= found.is_something
        return None, answers


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
    """True if the likeliest call may be the function's though it gave no answer: the names of all its parameters tell it.

    Beside an output alone they tell too little.
    """
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
