"""By which arithmetic a variant is judged, and what that lets through."""

import numpy as np
import pytest
import torch

from oracles.formats import BFLOAT16, FLOAT16, FLOAT32, FORMATS, encode
from softcheck.calling.call import to_bits, to_tensor
from softcheck.contract import FindingKind
from softcheck.judge.contracts import contract_of, weaker_by_design
from softcheck.judge.judge import STANDARD, judge
from softcheck.judge.tensors import judge_tensors, passing
from softcheck.numbers.model import depth
from softcheck.operations.arithmetic import Arithmetic, model
from softcheck.operations.softmax import SOFTMAX

SERIAL = Arithmetic(lanes=1)


def softmax_with_serial_sum(x):
    """Softmax in float32 with the sum added up one number after the other."""
    exponentials = np.exp(x - x.max(axis=1, keepdims=True), dtype=np.float32)
    total = np.add.accumulate(exponentials, axis=1, dtype=np.float32)[:, -1:]
    return exponentials / total


def absorbed(columns, fmt):
    """One large logit and many that a serial sum loses beside it."""
    x = np.full((1, columns), -17.5)
    x[0, 0] = 0.0
    return encode(x, fmt)


def test_nothing_declared_is_the_standard_contract():
    assert contract_of(None) == STANDARD


@pytest.mark.parametrize(
    "declared",
    [
        Arithmetic(exp="libdevice", division="div_rn"),
        Arithmetic(accumulation="float64"),
        Arithmetic(intermediate="float64", lanes=128),
    ],
)
def test_a_stronger_declaration_tightens_nothing(declared):
    assert contract_of(declared) == STANDARD
    assert weaker_by_design(declared, "float32") is None


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        (Arithmetic(exp="prescaled_ex2_approx"), "logits scaled before the maximum is subtracted"),
        (Arithmetic(scaled_logits=True), "logits scaled by a factor before the maximum is subtracted"),
        (Arithmetic(flush_to_zero=True), "subnormal values flushed to zero"),
        (Arithmetic(intermediate="input"), "differences and exponentials rounded to float16"),
        (Arithmetic(accumulation="input"), "sums in float16"),
        (SERIAL, "rows summed in 1 part"),
    ],
)
def test_a_weaker_declaration_is_kept_and_named(declared, words):
    assert contract_of(declared) == declared
    assert weaker_by_design(declared, "float16") == words


def test_types_narrower_than_the_input_are_nothing_weaker_for_float32():
    assert weaker_by_design(Arithmetic(intermediate="input", accumulation="input"), "float32") is None


@pytest.mark.parametrize("dtype", FORMATS)
def test_every_contract_allows_at_least_what_the_standard_one_does(dtype):
    standard = model(STANDARD, FORMATS[dtype])
    for declared in (
        SERIAL,
        Arithmetic(exp="libdevice", division="div_rn", intermediate="input"),
        Arithmetic(rescales=True),
        Arithmetic(scaled_logits=True),
    ):
        own = model(contract_of(declared), FORMATS[dtype])
        for name in (
            "exponent",
            "exponential",
            "addition",
            "denominator",
            "division",
            "rescale",
            "underflow",
            "scaling",
        ):
            assert getattr(own, name) >= getattr(standard, name)
        assert own.lanes <= standard.lanes


def test_a_library_on_a_cpu_may_add_in_any_order():
    assert contract_of(None, of_cpu_library=True) == SERIAL
    assert all(depth(n, 1) == n - 1 for n in (1, 2, 31, 32, 1000, 65537))
    assert all(depth(n, lanes) <= depth(n, 1) for n in (5, 100, 65537) for lanes in (2, 4, 8, 16))


@pytest.mark.parametrize("fmt", [FLOAT16, FLOAT32], ids=["float16", "float32"])
def test_a_serial_sum_breaks_the_standard_contract_and_keeps_its_own(fmt):
    bits = absorbed(65537, fmt)
    x = np.full((1, 65537), -17.5, dtype=np.float32)
    x[0, 0] = 0.0
    output = encode(softmax_with_serial_sum(x).astype(np.float64), fmt)
    assert FindingKind.ULP_EXCEEDS_BOUND in {v.kind for v in judge(bits, output, fmt).violations}
    found = judge(bits, output, fmt, arithmetic=SERIAL)
    assert found.violations == ()
    assert found.max_bound_share.value <= 1
    assert found.max_standard_share > 1


def test_a_contract_of_any_order_does_not_let_lost_terms_through():
    x = np.zeros((1, 1000), dtype=np.float32)
    output = encode(np.full((1, 1000), 1 / 992), FLOAT32)
    kinds = {
        v.kind for v in judge(encode(x.astype(np.float64), FLOAT32), output, FLOAT32, arithmetic=SERIAL).violations
    }
    assert {FindingKind.ULP_EXCEEDS_BOUND, FindingKind.SUM_VIOLATION} <= kinds


@pytest.mark.parametrize(("fmt", "columns"), [(FLOAT16, 65537), (BFLOAT16, 16384)], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("intermediate", ["float32", "input"])
def test_no_sum_in_16_bits_explains_a_row_of_zeros(fmt, columns, intermediate):
    """The sum may be wrong by a factor of 2 and more there, and still no quotient vanishes."""
    declared = Arithmetic(accumulation="input", intermediate=intermediate)
    bits = encode(np.random.default_rng(3).standard_normal((2, columns)), fmt)
    output = encode(np.zeros((2, columns)), fmt)
    found = judge(bits, output, fmt, arithmetic=declared)
    assert FindingKind.ULP_EXCEEDS_BOUND in {v.kind for v in found.violations}
    x, y = (to_tensor(each, fmt, torch.device("cpu")) for each in (bits, output))
    assert not passing(x, y, fmt, declared, operation=SOFTMAX).any()


def test_a_sum_that_overflows_in_its_own_type_explains_zeros():
    declared = Arithmetic(accumulation="input")
    zeros = encode(np.zeros((1, 70000)), FLOAT16)
    assert judge(zeros, zeros, FLOAT16, arithmetic=declared).violations == ()


@pytest.mark.parametrize("fmt", [FLOAT16, BFLOAT16], ids=["float16", "bfloat16"])
def test_serial_sums_in_16_bits_keep_their_own_bound_however_many_terms_they_lose(fmt):
    """Both on rows whose sum stagnates, with outputs far above, and on those that round up, with outputs below."""
    declared = Arithmetic(accumulation="input", lanes=1)
    generator = np.random.default_rng(4)
    rows = [np.zeros(3000), generator.standard_normal(3000), np.log(generator.uniform(0.5, 1.0, 3000))]
    rows.append(np.log(np.where(np.arange(3000) % 200 == 0, 1.0, 0.503)))
    bits = encode(np.stack(rows), fmt)
    x = to_tensor(bits, fmt, torch.device("cpu"))
    e = torch.exp(x.float() - x.float().amax(dim=1, keepdim=True))
    total = torch.zeros(len(x), 1, dtype=x.dtype)
    for column in range(e.shape[1]):
        total += e[:, column : column + 1].to(x.dtype)
    found = judge(bits, to_bits((e / total).to(x.dtype), fmt), fmt, arithmetic=declared)
    assert found.violations == ()


def test_the_standard_contract_measures_no_second_share():
    bits = encode(np.zeros((1, 4)), FLOAT32)
    output = encode(np.full((1, 4), 0.25), FLOAT32)
    assert judge(bits, output, FLOAT32).max_standard_share is None
    assert judge(bits, output, FLOAT32, arithmetic=SERIAL).max_standard_share == 0


def test_where_outputs_lie_a_weaker_contract_is_judged_as_by_the_numpy_judge():
    """Rounded to float16 after each step; one row is wrong beyond that, another holds NaN."""
    declared = Arithmetic(intermediate="input")
    generator = np.random.default_rng(5)
    bits = encode(4 * generator.standard_normal((300, 33)), FLOAT16)
    bits[7, 3] = 0x7E00
    x = to_tensor(bits, FLOAT16, torch.device("cpu"))
    e = torch.exp(x - x.amax(dim=1, keepdim=True))
    y = e / e.sum(dim=1, keepdim=True)
    y[211, 4] *= 1.25
    output = to_bits(y, FLOAT16)
    standard = judge(bits, output, FLOAT16)
    assert standard.violations[0].count > 100
    own = judge(bits, output, FLOAT16, arithmetic=declared)
    found = judge_tensors(x, y, FLOAT16, operation=SOFTMAX, arithmetic=declared)
    assert [(v.kind, v.count, v.row, v.column, v.message) for v in found.violations] == [
        (v.kind, v.count, v.row, v.column, v.message) for v in own.violations
    ]
    assert found.violations[0].row == 211
    assert found.max_bound_share == own.max_bound_share
