"""Every variant on every saved case and probe: one test per variant, dtype and family or probe."""

import pytest
from share import LONG, dtype_run

from oracles.formats import FORMATS
from softcheck.cases.corpus import default_corpora, load
from softcheck.probes.registry import PROBES
from softcheck.variants.registry import BUILTIN


@pytest.mark.accuracy
def test_accuracy(accuracy):
    accuracy.check()


def test_every_dtype_meets_every_family_probe_and_variant():
    names = {case.family for case in load(default_corpora())} | set(PROBES)
    for name in names:
        due = {*FORMATS, None} - ({"float16"} if name in LONG else set())
        assert {dtype_run(variant, name) for variant in BUILTIN} == due
    for variant in BUILTIN:
        found = [dtype_run(variant, name) for name in names]
        assert set(found) >= set(FORMATS)
