"""The built-in variants' declared defects show: a declaration that excuses nothing any more must go."""

import pytest

from oracles.formats import FORMATS
from softcheck.cases.corpus import builtin_names, load
from softcheck.report.probes import only_probes_show, shown
from softcheck.run.plan import left_out
from softcheck.run.probing import run_probe
from softcheck.run.protocol import ProbeTask
from softcheck.run.session import Session
from softcheck.variants.registry import BUILTIN

PROBE = "probe/"


@pytest.fixture(scope="module")
def session():
    opened = Session("auto", jobs=1)
    yield opened
    opened.close()


def shows_in_cases(session, name, dtype, declaration, defect):
    cases = [c for c in load(builtin_names()) if c.dtype == dtype and defect.may_show(c.id)]
    for case in sorted(cases, key=lambda c: c.shape[0] * c.shape[1]):
        if left_out(case, declaration) is None:
            (result,) = session.run_case(case, [name])
            if any(defect.explains(violation, case.id) for violation in result.measurement.violations):
                return True
    return False


def shows_in_probes(session, name, dtype, defect):
    names = {glob.removeprefix(PROBE).partition("/")[0] for glob in defect.cases if glob.startswith(PROBE)}
    results = [run_probe(session, ProbeTask(variant=name, dtype=dtype, probe=probe)) for probe in sorted(names)]
    return any(defect.explains(*each) for each in shown(result for result in results if result is not None))


@pytest.mark.parametrize("name", BUILTIN)
def test_declared_defects_show(session, name):
    declaration = session.load(name)
    backend = session.ready.backend
    unseen = [
        f"{dtype}: {defect.reason}"
        for dtype in FORMATS
        for defect in declaration.known_defects
        if dtype in declaration.dtypes and defect.always and defect.applies(dtype, backend)
        if not (
            (not only_probes_show(defect) and shows_in_cases(session, name, dtype, declaration, defect))
            or shows_in_probes(session, name, dtype, defect)
        )
    ]
    assert not unseen
