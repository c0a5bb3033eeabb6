"""Inputs that a declaration leaves out: cases, and trials of probes."""

import pytest

from softcheck.cases.corpus import load
from softcheck.probes import empties, registry
from softcheck.probes.base import Setting
from softcheck.probes.memory import addresses
from softcheck.run.plan import left_out
from softcheck.variants.declaration import Declaration

EMPTY_FREE, BELOW = Declaration(empty=False), Declaration(max_elements=2**31)


def setting(declaration, backend="cuda"):
    return Setting(dtype="float16", backend=backend, declaration=declaration, effort="normal")


def test_cases_without_elements_are_left_out_where_they_are_not_declared():
    for case in load(["edge", "regressions"]):
        why = left_out(case, EMPTY_FREE)
        assert why == ("inputs without elements are not declared" if 0 in case.shape else None)


def test_elements_are_counted_with_the_strides():
    cases = [case for case in load(["edge", "regressions"]) if case.layout.extent(*case.shape) > 2**23]
    narrow = Declaration(max_elements=2**23)
    assert all(left_out(case, narrow) == "more than the declared 8388608 elements" for case in cases)
    assert not any(left_out(case, BELOW) for case in load(["edge", "regressions"]))


@pytest.mark.parametrize("backend", ["cuda", "interpreter"])
def test_probes_of_what_is_not_declared_make_no_trial(backend):
    assert empties.PROBE.trials(setting(Declaration(), backend))
    assert not empties.PROBE.trials(setting(EMPTY_FREE, backend))
    assert addresses.PROBE.trials(setting(Declaration(), backend))
    assert not addresses.PROBE.trials(setting(BELOW, backend))
    trials = registry.load("grid_limits").trials(setting(EMPTY_FREE, backend))
    rows = [stop.shape.rows for trial in trials for stop in trial.parameters]
    assert rows
    assert 0 not in rows
