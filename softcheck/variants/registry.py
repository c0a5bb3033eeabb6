"""Names of variants and how they become functions: built-in names, files, modules and entry points.

``resolve`` checks a name without importing torch or running any code of a variant; ``load`` imports it.
"""

import dataclasses
import importlib
import importlib.metadata
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from softcheck.cases.case import Case
from softcheck.errors import UsageError, near_matches
from softcheck.operations.operation import Operation, Parameter, value_in_words
from softcheck.operations.registry import DEFAULT, OPERATIONS
from softcheck.variants import _import
from softcheck.variants.adapt import Adapted, adapted
from softcheck.variants.builtin.declarations import DECLARED, WITH_MASKS
from softcheck.variants.declaration import PROMISED, Declaration, check_promises, declaration_of, with_promises
from softcheck.variants.forms import Form
from softcheck.variants.meanings import implied, of_defaults
from softcheck.variants.recognise import parameters_to_make
from softcheck.variants.recognised import Recognised, unrecognised
from softcheck.variants.recognition import Candidate, Recognition
from softcheck.variants.source import functions_of

if TYPE_CHECKING:
    import torch

BUILTIN_OF: dict[str, list[str]] = {
    operation: [
        name for name, each in DECLARED.items() if each.declaration.operation == operation and name not in WITH_MASKS
    ]
    for operation in OPERATIONS
}
"""Names of the built-in variants of each operation in the order of tables; torch's own is one of them."""

BUILTIN = BUILTIN_OF[DEFAULT]

_SHOWN = 12
"""Functions of a file that a refusal names."""

ENTRY_POINTS = "softcheck.variants"
"""Entry point group through which other packages offer variants."""


@dataclass(frozen=True, slots=True)
class Spec:
    """A variant by name, and the place of its function, as far as that is known without importing it."""

    name: str
    """Name for display: the built-in or entry point name, else the spec as it was typed."""
    kind: Literal["builtin", "file", "module", "entry_point"]
    location: str
    """A file's absolute path, or a module's dotted name."""
    function: str
    call: str = ""
    """The call that makes a variant of the function, such as ``f(out, x)``; empty if it is to be recognised."""
    promises: str = ""
    """Promises in place of those that the function declares, as ``with_promises`` reads them."""


@dataclass(frozen=True, slots=True, eq=False)
class LoadedVariant:
    """A variant ready to call: ``function(x: Tensor[rows, columns]) -> Tensor``."""

    name: str
    function: Callable[..., Any]
    declaration: Declaration
    fact: Recognised | None = None
    """What trials have shown of its call; None where no process of a run was told."""
    named: Operation | None = None
    """The operation with what a case names; None where no case names anything."""
    remarks: tuple[str, ...] = ()
    """Sentences on what the defaults of the function's parameters say of the operation."""

    @property
    def operation(self) -> Operation:
        """The operation that the declaration names."""
        return self.declaration.computed if self.named is None else self.named

    def on(self, case: Case, first_rows: int | None = None) -> "LoadedVariant":
        """Returns the variant whose calls get what a case names, for the case's first rows where a number is given."""
        if case.operands is None:
            return self
        return self.of(self.declaration.computed_on(case, first_rows))

    def of(self, named: Operation) -> "LoadedVariant":
        """Returns the variant whose calls get the operands that an operation names."""
        function = self.function.with_operation(named) if isinstance(self.function, Adapted) else self.function
        return dataclasses.replace(self, function=function, named=named)

    @property
    def said(self) -> str:
        """The name, with the operation and parameters where trials have shown them: a spec to which others can be added."""
        if self.fact is None or not self.fact.taken:
            return self.name
        numbers = (f"{name}={value_in_words(value)}" for name, value in self.fact.parameters.items())
        return with_declared(self.name, ",".join([f"operation={self.fact.operation}", *numbers]))

    @property
    def reduces_another(self) -> bool:
        """True if the call moves another dimension than the last to the end, over which the function then reduces."""
        return any(word in self.call for word in (".mT", ".movedim("))

    @property
    def call(self) -> str:
        """The call that was given or recognised; empty for the plain one."""
        return self.function.call if isinstance(self.function, Adapted) else ""


def known_names() -> list[str]:
    """Built-in names in table order, then the names that entry points offer."""
    return [*DECLARED, *(name for name in sorted(_entry_points()) if name not in DECLARED)]


def descriptions() -> dict[str, str]:
    """Returns a line for each known name: description and dtypes, or the place of another package's function. Runs no code of a variant."""
    ours = {name: each.declaration for name, each in DECLARED.items()}
    described = {name: f"{each.description} [{', '.join(each.dtypes)}]" for name, each in ours.items()}
    return {name: described.get(name) or f"offered by {_entry_points()[name]}" for name in known_names()}


def resolve(spec: str) -> Spec:
    """Locates a variant by a known name, ``path/to/file.py:function`` or ``package.module:function``.

    A call may stand in place of the function's name, as in ``file.py:function(x, dim=-1)`` (see ``softcheck.variants.forms``
    for the names in it), and promises behind it, as in ``file.py:function@layouts=contiguous``. Raises UsageError for an unknown name (with near matches), a missing file or module, a missing
    function name, or a call that is none.
    """
    if declared := _DECLARED.fullmatch(spec):
        bare, promises = declared.groups()
        check_promises(promises)
        found = resolve(bare)
        return dataclasses.replace(found, name=f"{found.name}@{promises}", promises=promises)
    if spec in DECLARED:
        module = f"softcheck.variants.builtin.{DECLARED[spec].module}"
        return Spec(spec, "builtin", module, DEFAULT if spec == "torch" else spec)
    named, arguments = split_call(spec)
    if arguments:
        call = Form(f"f{arguments}").text
        return dataclasses.replace(resolve(named), name=f"{named}{call[1:]}", call=call)
    location, _, function = spec.rpartition(":")
    if location.endswith(".py:"):
        raise UsageError(f"variant {spec!r} has two colons; write one: {location}{function or 'FUNCTION'}")
    if spec.endswith(".py") or (not location and "/" in spec):
        names = [*functions_of(Path(spec))]
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        has = f"; it has {', '.join(names[:_SHOWN])}{more}" if names else ""
        raise UsageError(f"variant {spec!r} names no function; write {spec}:FUNCTION{has}")
    if not location:
        return _resolve_entry_point(spec)
    if not all(part.isidentifier() for part in function.split(".")):
        raise UsageError(f"variant {spec!r}: {function!r} is no function name; write {location}:FUNCTION")
    if location.endswith(".py") or "/" in location:
        return Spec(spec, "file", _file_of(spec, location), function)
    top = location.partition(".")[0]
    with _import.working_folder_on_path():
        # Only the outermost package is looked for: finding a submodule would import its parents.
        is_found = top.isidentifier() and importlib.util.find_spec(top) is not None
    if not is_found:
        raise UsageError(
            f"variant {spec!r}: no module named {top!r} can be imported; expected FILE.py:FUNCTION, "
            f"PACKAGE.MODULE:FUNCTION or a known name. {near_matches(top, known_names())}"
        )
    return Spec(spec, "module", location, function)


@dataclass(frozen=True, slots=True)
class Imported:
    """A variant's object as its module has it, which nothing has been called on yet."""

    where: Spec
    found: Any
    declaration: Declaration
    """The promises that it declares, or that stand in their place."""

    @property
    def is_adapted(self) -> bool:
        """True if its call may be another than the plain one."""
        declared = self.declaration
        return self.where.kind != "builtin" or bool(declared.call) or not declared.computed.answers_elements

    @property
    def promised(self) -> Declaration:
        """The declaration with the parameters that the likeliest call implies."""
        try:
            return self.candidate(self.declaration).declaration if self.is_adapted else self.declaration
        except UsageError:
            return self.declaration

    def candidate(self, declaration: Declaration) -> Candidate:
        """Returns the callable of one matrix that it is under a declaration; raises UsageError, with the next step, if no call is known."""
        call = self.where.call or declaration.call
        made = adapted(self.found, self._named, call, declaration.computed)
        remarks: tuple[str, ...] = ()
        if self.where.kind != "builtin":
            left_out = [*parameters_to_make(self.found), *made.left_out]
            values, remarks = of_defaults(left_out, declaration.operation, declaration.parameters)
            if values:
                declaration = _with_parameters(declaration, values)
                made = adapted(self.found, self._named, call, declaration.computed)
        if more := implied(made.names, declaration.computed, declaration.parameters):
            declaration = _with_parameters(declaration, more)
            made = adapted(self.found, self._named, call, declaration.computed)
        return Candidate(made, declaration, remarks)

    @property
    def _named(self) -> str:
        """The spec without a call and promises."""
        return split_call(self.where.name)[0].partition("@")[0]

    def recognition(self, device: "torch.device", dtypes: Sequence[str] = ()) -> Recognition | None:
        """Returns the trials of its calls on a device, in the first of these dtypes in which it answers; None if it has the plain call alone."""
        if not self.is_adapted:
            return None
        is_declared = self.where.kind == "builtin" or "operation" in getattr(self.found, PROMISED, ())
        return Recognition(
            candidate=self.candidate,
            declaration=self.declaration,
            name=self._named.rpartition(":")[2],
            is_said=is_declared or bool(re.search(r"(^|,)\s*operation\s*=", self.where.promises)),
            is_declared=is_declared,
            device=device,
            dtypes=dtypes,
        )

    def called(self, fact: Recognised, device: "torch.device") -> LoadedVariant:
        """Returns the variant with the call and the operation that trials have shown."""
        if not self.is_adapted:
            return LoadedVariant(self.where.name, self.found, self.declaration, fact)
        declared = msgspec.structs.replace(self.declaration, operation=fact.operation, parameters=fact.parameters)
        made = self.candidate(declared)
        function = made.function.told(fact, device)
        remarks = fact.remarks or made.remarks
        return LoadedVariant(self.where.name, function, made.declaration, fact, remarks=remarks)


def imported(spec: str) -> Imported:
    """Imports a variant's function and reads its declaration; raises UsageError if the module fails to import or has no such function."""
    from softcheck.toolchain import interpreter, stand_in_device

    where = resolve(spec)
    stand_in_device.install()
    # Before the import, since a module may launch its kernels while it is imported, and after it, since it may switch the
    # interpreter on.
    if interpreter.is_on():
        interpreter.correct()
    module = _import.from_file(Path(where.location)) if where.kind == "file" else _import.by_name(where.location)
    found = _import.function_of(module, where.function, where.name)
    if interpreter.is_on():
        interpreter.correct()
    return Imported(where, found, with_promises(declaration_of(found), where.promises))


def load(
    spec: str, fact: Recognised | None = None, device: "torch.device | None" = None, *, as_said: bool = False
) -> LoadedVariant:
    """Imports a variant, with what trials have shown of its call (``fact``), or else makes these trials on a device now.

    ``as_said`` looks for no other operation than the one that the spec says. The device is by default the one on which kernels run: a GPU, or the CPU without one or under Triton's interpreter. Raises
    UsageError as ``imported`` does, and if no call of the function is known.
    """
    import torch

    if device is None:
        on_gpu = torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1"
        device = torch.device("cuda" if on_gpu else "cpu")
    found = imported(spec)
    if fact is None:
        trials = found.recognition(device)
        fact = unrecognised(found.declaration) if trials is None else trials.begin() or trials.found(as_said=as_said)
    return found.called(fact, device)


def _with_parameters(declaration: Declaration, more: Mapping[str, Parameter]) -> Declaration:
    return msgspec.structs.replace(declaration, parameters={**declaration.parameters, **more})


def split_call(spec: str) -> tuple[str, str]:
    """Splits a spec into what names a function and how it is called: ``("a.py:f", "(x, dim=-1)")``."""
    colon = spec.find(":")
    begins = [at for at in (spec.find(mark, colon + 1) for mark in "([") if colon >= 0 and at >= 0]
    return (spec[: min(begins)], spec[min(begins) :]) if begins else (spec, "")


_DECLARED = re.compile(r"(.+?)@(\w+=.*)")
"""A spec with promises behind it."""


def with_declared(spec: str, promises: str) -> str:
    """Names a variant together with promises. Raises UsageError for promises that are none."""
    check_promises(promises)
    return f"{spec}{',' if _DECLARED.fullmatch(spec) else '@'}{promises.replace(' ', '')}"


def with_call(spec: str, call: str) -> str:
    """Names a function together with a call of it, ``f(out, x)``. Raises UsageError for a call that is none of f."""
    text = Form(call).text
    if declared := _DECLARED.fullmatch(spec):
        return f"{with_call(declared[1], call)}@{declared[2]}"
    if split_call(spec)[1]:
        raise UsageError(f"variant {spec!r} says how it is called already; leave --call {call!r} out")
    if spec in DECLARED:
        raise UsageError(f"variant {spec!r} is built-in and is called as it is; leave --call {call!r} out")
    if text[:2] not in ("f(", "f["):
        raise UsageError(f"the call {call!r} does not begin with f; write it as f(x) or f(x)[0]")
    return f"{spec}{text[1:]}"


def load_anew(variant: LoadedVariant, device: "torch.device") -> LoadedVariant:
    """Imports a variant's module, and those beside it, once more: a copy that nothing has been called on. Raises UsageError as ``load``."""
    where = resolve(variant.name)
    file = where.location if where.kind == "file" else getattr(sys.modules.get(where.location), "__file__", None)
    if file is None:
        raise UsageError(f"variant {variant.name!r} comes from no file; only a file can be imported once more")
    with _import.anew(Path(file)):
        # A trial would be a call.
        return load(variant.name, variant.fact or unrecognised(variant.declaration), device)


def _file_of(spec: str, location: str) -> str:
    try:
        path = Path(location).expanduser()
    except RuntimeError as error:
        raise UsageError(f"variant {spec!r}: {location} can't be found: {error} Write the whole path") from None
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        beside = sorted(str(p) for p in path.parent.glob("*.py")) if path.parent.is_dir() else []
        hint = near_matches(location, beside) if beside else f"the folder {path.parent} holds no Python file"
        raise UsageError(f"variant {spec!r}: the file {location} {what}; {hint}")
    if path.suffix != ".py":
        raise UsageError(f"variant {spec!r}: {location} is no Python file; expected a name that ends in .py")
    return str(path.resolve())


def _resolve_entry_point(name: str) -> Spec:
    points = _entry_points()
    if name not in points:
        raise UsageError(
            f"unknown variant {name!r}; {near_matches(name, known_names())} "
            "A kernel of your own is given as FILE.py:FUNCTION or PACKAGE.MODULE:FUNCTION"
        )
    location, _, function = points[name].partition(":")
    return Spec(name, "entry_point", location.strip(), function.strip())


def _entry_points() -> dict[str, str]:
    """Value by name of every entry point in the group."""
    return {point.name: point.value for point in importlib.metadata.entry_points(group=ENTRY_POINTS)}
