"""Built-in variants under the interpreter: what is declared of three is found. tests/accuracy puts each through every probe."""

import pytest
from probing_child import ask

from softcheck.contract import FindingKind
from softcheck.probes import registry
from softcheck.variants.registry import load

PROBES = ["sizes", "batch_invariance", "shifts"]
NAMES = ("one_block", "notebook_basic", "exp2_prescaled")


@pytest.fixture(scope="module")
def lines():
    return ask("interpreter", "float16", PROBES, *NAMES)


@pytest.fixture(scope="module")
def declarations():
    return {name: load(name).declaration for name in NAMES}


def test_every_probe_is_one_that_the_registry_names():
    assert set(PROBES) <= set(registry.PROBES)


def test_all_were_run(lines):
    assert [(name, probe) for name, probe, *_ in lines] == [(name, probe) for name in NAMES for probe in PROBES]
    assert all(found.trials or found.skipped for *_, found in lines)


@pytest.mark.parametrize("name", NAMES)
def test_only_declared_defects_are_found(name, lines, declarations):
    declaration = declarations[name]
    stray = [
        (f"probe/{probe}/{shown.label}", shown.violation)
        for variant, probe, _, found in lines
        for shown in found.findings
        if variant == name
        and declaration.explanation(shown.violation, f"probe/{probe}/{shown.label}", "float16", "interpreter") is None
    ]
    assert stray == []


def test_what_is_declared_broken_is_found(lines):
    found = {(variant, probe): conclusion for variant, probe, _, conclusion in lines}
    messages = {shown.violation.kind: shown.violation.message for shown in found["notebook_basic", "sizes"].findings}
    assert messages[FindingKind.ULP_EXCEEDS_BOUND].startswith("N not a power of two (")
    assert found["exp2_prescaled", "shifts"].properties == {"shift_invariant": False}
    assert found["one_block", "batch_invariance"].properties == {"batch_invariant": True}
