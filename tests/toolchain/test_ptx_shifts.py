"""Subtraction of a maximum: every form is read off the PTX of a kernel, for three generations of GPUs."""

from pathlib import Path

import pytest
from ptx_helpers import Kernel, compile_all

from softcheck.operations.arithmetic import Arithmetic
from softcheck.toolchain.ptx import contradictions, read_arithmetic, shown_arithmetic, weaknesses

FILE = Path(__file__).with_name("shifting_kernels.py")

PLAIN = ("ex2_approx", (), False)
BY_ARGUMENT = ("ex2_approx", ("argument",), True)
PRESCALED = ("prescaled_ex2_approx", (), True)
UNSHIFTED = ("unshifted_ex2_approx", (), False)
MISSHIFTED = "misshifted_ex2_approx"

SHOWN = {
    "scaled": BY_ARGUMENT,
    "scaled_by_constant": ("ex2_approx", ("constant",), True),
    # A product with a power of two is exact.
    "scaled_by_an_eighth": PLAIN,
    "divided": ("ex2_approx", ("argument",), False),
    "scaled_libdevice": ("libdevice", ("argument",), True),
    "maximum_scaled": BY_ARGUMENT,
    "difference_scaled": PLAIN,
    "difference_turned": PLAIN,
    "folded": PRESCALED,
    "folded_constant": PRESCALED,
    "scaled_and_prescaled": ("prescaled_ex2_approx", ("argument",), True),
    "folded_after": PLAIN,
    "chosen": BY_ARGUMENT,
    "clamped": PLAIN,
    "by_argmax": BY_ARGUMENT,
    "by_minimum": PLAIN,
    "logarithm_subtracted": PLAIN,
    "maximum_from_memory": PLAIN,
    "scaled_and_maximum_from_memory": BY_ARGUMENT,
    "maximum_of_parts": BY_ARGUMENT,
    "subtracted_in_float64": PLAIN,
    "scaled_in_float64": ("libdevice_float64", ("argument",), True),
    "subtracted_in_input_type": PLAIN,
    "scaled_in_input_type": BY_ARGUMENT,
    "tiled_scaled": BY_ARGUMENT,
    "capped_by_a_quotient": ("ex2_approx", ("function",), False),
    "capped_by_a_reciprocal": ("ex2_approx", ("function",), False),
    "capped_by_libdevice": ("ex2_approx", ("function",), False),
    "biased": UNSHIFTED,
    "constant_subtracted": UNSHIFTED,
    "maximum_of_unscaled": (MISSHIFTED, ("argument",), True),
    "maximum_of_unscaled_by_an_eighth": (MISSHIFTED, (), False),
    "maximum_of_scaled": (MISSHIFTED, (), False),
    "tiled_maximum_of_unscaled": (MISSHIFTED, ("argument",), True),
}
"""The exponential, what logits are scaled by, and whether that is fused with the subtraction."""
UNFUSED = {f"{kind}_unfused": (*shown[:2], False) for kind, shown in SHOWN.items() if shown[2]}
ALL = SHOWN | UNFUSED
CASES = [
    (kind, target)
    for at, kind in enumerate(ALL)
    for target in dict.fromkeys(("cuda:90", ("cuda:80", "cuda:90", "cuda:100")[at % 3]))
]
"""Every form for one generation of GPUs, and two in three for one of the other two as well."""
WRONG = [kind for kind, (exponential, _, _) in ALL.items() if exponential.startswith(("un", "mis"))]


@pytest.fixture(scope="module")
def observed(tmp_path_factory):
    requests = [(f"{FILE}:{kind}", "float16", 200, target) for kind, target in CASES]
    requests += [(f"{FILE}:{kind}", "float16", 200, "cuda:90") for kind in ("unshifted_in_float64", "gated")]
    compiled = compile_all(requests, tmp_path_factory.mktemp("shifts"))
    return {
        (spec.rpartition(":")[2], target): read_arithmetic(kernels)
        for (spec, _, _, target), (_, kernels) in compiled.items()
    }


@pytest.mark.parametrize(("kind", "target"), CASES)
def test_each_form_is_read_for_what_it_is(observed, kind, target):
    found = observed[kind, target]
    exponential, scaled, fused = ALL[kind]
    assert (found.exponentials, found.scaled_logits, found.fused_exponents) == ((exponential,), scaled, fused)
    assert set(found.sums) == {"float64" if kind.startswith("scaled_in_float64") else "float32"}
    assert bool(found.narrow_operations) is ("in_input_type" in kind)
    assert not found.rescales


@pytest.mark.parametrize("kind", [kind for kind in ALL if kind not in WRONG])
def test_right_kernels_subtract_a_maximum_in_words_too(observed, kind):
    assert not any(
        "maximum" in text and "before" not in text for text in weaknesses(observed[kind, "cuda:90"], "float16")
    )


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_ones_have_no_model_and_contradict_every_declaration(observed, kind):
    found = observed[kind, "cuda:90"]
    with pytest.raises(ValueError, match=r"for which there is no proven bound"):
        shown_arithmetic(found, "float16")
    for declared in (Arithmetic(), Arithmetic(scaled_logits=True), Arithmetic(exp="prescaled_ex2_approx")):
        assert any("no model covers it" in message for message in contradictions(declared, found, "float16"))
    said = (
        "takes an exponential before which no maximum is seen to be subtracted"
        if ALL[kind] == UNSHIFTED
        else "seems to subtract the maximum of logits that are scaled otherwise"
    )
    assert said in weaknesses(found, "float16")


@pytest.mark.parametrize("kind", [kind for kind in ALL if kind.startswith("capped")])
def test_exponentials_and_divisions_of_a_soft_cap_are_not_taken_for_those_of_the_softmax(observed, kind):
    found = observed[kind, "cuda:90"]
    assert found.divisions == ("div_full",)
    assert weaknesses(found, "float16") == []
    assert contradictions(Arithmetic(), found, "float16") == []


def test_a_gate_beside_a_softmax_contradicts_nothing_and_is_told_as_what_it_may_be(observed):
    found = observed["gated", "cuda:90"]
    assert found.exponentials == ("ex2_approx", "unshifted_ex2_approx")
    assert not any("exponential" in message for message in contradictions(Arithmetic(), found, "float16"))
    assert shown_arithmetic(found, "float16").exp == "ex2_approx"
    assert any(text.endswith("as in a sigmoid; others subtract one") for text in weaknesses(found, "float16"))


@pytest.mark.parametrize("kind", ["scaled", "scaled_unfused", "maximum_scaled", "tiled_scaled", "chosen", "by_argmax"])
def test_a_factor_that_is_an_argument_contradicts_neither_declaration(observed, kind):
    """If the argument is 1 or another power of two, the product is exact and the arithmetic the standard one."""
    found = observed[kind, "cuda:90"]
    for declared in (Arithmetic(), Arithmetic(scaled_logits=True)):
        assert contradictions(declared, found, "float16") == []
    assert shown_arithmetic(found, "float16") == Arithmetic(scaled_logits=True)
    assert weaknesses(found, "float16") == [
        "scales logits before subtracting the maximum, exactly only by powers of two"
    ]


def test_a_constant_factor_that_rounds_must_be_declared(observed):
    for kind in ("scaled_by_constant", "scaled_by_constant_unfused"):
        found = observed[kind, "cuda:90"]
        assert contradictions(Arithmetic(scaled_logits=True), found, "float16") == []
        assert contradictions(Arithmetic(), found, "float16") == [
            (
                "logits are multiplied by a constant before the maximum is subtracted, the declaration says scaled_logits=False; "
                "declare scaled_logits=True, or change the kernel"
            )
        ]
        assert weaknesses(found, "float16") == ["scales logits before subtracting the maximum"]


@pytest.mark.parametrize("kind", ["scaled_by_an_eighth", "difference_scaled", "maximum_from_memory"])
def test_scaled_logits_that_are_not_there_contradict(observed, kind):
    found = observed[kind, "cuda:90"]
    assert contradictions(Arithmetic(), found, "float16") == []
    assert weaknesses(found, "float16") == []
    declared = Arithmetic(scaled_logits=True)
    assert contradictions(declared, found, "float16") == [
        (
            "no logits are seen to be scaled before the maximum is subtracted, the declaration says scaled_logits=True; declare "
            "scaled_logits=False, or change the kernel"
        )
    ]
    assert contradictions(declared, found, "float16", saw_all=False) == []


def test_float64_exponentials_that_nothing_is_subtracted_for_are_named(observed):
    found = observed["unshifted_in_float64", "cuda:90"]
    assert "takes an exponential before which no maximum is seen to be subtracted" in weaknesses(found, "float16")
    declared = Arithmetic(intermediate="float64", accumulation="float64")
    assert contradictions(declared, found, "float16") == ["an exponential is unshifted_float64; no model covers it"]
    with pytest.raises(ValueError, match="unshifted_float64"):
        shown_arithmetic(found, "float16")


def read(body):
    """Reads one kernel; %x0 and %x1 are loaded logits, %top their maximum."""
    loads = """
	ld.param.b64 %rd1, [k_param_1]; ld.param.f32 %scale, [k_param_2];
	ld.global.v2.b32 {%x0, %x1}, [%rd1]; ld.global.b32 %h, [%rd1+8];
	max.f32 %top, %x0, %x1;
"""
    return read_arithmetic([Kernel("k", {"ptx": f".visible .entry k()\n{{\n{loads}{body}\n}}\n"})])


TO_POWER = "mul.f32 %e, %d, 0f3FB8AA3B; ex2.approx.f32 %p, %e;"

FORMS = {
    "sub.f32 %d, %x0, %top;": "ex2_approx",
    "sub.ftz.f32 %d, %x0, %top;": "ex2_approx",
    "neg.f32 %n, %top; add.f32 %d, %n, %x0;": "ex2_approx",
    "fma.rn.f32 %d, %top, 0fBF800000, %x0;": "ex2_approx",
    "xor.b32 %n, %top, -2147483648; add.f32 %d, %x0, %n;": "ex2_approx",
    "xor.b32 %n, %top, 0x80000000; add.f32 %d, %x0, %n;": "ex2_approx",
    "sub.f32 %n, 0f00000000, %top; add.f32 %d, %x0, %n;": "ex2_approx",
    "redux.sync.max.f32 %t, %x0, -1; sub.f32 %d, %x0, %t;": "ex2_approx",
    "redux.sync.max.s32 %t, %x0, -1; sub.f32 %d, %x0, %t;": "ex2_approx",
    "setp.gt.f32 %p1, %x0, %x1; selp.f32 %t, %x0, %x1, %p1; sub.f32 %d, %x0, %t;": "ex2_approx",
    "st.shared.b32 [%s], %top; ld.shared.b32 %t, [%s+4]; max.f32 %u, %t, %top; sub.f32 %d, %x0, %u;": "ex2_approx",
    "shfl.sync.bfly.b32 %t, %top, 16, 31, -1; max.f32 %u, %t, %top; sub.f32 %d, %x0, %u;": "ex2_approx",
    "atom.global.max.s32 %t, [%rd1], %top; sub.f32 %d, %x0, %t;": "ex2_approx",
    # A difference of another kernel's maximum, or of its logarithm of a sum.
    "sub.f32 %d, %x0, %h;": "ex2_approx",
    "neg.f32 %n, %h; add.f32 %d, %x0, %n;": "ex2_approx",
    "mov.b64 %a, {%x0, %x1}; mov.b64 %b, {%top, %top}; sub.rn.f32x2 %c, %a, %b; mov.b64 {%d, %d2}, %c;": "ex2_approx",
    "cvt.f64.f32 %a, %x0; cvt.f64.f32 %b, %top; sub.f64 %c, %a, %b; cvt.rn.f32.f64 %d, %c;": "ex2_approx",
    "cvt.rn.f16x2.f32 %a, %x0, %x1; cvt.rn.f16x2.f32 %b, %top, %top; sub.f16x2 %c, %a, %b; cvt.f32.f16 %d, %c;": "ex2_approx",
    "sub.rn.f32.f16 %d, %x0, %top;": "ex2_approx",
    "add.f32 %d, %x0, %h;": "unshifted_ex2_approx",
    "add.f32 %d, %x0, 0fC0A00000;": "unshifted_ex2_approx",
    "max.f32 %d, %x0, 0fC6000000;": "unshifted_ex2_approx",
    "mov.b32 %d, %x0;": "unshifted_ex2_approx",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_difference(form):
    found = read(form + TO_POWER)
    assert found.exponentials == (FORMS[form],)
    assert found.scaled_logits == ()


LOG2E_TWICE = "mov.b32 %l, 0f3FB8AA3B; mov.b64 %k, {%l, %l};"

SCALED_FORMS = {
    "mul.f32 %m, %top, %scale; neg.f32 %n, %m; fma.rn.f32 %d, %x0, %scale, %n;": ("argument",),
    "mul.f32 %m, %top, %scale; neg.f32 %n, %m; fma.rn.ftz.f32 %d, %x0, %scale, %n;": ("argument",),
    "mul.f32 %m, %top, %scale; neg.f32 %n, %m; mad.f32 %d, %x0, %scale, %n;": ("argument",),
    "mul.f32 %v, %x0, %scale; neg.f32 %n, %top; fma.rn.f32 %d, %n, %scale, %v;": ("argument",),
    "mul.f32 %v, %x0, 0f3E99999A; fma.rn.f32 %d, %top, 0fBE99999A, %v;": ("constant",),
    "mul.f32 %v, %x0, 0f3E800000; fma.rn.f32 %d, %top, 0fBE800000, %v;": (),
    "mul.f32 %n, %top, 0fBE99999A; fma.rn.f32 %d, %x0, 0f3E99999A, %n;": ("constant",),
    (
        "mov.b64 %a, {%x0, %x1}; mov.b64 %s, {%scale, %scale}; mul.f32 %m, %top, %scale; neg.f32 %n, %m; "
        "mov.b64 %b, {%n, %n}; fma.rn.f32x2 %c, %a, %s, %b; mov.b64 {%d, %d2}, %c;"
    ): ("argument",),
}


@pytest.mark.parametrize("form", SCALED_FORMS)
def test_every_form_of_a_fused_difference(form):
    found = read(form + TO_POWER)
    assert found.exponentials == ("ex2_approx",)
    assert found.scaled_logits == SCALED_FORMS[form]


@pytest.mark.parametrize(
    "form",
    [
        "mul.f32 %n, %top, 0fBFB8AA3B; fma.rn.f32 %e, %x0, 0f3FB8AA3B, %n; ex2.approx.ftz.f32 %p, %e;",
        "mul.f32 %v, %x0, 0f3FB8AA3B; fma.rn.f32 %e, %top, 0fBFB8AA3B, %v; ex2.approx.ftz.f32 %p, %e;",
        LOG2E_TWICE
        + "mov.b64 %a, {%x0, %x1}; mul.f32 %m, %top, 0fBFB8AA3B; mov.b64 %b, {%m, %m}; fma.rn.f32x2 %c, %a, %k, %b; "
        "mov.b64 {%e, %f}, %c; ex2.approx.ftz.f32 %p, %e;",
        # Logits that come multiplied from another kernel.
        "sub.f32 %e, %x0, %top; ex2.approx.ftz.f32 %p, %e;",
    ],
)
def test_every_form_of_a_prescaled_exponent(form):
    found = read(form)
    assert found.exponentials == ("prescaled_ex2_approx",)
    assert found.scaled_logits == ()


def test_packed_products_after_the_subtraction_are_no_prescaling():
    found = read(
        LOG2E_TWICE
        + "mov.b64 %a, {%x0, %x1}; mov.b64 %b, {%top, %top}; sub.rn.f32x2 %c, %a, %b; mul.rn.f32x2 %g, %c, %k; "
        "mov.b64 {%e, %f}, %g; ex2.approx.ftz.f32 %p, %e; ex2.approx.ftz.f32 %q, %f; "
        "mov.b64 %h2, {%p, %q}; add.rn.f32x2 %i, %h2, %h2;"
    )
    assert found.exponentials == ("ex2_approx",)
    assert found.sums == ("float32",)


def test_bfloat16_additions_as_products_with_one_are_additions():
    """As LLVM writes them before compute capability 9.0."""
    found = read(
        "mov.b16 %m1, 0xBF80; mov.b16 %one, 0x3F80; cvt.rn.bf16.f32 %a, %x0; cvt.rn.bf16.f32 %b, %top; "
        "fma.rn.bf16 %c, %b, %m1, %a; cvt.f32.bf16 %d, %c;"
        + TO_POWER
        + "cvt.rn.bf16.f32 %q, %p; fma.rn.bf16 %r, %q, %one, %q;"
    )
    assert found.exponentials == ("ex2_approx",)
    assert found.sums == ("bfloat16",)
    assert found.narrow_operations == ("add.rn.bf16", "sub.rn.bf16")
    assert not found.fused_exponents
