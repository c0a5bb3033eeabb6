"""Every variant on every saved case and probe: one test per variant, dtype and family or probe."""

import pytest
from share import LEFT_OUT, is_of_the_share

from oracles.formats import FORMATS
from softcheck.cases.corpus import default_corpora, load
from softcheck.probes.registry import PROBES
from softcheck.testing import Accuracy
from softcheck.variants.registry import BUILTIN


@pytest.mark.accuracy
def test_accuracy(accuracy, request):
    cases = accuracy.cases if isinstance(accuracy, Accuracy) else ()
    name = cases[0].family if cases else accuracy.probe
    is_interpreted = accuracy.session.ready.backend == "interpreter"
    all_asked_for = request.config.getoption("--softcheck-dtype")
    if is_interpreted and not all_asked_for and not is_of_the_share(accuracy.variant, accuracy.dtype, name, cases):
        pytest.skip(LEFT_OUT)
    accuracy.check()


@pytest.fixture(scope="module")
def families():
    """The families of saved cases and the probes, those without cases, by name."""
    found = {}
    for case in load(default_corpora()):
        found.setdefault(case.family, {}).setdefault(case.dtype, []).append(case)
    return found | {probe: {} for probe in PROBES}


def dtypes_run(variant, name, cases):
    return {dtype for dtype in FORMATS if is_of_the_share(variant, dtype, name, tuple(cases.get(dtype, ())))}


def test_the_share_leaves_out_no_family_of_a_variant_and_no_dtype_of_a_family(families):
    for name, cases in families.items():
        found = [dtypes_run(variant, name, cases) for variant in BUILTIN]
        assert all(found), name
        assert set().union(*found) == set(FORMATS), name
    for variant in BUILTIN:
        in_dtypes = [dtypes_run(variant, name, cases) for name, cases in families.items()]
        assert all(sum(dtype in found for found in in_dtypes) >= len(families) // 3 for dtype in FORMATS), variant
