"""Kernels planted for one property each: it is seen in their PTX, and declaring otherwise is contradicted."""

import pytest
from ptx_helpers import compile_all

from softcheck.operations.arithmetic import Arithmetic
from softcheck.toolchain.ptx import (
    ObservedArithmetic,
    contradictions,
    merged,
    read_arithmetic,
    shown_arithmetic,
    weaknesses,
)

PLANTED = """
import torch, triton, triton.language as tl
from triton.language.extra import libdevice

LOG2_E = tl.constexpr(1.4426950408889634)

@triton.jit
def kernel(output, x, columns, BLOCK: tl.constexpr, KIND: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    inside = lane < columns
    logits = tl.load(x + lane, mask=inside, other=-float("inf"))
    single = logits.to(tl.float32)
    top = tl.max(single, axis=0)
    if KIND == "prescaled":
        scaled = single * LOG2_E
        powers = tl.exp2(scaled - tl.max(scaled, axis=0))
    elif KIND == "scaled_maximum":
        powers = tl.exp2(single * LOG2_E - top * LOG2_E)
    elif KIND == "base_two":
        powers = tl.exp2((single - top) * LOG2_E)
    elif KIND == "libdevice_exp":
        powers = libdevice.exp(single - top)
    elif KIND == "fast_exp":
        powers = libdevice.fast_expf(single - top)
    elif KIND == "half_exp":
        exponent = ((single - top) * LOG2_E).to(tl.float16)
        powers = tl.inline_asm_elementwise("ex2.approx.f16 $0, $1;", "=h,h", [exponent], tl.float16, True, 1)
        powers = powers.to(tl.float32)
    elif KIND == "unshifted":
        powers = tl.exp(single)
    elif KIND == "narrow_maximum":
        powers = tl.exp(single - tl.max(logits, axis=0).to(logits.dtype).to(tl.float32))
    elif KIND == "narrow_difference":
        powers = tl.exp((logits - tl.max(logits, axis=0).to(logits.dtype)).to(tl.float32))
    elif KIND == "double":
        powers = tl.exp(single.to(tl.float64) - top)
    else:
        powers = tl.exp(single - top)
    if KIND == "narrow_powers":
        powers = powers.to(logits.dtype).to(tl.float32)
    if KIND == "narrow_sum":
        total = tl.sum(powers.to(logits.dtype), axis=0).to(tl.float32)
    elif KIND == "double_sum":
        total = tl.sum(powers.to(tl.float64), axis=0).to(tl.float32)
    elif KIND == "rescaled":
        total = 0.0
        running = -float("inf")
        for start in range(0, columns, 128):
            at = start + tl.arange(0, 128)
            part = tl.load(x + at, mask=at < columns, other=-float("inf")).to(tl.float32)
            larger = tl.maximum(running, tl.max(part, axis=0))
            total = total * tl.exp(running - larger) + tl.sum(tl.exp(part - larger), axis=0)
            running = larger
    else:
        total = tl.sum(powers, axis=0)
    if KIND == "divide_rn":
        result = tl.math.div_rn(powers, total)
    elif KIND == "divide_rn_ftz":
        result = libdevice.div_rn(powers, tl.broadcast_to(total, (BLOCK,)))
    elif KIND == "fast_divide":
        result = libdevice.fast_dividef(powers, tl.broadcast_to(total, (BLOCK,)))
    elif KIND == "reciprocal":
        result = powers * (1.0 / total)
    elif KIND == "fast_reciprocal":
        result = powers * tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [total], tl.float32, True, 1)
    else:
        result = powers / total
    if KIND == "truncated":
        tl.store(output + lane, result.to(output.dtype.element_ty, fp_downcast_rounding="rtz"), mask=inside)
    else:
        tl.store(output + lane, result, mask=inside)

def planted(kind, fused):
    def softmax(x):
        output = torch.empty_like(x)
        kernel[(1,)](output, x, x.shape[1], 256, kind, enable_fp_fusion=fused)
        return output
    return softmax
"""

STANDARD = {"exponentials": ("ex2_approx",), "divisions": ("div_full",), "sums": ("float32",)}
FLUSHED = {"flushing": ("ex2.approx.ftz.f32",)}
PRESCALED = {"exponentials": ("prescaled_ex2_approx",), **FLUSHED}

SHOWN = {
    "plain": {},
    # A maximum is exact in any type.
    "narrow_maximum": {},
    "prescaled": {**PRESCALED, "fused_exponents": True},
    "prescaled_unfused": PRESCALED,
    "scaled_maximum": {**PRESCALED, "fused_exponents": True},
    "scaled_maximum_unfused": PRESCALED,
    "base_two": FLUSHED,
    "libdevice_exp": {"exponentials": ("libdevice",)},
    "fast_exp": FLUSHED,
    "half_exp": {
        "exponentials": ("ex2_approx_float16",),
        "narrow_operations": ("ex2.approx.f16",),
        "narrow_roundings": ("cvt.rn.f16.f32",),
    },
    "unshifted": {"exponentials": ("unshifted_ex2_approx",)},
    "narrow_difference": {"narrow_operations": ("sub.f16",)},
    "double": {
        "exponentials": ("libdevice_float64",),
        "divisions": ("div_rn_float64",),
        "sums": ("float64",),
    },
    "narrow_powers": {"narrow_roundings": ("cvt.rn.f16.f32",)},
    "narrow_sum": {
        "sums": ("float16",),
        "narrow_operations": ("add.f16",),
        "narrow_roundings": ("cvt.rn.f16.f32",),
    },
    "double_sum": {"sums": ("float64",)},
    "rescaled": {"rescales": True},
    "divide_rn": {"divisions": ("div_rn",)},
    "divide_rn_ftz": {"divisions": ("div_rn",), "flushing": ("div.rn.ftz.f32",)},
    "fast_divide": {"divisions": ("div_approx",), "flushing": ("div.approx.ftz.f32",)},
    "reciprocal": {"divisions": ("reciprocal",)},
    "fast_reciprocal": {"divisions": ("rcp_approx",), "flushing": ("rcp.approx.ftz.f32",)},
    "truncated": {"directed_roundings": ("cvt.rz.f16.f32",)},
}

DECLARED = {
    "plain": {},
    "narrow_maximum": {},
    "prescaled": {"exp": "prescaled_ex2_approx", "flush_to_zero": True},
    "prescaled_unfused": {"exp": "prescaled_ex2_approx", "flush_to_zero": True},
    "scaled_maximum": {"exp": "prescaled_ex2_approx", "flush_to_zero": True},
    "scaled_maximum_unfused": {"exp": "prescaled_ex2_approx", "flush_to_zero": True},
    "base_two": {"flush_to_zero": True},
    "libdevice_exp": {"exp": "libdevice"},
    "fast_exp": {"flush_to_zero": True},
    "narrow_difference": {"intermediate": "input"},
    "double": {"intermediate": "float64", "accumulation": "float64"},
    "narrow_powers": {"intermediate": "input"},
    "narrow_sum": {"accumulation": "input", "intermediate": "input"},
    "double_sum": {"accumulation": "float64"},
    "rescaled": {"rescales": True},
    "divide_rn": {"division": "div_rn"},
    "divide_rn_ftz": {"division": "div_rn", "flush_to_zero": True},
    "fast_divide": {"division": "reciprocal", "flush_to_zero": True},
    "reciprocal": {"division": "reciprocal"},
    "fast_reciprocal": {"division": "reciprocal", "flush_to_zero": True},
}
"""The right declaration of each; the others have no model."""


@pytest.fixture(scope="module")
def observed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted-ptx")
    file = folder / "planted.py"
    lines = [f"{kind} = planted({kind.removesuffix('_unfused')!r}, {not kind.endswith('_unfused')})" for kind in SHOWN]
    file.write_text(PLANTED + "\n".join(lines))
    compiled = compile_all([(f"{file}:{kind}", "float16", 200) for kind in SHOWN], folder)
    return {spec.rpartition(":")[2]: read_arithmetic(kernels) for (spec, _, _), (_, kernels) in compiled.items()}


@pytest.mark.parametrize("kind", SHOWN)
def test_each_property_is_seen(observed, kind):
    assert observed[kind] == ObservedArithmetic(**(STANDARD | SHOWN[kind]))


@pytest.mark.parametrize("kind", DECLARED)
def test_the_right_declaration_is_not_contradicted(observed, kind):
    assert contradictions(Arithmetic(**DECLARED[kind]), observed[kind], "float16") == []


@pytest.mark.parametrize("kind", [kind for kind in SHOWN if kind not in ("plain", "narrow_maximum")])
def test_the_standard_contract_is_contradicted(observed, kind):
    assert contradictions(Arithmetic(), observed[kind], "float16") != []


@pytest.mark.parametrize("kind", DECLARED)
def test_an_undeclared_kernel_gets_the_model_that_it_shows(observed, kind):
    assert shown_arithmetic(observed[kind], "float16") == Arithmetic(**DECLARED[kind])


@pytest.mark.parametrize("kind", [kind for kind in SHOWN if kind not in DECLARED])
def test_what_has_no_model_gets_none(observed, kind):
    with pytest.raises(ValueError, match=r"the PTX shows .*, for which there is no proven bound; expected"):
        shown_arithmetic(observed[kind], "float16")


IN_WORDS = {
    "plain": (),
    "narrow_maximum": (),
    "prescaled": ("multiplies by log2 e before subtracting the maximum", "flushes subnormal values to zero"),
    "base_two": ("flushes subnormal values to zero",),
    "libdevice_exp": (),
    "half_exp": ("exponentials in float16", "rounds to 16 bits before the end"),
    "unshifted": ("takes an exponential before which no maximum is seen to be subtracted",),
    "narrow_difference": ("computes in 16 bits (sub.f16)",),
    "double": (),
    "narrow_powers": ("rounds to 16 bits before the end",),
    "narrow_sum": ("sums in float16", "rounds to 16 bits before the end"),
    "double_sum": (),
    "rescaled": (),
    "divide_rn": (),
    "fast_divide": ("approximate reciprocal (div.approx)", "flushes subnormal values to zero"),
    "reciprocal": ("multiplies by a reciprocal",),
    "fast_reciprocal": ("approximate reciprocal (rcp.approx)", "flushes subnormal values to zero"),
    "truncated": ("does not round to nearest (cvt.rz.f16.f32)",),
}


@pytest.mark.parametrize("kind", IN_WORDS)
def test_what_is_weaker_is_named_and_nothing_else(observed, kind):
    found = weaknesses(observed[kind], "float16")
    assert len(found) == len(IN_WORDS[kind]), found
    assert all(text.startswith(words) for text, words in zip(found, IN_WORDS[kind], strict=True)), found


def test_float32_arithmetic_is_weak_for_float64_input(observed):
    assert weaknesses(observed["plain"], "float64") == ["sums in float32", "exponentials in float32"]
    assert weaknesses(observed["double"], "float64") == []


def test_kernels_read_apart_are_joined_as_if_read_together(observed):
    joined = merged([observed["prescaled"], observed["narrow_sum"], observed["rescaled"]])
    assert joined.exponentials == ("ex2_approx", "prescaled_ex2_approx")
    assert joined.sums == ("float16", "float32")
    assert joined.rescales
    assert joined.fused_exponents
    assert merged([]) == ObservedArithmetic()


def test_16_bit_operations_of_another_type_than_the_input_have_no_model(observed):
    for kind in ("narrow_difference", "narrow_sum"):
        with pytest.raises(ValueError, match="for which there is no proven bound"):
            shown_arithmetic(observed[kind], "float32")
