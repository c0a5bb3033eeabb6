"""``softcheck.check``: one function judged from a script or a notebook, in worker processes as the command does."""

import hashlib
import html
import inspect
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from softcheck.errors import UsageError
from softcheck.variants._import import is_importing

if TYPE_CHECKING:
    from softcheck.report.model import Cause, Finding, Report


class CheckResult:
    """The report of ``softcheck.check``. Printed, it is the command's summary."""

    def __init__(self, report: "Report") -> None:
        """Takes the report; ``report`` holds it."""
        self.report = report

    @property
    def ok(self) -> bool:
        """True if something was run and no promise was broken."""
        from softcheck.report.build import exit_code

        return exit_code(self.report) == 0

    @property
    def findings(self) -> "tuple[Finding, ...]":
        """The broken promises that no declared defect explains."""
        return tuple(f for row in self.report.variants for f in row.findings if f.known is None)

    @property
    def causes(self) -> "tuple[Cause, ...]":
        """Common causes of the findings, in each dtype writes out of bounds first, then the cause that explains most."""
        return tuple(cause for row in self.report.variants for cause in row.causes)

    def __str__(self) -> str:
        from softcheck.report.table import render_summary

        return render_summary(self.report)

    def __repr__(self) -> str:
        verdicts = ", ".join(f"{row.dtype} {row.verdict}" for row in self.report.variants)
        return f"<softcheck {self.report.variants[0].name}: {verdicts}; {len(self.findings)} findings>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def check(
    function: Any,
    dtype: Any = None,
    *,
    quick: bool = False,
    call: str | None = None,
    declare: str | None = None,
    backward: bool | None = None,
    cases: Sequence[str] = (),
    device: Literal["auto", "cuda", "interpreter"] = "auto",
) -> CheckResult:
    """Judges a function as ``softcheck report`` does and returns the report.

    ``function`` is a function, class or module, or a variant's name. ``dtype`` is one name, several or
    torch's own, and all dtypes if it is left out. ``quick`` keeps probes to their telling trials. ``call``,
    ``declare`` and ``backward`` are the options of the same names. ``cases`` are globs over case ids; with them no probes run.

    The function runs in worker processes, which import it from its file. One that is defined in a notebook's cell or inside
    another function is sent as its source, with the source of all that it refers to. Raises UsageError for one that can't
    be sent, such as one that refers to a tensor made elsewhere, and NothingRunError if the device is not there.
    """
    from oracles.formats import FORMATS
    from softcheck.cases.corpus import default_corpora, load, select
    from softcheck.cases.dtypes import known_dtype
    from softcheck.probes.registry import PROBES
    from softcheck.report.build import build
    from softcheck.report.reproduce import command
    from softcheck.run.check import check as run_checks
    from softcheck.run.model import RunOptions
    from softcheck.variants.registry import resolve, with_call, with_declared

    spec = function if isinstance(function, str) else spec_of(function)
    if call is not None:
        spec = with_call(spec, call)
    if declare is not None:
        spec = with_declared(spec, declare)
    if backward is not None:
        spec = with_declared(spec, f"backward={backward}")
    several = dtype if isinstance(dtype, list | tuple) else [dtype]
    dtypes = tuple(FORMATS) if dtype is None else tuple(map(known_dtype, several))
    name = resolve(spec).name
    options = RunOptions(
        variants=(name,),
        dtypes=dtypes,
        cases=tuple(select(load(default_corpora()), dtypes=dtypes, globs=cases)),
        whole_corpus=not cases,
        probes=() if cases else tuple(PROBES),
        effort="quick" if quick else "normal",
        device=device,
        speed=False,
    )
    asked = () if dtype is None else dtypes
    again = command("report", name, dtype=asked, case=tuple(cases), quick=quick, device=device)
    return CheckResult(build(run_checks(options), command=shlex.split(again)))


def spec_of(function: Any) -> str:
    """The name by which a worker process imports an object, written to a file of softcheck's own if it must be; UsageError if it can't be."""
    from softcheck.variants.module_text import defines

    if is_importing():
        raise UsageError(
            "softcheck.check was called while its own file was imported; put the call below if __name__ == '__main__'"
        )
    owner = sys.modules.get(getattr(function, "__module__", None) or type(function).__module__)
    # An adapted function bears the module of the function behind it.
    for module in (owner, sys.modules.get("__main__"), *list(sys.modules.values())):
        name = _name_in(module, function)
        if name is not None:
            break
    file = getattr(module, "__file__", None)
    is_main = getattr(module, "__name__", "") == "__main__"
    if name is None or file is None or not Path(file).is_file() or (is_main and not defines(name.partition(".")[0])):
        return _written(function, name)
    is_packaged = getattr(module, "__package__", None) and not is_main
    return f"{module.__name__}:{name}" if module is not None and is_packaged else f"{file}:{name}"


def _written(function: Any, name: str | None) -> str:
    """Writes an object's source, and that of what it refers to, to a file named by its content; returns its name there."""
    from softcheck.cli.resuming import new_file
    from softcheck.variants.module_text import module_text

    called = (name or str(getattr(function, "__name__", "function"))).replace("<lambda>", "function")
    try:
        text = module_text(function, called)
    except UsageError as error:
        raise UsageError(
            f"{called} can't be sent to a worker process: {error}. Save its code in a file (in a notebook: %%writefile my_kernels.py "
            f"at the head of the cell) and check 'my_kernels.py:{called}'"
        ) from None
    path = new_file(f"softcheck-sent-{hashlib.sha256(text.encode()).hexdigest()[:12]}.py")
    path.write_text(text, encoding="utf-8")
    return f"{path}:{called}"


def _name_in(module: Any, function: Any) -> str | None:
    """The name under which a module holds an object; None if it does not."""
    qualified = str(getattr(function, "__qualname__", ""))
    found = module
    for part in qualified.split("."):
        found = inspect.getattr_static(found, part, None)
    if qualified and found is function:
        return qualified
    return next((name for name, value in list(getattr(module, "__dict__", {}).items()) if value is function), None)
