"""The arithmetic probe on planted kernels, compiled ahead of time in the probe's own process."""

from pathlib import Path

import pytest
import torch
from probe_helpers import kinds

from softcheck.operations.arithmetic import Arithmetic
from softcheck.probes import registry
from softcheck.probes.base import Setting, Subject
from softcheck.variants.declaration import Declaration
from softcheck.variants.registry import LoadedVariant, load

PLANTED = Path(__file__).parents[1] / "kernels" / "planted_arithmetic.py"
ATTENTION = Path(__file__).parents[1] / "planted" / "unseen" / "controls" / "attention_backwards_in_base_two.py"
STANDARD = Arithmetic()
PRESCALED = Arithmetic(exp="prescaled_ex2_approx", flush_to_zero=True)


def read(name, dtype="float16", **declared):
    """The probe's conclusion; the function itself is loaded in the compiling process only."""
    declaration = Declaration(**declared)
    setting = Setting(declaration=declaration, dtype=dtype, backend="interpreter")
    spec = name if name == "torch" else f"{PLANTED}:{name}"
    return concluded(LoadedVariant(spec, lambda x: x, declaration), setting)


def concluded(variant, setting):
    probe, subject = registry.load("arithmetic"), Subject(variant, setting, torch.device("cpu"))
    return probe.conclude([(trial, probe.run(subject, trial)) for trial in probe.trials(setting)])


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_kernel_that_does_what_it_declares_is_left_alone(dtype):
    found = read("right", dtype, arithmetic=STANDARD)
    assert found.findings == ()
    assert found.skipped == ()
    assert found.trials == 2
    assert found.arithmetic.shown == found.arithmetic.declared == STANDARD
    assert found.arithmetic.kernels == ("kernel",)
    assert found.arithmetic.weaknesses == ()
    assert found.arithmetic.leaves_contract is None


def test_a_declaration_that_the_ptx_contradicts_is_a_finding():
    found = read("sums_in_float16", arithmetic=STANDARD)
    assert kinds(found) == {"arithmetic_contradicted"}
    assert found.findings[0].label == "5x781"
    assert "exponentials are added in float16, the declaration says float32" in found.findings[0].violation.message
    assert "sums in float16" in found.arithmetic.weaknesses
    # The declared model is the one that is asked where it leaves the contract.
    assert found.arithmetic.leaves_contract is None


def test_the_same_kernel_undeclared_is_named_and_gets_its_own_model():
    found = read("sums_in_float16_undeclared")
    assert found.findings == ()
    assert found.arithmetic.declared is None
    assert found.arithmetic.shown == Arithmetic(accumulation="input", intermediate="input")
    assert found.arithmetic.weaknesses[0] == "sums in float16"
    # f16 or f16x2, as the version of Triton has it.
    assert found.arithmetic.weaknesses[1].startswith("rounds to 16 bits before the end (cvt.rn.f16")
    assert found.arithmetic.leaves_contract == "from 2 columns on: sums in float16"


def test_a_16_bit_sum_of_another_type_than_the_input_has_no_model():
    found = read("sums_in_float16_undeclared", "float32")
    assert found.arithmetic.shown is None
    assert "sums in float16" in found.arithmetic.weaknesses
    assert found.arithmetic.leaves_contract is None


def test_a_contradiction_in_wide_rows_alone_is_found():
    found = read("prescaled_when_wide", arithmetic=STANDARD)
    assert kinds(found) == {"arithmetic_contradicted"}
    assert "an exponential is prescaled_ex2_approx" in found.findings[0].violation.message


def test_a_weaker_kernel_says_where_it_leaves_the_contract():
    found = read("declares_what_it_does", arithmetic=PRESCALED)
    assert found.findings == ()
    assert found.arithmetic.weaknesses == (
        "multiplies by log2 e before subtracting the maximum",
        "flushes subnormal values to zero (ex2.approx.ftz.f32)",
    )
    assert found.arithmetic.leaves_contract.startswith("beyond |x| \N{ALMOST EQUAL TO} ")


def test_an_approximate_reciprocal_is_named():
    found = read("approximate_reciprocal", "float32")
    assert "approximate reciprocal (rcp.approx)" in found.arithmetic.weaknesses
    assert found.arithmetic.shown == Arithmetic(division="reciprocal", flush_to_zero=True)


def test_only_promised_widths_are_compiled():
    found = read("narrow_rows_only", max_columns=2000)
    assert (found.trials, found.skipped) == (1, ())
    assert read("narrow_rows_only", max_columns=100).trials == 1


def test_weights_that_are_rounded_before_they_meet_the_values_are_attention_s_own():
    variant = load(f"{ATTENTION}:attention")
    found = concluded(variant, Setting(declaration=variant.declaration, dtype="bfloat16", backend="interpreter"))
    assert (found.findings, found.skipped) == ((), ())
    assert found.arithmetic.shown.intermediate == "float32"
    # Scores are scaled: the bound of attention has the roundings.
    assert found.arithmetic.observed.scaled_logits
    assert found.arithmetic.leaves_contract is None
    assert not any("scales" in text for text in found.arithmetic.weaknesses)


@pytest.mark.parametrize("name", ["library", "torch"])
def test_no_kernel_of_its_own_is_no_guess(name):
    found = read(name)
    assert found.findings == ()
    assert found.arithmetic is None
    assert found.trials == 0
    assert found.skipped == ("nothing to try: launches no Triton kernel with PTX of its own",)


def test_a_declaration_needs_no_kernel():
    found = read("library", arithmetic=Arithmetic(accumulation="input", intermediate="input"))
    assert found.arithmetic.observed is None
    assert found.arithmetic.leaves_contract == "from 2 columns on: sums in float16"


def test_what_cannot_be_compiled_costs_a_reason():
    found = read("raises", arithmetic=STANDARD)
    assert found.findings == ()
    assert found.trials == 0
    assert found.skipped == (
        "not compiled ahead of time: ValueError: no rows of 781",
        "not compiled ahead of time: ValueError: no rows of 5000",
    )
    assert read("missing").skipped[0].startswith("not compiled ahead of time: UsageError: ")


def test_an_ended_compiling_process_is_replaced():
    # A looser declaration is not contradicted by the half that could be read.
    found = read(
        "ends_its_process_when_wide",
        arithmetic=Arithmetic(exp="prescaled_ex2_approx", flush_to_zero=True, rescales=True),
    )
    assert found.findings == ()
    assert found.trials == 1
    assert found.skipped == ("not compiled ahead of time: the compiling process ended with exit status 7",)
    assert read("right", arithmetic=STANDARD).trials == 2
