"""The promises of a variant, in a form that travels between processes without torch."""

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeVar, get_args

import msgspec

from oracles.reference import FullyMasked
from softcheck.cases.case import Case
from softcheck.cases.dtypes import known_dtype
from softcheck.contract import FindingKind, Violation
from softcheck.errors import UsageError, near_matches
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.operation import Operation
from softcheck.operations.registry import DEFAULT, OPERATIONS, check_name, operation
from softcheck.variants.forms import Form

Backend = Literal["cuda", "interpreter"]
LayoutName = Literal["contiguous", "strided"]

Function = TypeVar("Function", bound=Callable[..., Any])

ATTRIBUTE = "__softcheck_declaration__"
PROMISED = "__softcheck_promised__"
"""The attribute with the names of the promises that a decorator holds; others have their defaults."""


class Traffic(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Elements that an algorithm moves between memory and multiprocessors; each pass counts, whatever a cache may save."""

    reads: int = 1
    """Per element of the input."""
    writes: int = 1
    row_reads: int = 0
    """Per row, beside those."""
    row_writes: int = 0

    def elements(self, rows: int, columns: int) -> int:
        """Elements moved in all; one pass each way moves 2 rows columns."""
        return rows * columns * (self.reads + self.writes) + rows * (self.row_reads + self.row_writes)


class KnownDefect(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A broken promise that is declared, with its reason.

    Where it could show and does not, a report says so in a note, and with ``--strict-declarations`` that is an error.
    """

    kinds: tuple[FindingKind, ...]
    """Findings that this defect explains; at least one of them must be found."""
    reason: str
    cases: tuple[str, ...] = ("*",)
    """Globs over case ids where the defect may show."""
    max_share: float | None = None
    """Largest error over bound (for sums: deviation over what rounding allows) that it explains; None for any."""
    dtypes: tuple[str, ...] | None = None
    backends: tuple[Backend, ...] | None = None
    always: bool = True
    """True if the defect shows on every machine. False if it depends on hardware, on a library's version or on earlier
    compilations; ``--strict-declarations`` then does not ask for it."""

    def applies(self, dtype: str, backend: Backend) -> bool:
        """True if the defect is declared for this dtype on this backend."""
        return (self.dtypes is None or dtype in self.dtypes) and (self.backends is None or backend in self.backends)

    def explains(self, violation: Violation, case_id: str) -> bool:
        """True if a broken promise on this case is the declared one: of its kinds, on its cases, and no larger."""
        if self.max_share is not None and violation.share is not None and violation.share > self.max_share:
            return False
        is_of_kinds = violation.kind in self.kinds
        if violation.refusal is not None:
            # Refusing a size is a kind of raising; a declaration of the wider kind covers it.
            is_of_kinds |= FindingKind.RAISED in self.kinds
        return is_of_kinds and self.may_show(case_id)

    def may_show(self, case_id: str) -> bool:
        """True if the defect may show on a case."""
        return any(fnmatchcase(case_id, glob) for glob in self.cases)


class Declaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The promises of one variant. The defaults hold for a function that declares nothing."""

    operation: str = DEFAULT
    """The operation that the variant computes, by its name in ``softcheck.operations.registry``."""
    parameters: dict[str, float | str] = {}
    """Numbers and words that the operation depends on, by name, such as ``{"scale": 0.125}``; those left out have their usual
    values."""
    dtypes: tuple[str, ...] = ("float16", "bfloat16", "float32")
    max_columns: dict[str, int] | int | None = None
    """Largest column count, one for all dtypes or one per dtype; None promises every count."""
    layouts: tuple[LayoutName, ...] = ("contiguous", "strided")
    dimensions: int = 2
    """Dimensions of the largest tensor that the variant takes. The last one is the row; all others together count
    rows."""
    call: str = ""
    """The call that makes a variant of the function, such as ``f(out, x)`` (``softcheck.variants.forms`` says which names it
    may hold); empty for ``f(x)``, or if it is to be recognised."""
    empty: bool = True
    """True if inputs without rows or without columns are taken."""
    max_elements: int | None = None
    """Most elements from the input's first to its last, strides counted, that are taken; None promises every number."""
    backward: bool | None = None
    """True if outputs carry right gradients; None if those that carry one carry a right one; False promises none."""
    fully_masked: FullyMasked = "nan"
    batch_invariant: bool = False
    """True if a row gives the same bits in every batch, at every place in it."""
    arithmetic: Arithmetic | None = None
    """The variant's arithmetic, checked against the compiled kernels; None leaves it to what these show."""
    traffic: Traffic | None = None
    """The bytes that the algorithm moves; None if unknown, as inside a library that chooses by width."""
    description: str = ""
    """The algorithm in one line."""
    provenance: str = ""
    """Origin of the algorithm."""
    known_defects: tuple[KnownDefect, ...] = ()

    @property
    def computed(self) -> Operation:
        """The operation that the variant computes, with the parameters that it declares.

        Loading it imports the oracles. Raises UsageError for an unknown name or a parameter that is not judged.
        """
        return operation(self.operation, self.parameters)

    def computed_on(self, case: Case, first_rows: int | None = None) -> Operation:
        """The operation with the parameters and operands that a case names, of its first rows where a number is given; raises as ``computed``."""
        if case.operands is None:
            return self.computed
        given = operation(self.operation, {**self.parameters, **case.operands.parameters})
        return given.naming(case.named(first_rows))

    def explanation(self, violation: Violation, case_id: str, dtype: str, backend: Backend) -> str | None:
        """The reason of the declared defect that accounts for a violation, or None."""
        for defect in self.known_defects:
            if defect.applies(dtype, backend) and defect.explains(violation, case_id):
                return defect.reason
        return None

    def timed_limit(self, dtype: str) -> int | None:
        """Largest column count on which it may be timed: wider rows than are judged elsewhere where a device judges what is timed."""
        return self.column_limit(dtype) if self.computed.timed_shape is None else self.promised_columns(dtype)

    def column_limit(self, dtype: str) -> int | None:
        """Largest column count promised for a dtype, or judged of the operation; None where there is no limit."""
        limits = (self.promised_columns(dtype), self.computed.most_columns)
        return min((limit for limit in limits if limit is not None), default=None)

    def promised_columns(self, dtype: str) -> int | None:
        """Largest column count promised for a dtype; None where there is no limit."""
        return self.max_columns.get(dtype) if isinstance(self.max_columns, dict) else self.max_columns


def variant(**promises: Any) -> Callable[[Function], Function]:
    """Decorator that attaches a declaration to a softmax function ``(x: Tensor[rows, columns]) -> Tensor``.

    Takes the fields of ``Declaration`` as keyword arguments; raises TypeError at once for a name or a value that is not
    one of them, so that a misspelt promise is not silently dropped.
    """
    try:
        declaration = msgspec.convert(_plain(promises), Declaration)
        _check(declaration)
    except (msgspec.ValidationError, UsageError) as error:
        raise TypeError(f"softcheck.variant: {error}; see softcheck.Declaration for the fields") from None

    def attach(function: Function) -> Function:
        setattr(function, ATTRIBUTE, declaration)
        setattr(function, PROMISED, frozenset(promises))
        return function

    return attach


_LEAST_ELEMENTS = 2**23
"""Smallest limit of elements: more than the probes' ordinary inputs hold."""


def _check(declaration: Declaration) -> None:
    check_name(declaration.operation)
    if declaration.parameters:
        operation(declaration.operation, declaration.parameters)
    if declaration.call:
        Form(declaration.call)
    if not declaration.dtypes:
        raise UsageError("dtypes is empty, expected at least one")
    if declaration.max_elements is not None and declaration.max_elements < _LEAST_ELEMENTS:
        raise UsageError(
            f"max_elements is {declaration.max_elements}, expected at least {_LEAST_ELEMENTS}, or None for no limit; a limit of "
            "the width is max_columns"
        )
    if declaration.dimensions < 2:
        raise UsageError(f"dimensions is {declaration.dimensions}, expected at least 2: rows and columns")
    lanes = (declaration.arithmetic or Arithmetic()).lanes
    if lanes < 1:
        raise UsageError(f"arithmetic.lanes is {lanes}, expected at least 1: partial sums that a row is spread over")
    for dtype in declaration.dtypes:
        limit = declaration.column_limit(dtype)
        if limit is not None and limit < 1:
            raise UsageError(f"max_columns is {limit}, expected at least 1, or None for no limit")


def with_promises(declaration: Declaration, text: str) -> Declaration:
    """A declaration with other promises, as ``layouts=contiguous,empty=False,max_elements=2**31``.

    Items of a list follow each other, as in ``dtypes=fp16,bf16``. Raises UsageError for a promise that is none.
    """
    promises: dict[str, Any] = {}
    name = ""
    for word in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = word.partition("=")
        name = key.strip() if equals else name
        item = _value(value if equals else word)
        if name in _LISTS:
            promises.setdefault(name, []).append(item)
        elif equals and name in (usual := operation(promises.get("operation", declaration.operation)).parameters):
            # The word none is a reduction, and no None.
            item = value.strip() if item is None and isinstance(usual[name], str) else item
            promises.setdefault("parameters", {**declaration.parameters})[name] = item
        elif equals:
            promises[name] = item
        else:
            raise UsageError(
                f"{word!r} in {text!r} is no promise; write NAME=VALUE, as in layouts=contiguous,max_elements=2**31"
            )
    if unknown := sorted(promises.keys() - {*Declaration.__struct_fields__}):
        of_operation = operation(promises.get("operation", declaration.operation)).parameters
        known = [*Declaration.__struct_fields__, *of_operation]
        raise UsageError(f"{unknown[0]!r} in {text!r} is no promise; {near_matches(unknown[0], known)}")
    try:
        changed = msgspec.convert({**msgspec.to_builtins(declaration), **_plain(promises)}, Declaration)
    except msgspec.ValidationError as error:
        raise UsageError(_refusal(text, error)) from None
    _check(changed)
    return changed


_NUMBER, _OR_NOT = "a whole number above 0, or none", "True or False"
_WRITTEN: dict[str, tuple[str, str]] = {
    "layouts": (" or ".join(get_args(LayoutName)), "contiguous"),
    "fully_masked": (" or ".join(get_args(FullyMasked)), "zero"),
    "max_columns": (_NUMBER, "4096"),
    "max_elements": (_NUMBER, "2**31"),
    "dimensions": ("a whole number above 0", "3"),
    "empty": (_OR_NOT, "False"),
    "batch_invariant": (_OR_NOT, "True"),
    "backward": (f"{_OR_NOT}, or none", "False"),
}
"""Values of the promises that can be written as words, with an example of each."""


def _refusal(text: str, error: msgspec.ValidationError) -> str:
    """The promise that is none of its kind, what it may be, and how that is written."""
    place = re.search(r"`\$\.(\w+)", str(error))
    name = "" if place is None else place[1]
    typed = re.search(rf"(?<!\w){name}\s*=\s*([^,]*)", text) if name else None
    if typed is None:
        return f"{text!r} is no declaration: {error}; see softcheck.Declaration for the fields"
    if name not in _WRITTEN:
        return f"{name} is {typed[1]!r}; it can only be declared in the file, as @softcheck.variant({name}=...)"
    expected, example = _WRITTEN[name]
    value = str(error).split("'")[1] if name in _LISTS and "'" in str(error) else typed[1]
    return f"{name} is {value!r}; expected {expected}; write {name}={example}"


def check_promises(text: str) -> None:
    """Raises UsageError for promises that no declaration of any operation can hold, before a variant's own is known."""
    refused: list[UsageError] = []
    for name in OPERATIONS:
        try:
            with_promises(Declaration(operation=name), text)
        except UsageError as error:
            refused.append(error)
    if len(refused) == len(OPERATIONS):
        raise refused[0]


_LISTS = ("dtypes", "layouts")
"""Promises that are lists of words."""


def _value(text: str) -> Any:
    """A number, such as 2**31 or 0.125, a truth value, or the words as they are."""
    if re.fullmatch(r"[+-]?(\d+\.\d*|\d*\.\d+|\d+(?=e))(e[+-]?\d+)?|-\d+", text.strip()):
        return float(text)
    factors = text.strip().split("**")
    if all(factor.strip().isdecimal() for factor in factors) and len(factors) <= 2:
        base, *exponent = map(int, factors)
        return base ** min(exponent[0], 64) if exponent else base
    return {"true": True, "false": False, "none": None}.get(text.strip().lower(), text.strip().strip("'\""))


def declaration_of(function: Callable[..., Any]) -> Declaration:
    """A function's declaration, or the default one."""
    declared = getattr(function, ATTRIBUTE, None)
    return declared if isinstance(declared, Declaration) else Declaration()


def _plain(promises: dict[str, Any]) -> Any:
    """The promises as plain values, and dtypes by softcheck's own names."""
    plain: dict[str, Any] = {name: msgspec.to_builtins(value, str_keys=True) for name, value in promises.items()}
    if isinstance(dtypes := plain.get("dtypes"), list | tuple):
        plain["dtypes"] = [known_dtype(name) for name in dtypes]
    if isinstance(limits := plain.get("max_columns"), dict):
        plain["max_columns"] = {known_dtype(name): limit for name, limit in limits.items()}
    return plain
