"""pytest plugin: the ``accuracy`` marker and fixture. Loads nothing heavy until a test asks for the fixture.

A test suite uses it so::

    @pytest.mark.accuracy(variants=["my_kernels.py:softmax"], dtypes=["float16"])
    def test_softmax(accuracy):
        accuracy.check()

which becomes one test per variant, dtype and case family.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from softcheck.cases.case import Case
    from softcheck.run.session import Result, Session

_MARKER = (
    "accuracy(variants, dtypes, families, corpora): judge softmax variants on the corpora; every argument is a list and "
    "may be left out (then: the built-in variants, every dtype, family and corpus). Needs the `accuracy` fixture"
)
_ARGUMENTS = ("variants", "dtypes", "families", "corpora")
_DEFAULT_DTYPES = ("float16", "bfloat16", "float32", "float64")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options that override the marker's arguments."""
    group = parser.getgroup("softcheck", "softcheck: accuracy of softmax kernels")
    group.addoption("--softcheck-variant", action="append", default=[], metavar="NAME|FILE:FUNCTION")
    group.addoption("--softcheck-dtype", action="append", default=[], metavar="DTYPE")
    group.addoption("--softcheck-family", action="append", default=[], metavar="FAMILY")
    group.addoption("--softcheck-case", action="append", default=[], metavar="GLOB")
    group.addoption(
        "--softcheck-device",
        choices=("auto", "cuda", "interpreter"),
        default="auto",
        help="where the kernels run; auto: the GPU where there is one",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker with its arguments."""
    config.addinivalue_line("markers", _MARKER)


def pytest_report_header(config: pytest.Config) -> str:
    """Version, device and what the run is narrowed to."""
    from softcheck import __version__

    narrowed = [
        f"{name} {', '.join(config.getoption(f'--softcheck-{name}'))}"
        for name in ("variant", "dtype", "family", "case")
        if config.getoption(f"--softcheck-{name}")
    ]
    return f"softcheck {__version__}: device {config.getoption('--softcheck-device')}" + "".join(
        f"; {part}" for part in narrowed
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test per variant, dtype and family for a test that asks for the ``accuracy`` fixture."""
    if "accuracy" not in metafunc.fixturenames:
        return
    from softcheck.cases.corpus import default_corpora, load
    from softcheck.cases.selection import select
    from softcheck.errors import UsageError
    from softcheck.variants.registry import BUILTIN, resolve

    marker = metafunc.definition.get_closest_marker("accuracy")
    asked: dict[str, Any] = dict(marker.kwargs) if marker else {}
    unknown = set(asked) - set(_ARGUMENTS)
    if unknown or (marker and marker.args):
        raise pytest.UsageError(f"accuracy marker: unknown argument {sorted(unknown)}; expected keywords {_ARGUMENTS}")
    option = metafunc.config.getoption
    try:
        specs = option("--softcheck-variant") or asked.get("variants") or list(BUILTIN)
        specs = [resolve(spec).name for spec in specs]
        dtypes = option("--softcheck-dtype") or asked.get("dtypes") or list(_DEFAULT_DTYPES)
        cases = select(
            load(asked.get("corpora") or default_corpora()),
            dtypes=dtypes,
            families=option("--softcheck-family") or asked.get("families") or (),
            globs=option("--softcheck-case"),
        )
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None
    groups: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.dtype, case.family), []).append(case)
    parameters = [
        pytest.param((spec, dtype, tuple(chosen)), id=f"{spec}-{dtype}-{family}")
        for spec in specs
        for (dtype, family), chosen in groups.items()
    ]
    metafunc.parametrize("accuracy", parameters, indirect=True)


@pytest.fixture(scope="session")
def softcheck_session(request: pytest.FixtureRequest) -> "Iterator[Session]":
    """A warm worker on the chosen device; a kernel that kills it costs one test."""
    from softcheck.errors import SoftcheckError
    from softcheck.run.session import Session

    try:
        session = Session(request.config.getoption("--softcheck-device"), jobs=1)
    except SoftcheckError as error:
        pytest.exit(f"softcheck: {error}", returncode=error.exit_code)
    yield session
    session.close()


@pytest.fixture
def accuracy(request: pytest.FixtureRequest, softcheck_session: "Session") -> "Accuracy":
    """The variant, dtype and cases of one parametrised test; call ``check()``."""
    variant, dtype, cases = request.param
    return Accuracy(softcheck_session, variant, dtype, cases)


@dataclass(frozen=True)
class Accuracy:
    """One variant on the cases of one family in one dtype."""

    session: "Session"
    variant: str
    dtype: str
    cases: "tuple[Case, ...]"

    def check(self) -> None:
        """Judges every case and fails with each broken promise: value, expected, ULP, bound, bits, and how to reproduce.

        Skips, with the reason, what the variant does not declare. Ends as an expected failure where all that was found
        are declared defects.
        """
        from softcheck.run.check import explanation
        from softcheck.run.plan import left_out

        declaration = self.session.load(self.variant)
        if isinstance(declaration, str):
            pytest.fail(f"{self.variant}: {declaration}", pytrace=False)
        if self.dtype not in declaration.dtypes:
            pytest.skip(f"{self.variant} declares {', '.join(declaration.dtypes)}, not {self.dtype}")
        covered = [case for case in self.cases if left_out(case, declaration) is None]
        if not covered:
            pytest.skip(f"{self.variant} does not declare these cases: {left_out(self.cases[0], declaration)}")
        broken: list[str] = []
        known: list[str] = []
        for case in covered:
            (result,) = self.session.run_case(case, [self.variant])
            for violation in result.measurement.violations:
                reason = explanation(violation, case.id, self.dtype, declaration, self.session.ready.backend)
                (known if reason else broken).append(reason or self._describe(result, violation))
        if broken:
            heading = f"{self.variant}, {self.dtype}: {len(broken)} broken promises"
            pytest.fail("\n".join([heading, *broken]), pytrace=False)
        if known:
            pytest.xfail(known[0])

    def _describe(self, result: "Result", violation: Any) -> str:
        from softcheck.report.reproduce import reproduce_command

        command = reproduce_command(self.variant, result.case, self.session.ready.backend)
        return f"  {violation.kind} on {result.case.id}\n    {violation.message}\n    {command}"
