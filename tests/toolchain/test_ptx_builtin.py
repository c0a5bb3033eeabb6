"""The arithmetic that the PTX of the built-in variants shows, and that no declaration contradicts it."""

import pytest
from ptx_helpers import compile_all

from softcheck.toolchain.ptx import contradictions, read_arithmetic
from softcheck.variants.registry import BUILTIN, BUILTIN_OF

WITHOUT_KERNELS = ("eager", "torch", "eager_compiled")
NAMES = [name for name in BUILTIN if name not in WITHOUT_KERNELS]
COLUMNS = 781
FLOAT64 = ("one_block", "persistent", "online", "tiled_float64_sum", "exp2_prescaled")
"""One of each design; ``persistent`` prefetches its logits into shared memory, through which it reduces too."""


@pytest.fixture(scope="module")
def compiled_all(tmp_path_factory):
    requests = [(name, dtype, COLUMNS) for name in NAMES for dtype in ("float16", "bfloat16", "float32")]
    requests += [(name, "float64", COLUMNS) for name in FLOAT64]
    return compile_all(requests, tmp_path_factory.mktemp("builtin-ptx"))


@pytest.fixture(scope="module")
def observed(compiled_all):
    return {(name, dtype): read_arithmetic(kernels) for (name, dtype, _), (_, kernels) in compiled_all.items()}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("name", NAMES)
def test_each_shows_its_own_steps(observed, name, dtype):
    found = observed[name, dtype]
    prescaled = name == "exp2_prescaled"
    assert found.exponentials == ("prescaled_ex2_approx" if prescaled else "ex2_approx",)
    assert found.fused_exponents is prescaled
    assert found.divisions == ("div_full",)
    assert found.sums == ("float64" if name == "tiled_float64_sum" else "float32",)
    assert found.rescales is (name == "online")
    assert found.narrow_operations == found.narrow_roundings == found.directed_roundings == found.calls == ()
    # Triton's exp keeps subnormal results, its exp2 does not.
    assert found.flushing == (("ex2.approx.ftz.f32",) if prescaled else ())


@pytest.mark.parametrize("name", FLOAT64)
def test_float64_shows_only_float64(observed, name):
    found = observed[name, "float64"]
    prescaled = name == "exp2_prescaled"
    assert found.exponentials == ("libdevice_float64", "prescaled_float64")[: 1 + prescaled]
    assert found.divisions == ("div_rn_float64",)
    assert found.sums == ("float64",)
    assert found.flushing == found.narrow_operations == found.scaled_logits == ()


@pytest.mark.parametrize("name", NAMES)
def test_no_declaration_is_contradicted(compiled_all, observed, name):
    for (variant, dtype, _), (declared, _) in compiled_all.items():
        if variant == name:
            assert contradictions(declared, observed[name, dtype], dtype) == [], dtype


LOGARITHMS = [name for name in BUILTIN_OF["log_softmax"] if not name.startswith("torch")]


@pytest.fixture(scope="module")
def logarithms(tmp_path_factory):
    requests = [(name, dtype, COLUMNS) for name in LOGARITHMS for dtype in ("float16", "float32", "float64")]
    return compile_all(requests, tmp_path_factory.mktemp("logarithm-ptx"))


@pytest.mark.parametrize("name", LOGARITHMS)
def test_no_declaration_of_logarithms_is_contradicted(logarithms, name):
    for (variant, dtype, _), (declared, kernels) in logarithms.items():
        if variant == name:
            assert contradictions(declared, read_arithmetic(kernels), dtype) == [], dtype
