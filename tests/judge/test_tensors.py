"""The judge on tensors gives the numpy judge's measurement of every operation's output, right or wrong."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from agreement import disagreements

from oracles.formats import FORMATS, decode
from softcheck.calling.call import to_bits
from softcheck.cases.random_rows import FILLERS, fill
from softcheck.contract import FindingKind
from softcheck.errors import UsageError
from softcheck.judge.judge import judge
from softcheck.judge.tensors import judge_tensors, passing
from softcheck.operations import attention
from softcheck.operations.arithmetic import Arithmetic, model
from softcheck.operations.block import Block
from softcheck.operations.registry import operation
from softcheck.operations.torch_bounds import limits_of

DTYPES = ("float16", "bfloat16", "float32")
OPERATIONS = {
    "log_softmax": {},
    "logsumexp": {},
    "cross_entropy": {},
    "softmax_backward": {},
    "log_softmax_backward": {},
    "softmax": {},
    "log_softmax scaled": {"scale": 0.7},
    "softmax scaled": {"scale": 0.125},
    "softmax scaled up": {"scale": 3.0},
    "cross_entropy ignoring": {"ignore_index": -100},
    "cross_entropy smoothed": {"label_smoothing": 0.1},
    "cross_entropy with options": {"weight": 1.0, "z_loss": 1e-3, "invalid_target": "nan", "label_smoothing": 0.1},
    "cross_entropy capped": {"softcap": 5.0, "label_smoothing": 0.1, "weight": 1.0},
    "cross_entropy mean": {"reduction": "mean", "ignore_index": -100.0, "weight": 1.0, "z_loss": 1e-3},
    "cross_entropy sum": {"reduction": "sum", "softcap": 30.0},
    "softmax causal": {"causal": "top-left", "scale": 3.0},
    "log_softmax causal": {"causal": "bottom-right"},
    "softmax capped": {"softcap": 20.0, "scale": 3.0},
    "log_softmax capped": {"softcap": 5.0, "base": 2.0},
    "logsumexp binary": {"base": 2.0},
    "attention": {"head_dim": 8.0, "scale": 0.7},
    "attention masked": {"head_dim": 4.0, "masked": 1.0, "ignores_nan": 1.0, "softcap": 5.0, "groups": 2.0},
    "attention windowed": {"head_dim": 4.0, "causal": "bottom-right", "window": 3.0, "sink": 0.5, "masked": 1.0},
    "attention biased": {"head_dim": 4.0, "masked": 1.0, "biased": 1.0, "groups": 2.0},
    "attention biased capped": {"head_dim": 4.0, "causal": "bottom-right", "biased": 1.0, "softcap": 5.0, "sink": 0.5},
    "attention_logsumexp": {"head_dim": 8.0, "causal": "top-left", "queries": 5.0, "base": 2.0},
    "attention_logsumexp biased": {"head_dim": 4.0, "biased": 1.0, "masked": 1.0},
}
ROWS = 8
FAULTS = (float("nan"), float("inf"), -float("inf"), -1.0, 0.0, 2e-7, 3.0)


def named(name):
    return operation(name.split()[0], OPERATIONS[name])


def right(of, x):
    """The operation in float32, rounded once; what has operands of several kinds takes them in the matrix's own dtype."""
    return of.yardstick(x.float() if of.operands[0].name == "x" else x).to(x.dtype)


def rows_of(family, columns, fmt, device, seed=3):
    return fill(FILLERS[family], ROWS, columns, fmt, torch.Generator(device).manual_seed(seed))


def some_families(name, dtype, device):
    """The families by number: on a GPU all of them, else a third, another one for each dtype of an operation; of heads half as many."""
    step = 1 if device.type == "cuda" else 6 if name.startswith("attention") else 3
    return list(enumerate(FILLERS))[(list(OPERATIONS).index(name) + DTYPES.index(dtype)) % step :: step]


def widths(of):
    return (1, 2, 5, 11) if of.name.startswith("attention") else (1, 2, 7, 65)


def with_faults(y, seed):
    """One element of every fifth row is another number."""
    random, found = np.random.default_rng(seed), y.clone()
    for row in range(0, len(y), 5):
        found[row, random.integers(y.shape[1])] = FAULTS[random.integers(len(FAULTS))]
    return found


def off_by(y, fmt, seed):
    """Whole rows are off by up to 8 of the format's roundoffs."""
    steps = np.random.default_rng(seed).choice([0, 0, 0, 1, 8], (len(y), 1)) * fmt.unit_roundoff
    return (y.double() * (1 + torch.from_numpy(steps).to(y.device))).to(y.dtype)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return torch.device(request.param)


def differences(x, y, fmt, of, arithmetic, **options):
    ours = judge_tensors(x, y, fmt, operation=of, arithmetic=arithmetic, **options)
    theirs = judge(to_bits(x, fmt), to_bits(y, fmt), fmt, operation=of, arithmetic=arithmetic)
    # So few elements may have one error, which lies at the edge of two bins.
    assert sum(ours.histogram.values()) == sum(theirs.histogram.values())
    return [name for name in disagreements(ours, theirs) if name != "histogram"], ours, theirs


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_measures_every_family_as_the_numpy_judge_does(name, dtype, device):
    of, fmt = named(name), FORMATS[dtype]
    rejudged = 0
    for at, family in some_families(name, dtype, device):
        columns = widths(of)[at % 4]
        x = rows_of(family, columns, fmt, device)
        y = right(of, x)
        arithmetic = Arithmetic(flush_to_zero=at % 3 == 0)
        for output in (y, with_faults(y, at), off_by(y, fmt, at)):
            found, ours, theirs = differences(x, output, fmt, of, arithmetic)
            assert found == [], (family, columns, found, ours, theirs)
        # float64 does not know the differences of large scores.
        if not (name.startswith("attention") and family in {"huge", "finfo-min", "random-bits", "format-specials"}):
            # By an added mask torch gives 0 to a query that sees no key.
            convention = "zero" if of.parameters.get("biased") else "nan"
            rejudged += judge_tensors(x, y, fmt, operation=of, fully_masked=convention).rejudged_rows
    # Of a scaled softmax the ones that are less than 1 by a little are in doubt, and of scores those that are large.
    share = 0.4 if "scaled" in name or name.startswith("attention") else 0.2
    assert rejudged <= len(some_families(name, dtype, device)) * ROWS * share


@pytest.mark.parametrize("seed", [5, 9, 19])
def test_a_scale_that_rounding_puts_next_to_a_power_of_two_has_the_ulp_of_the_power(seed):
    of, fmt = named("attention biased"), FORMATS["float32"]
    x = rows_of("padding", 5, fmt, torch.device("cpu"), seed)
    y = off_by(right(of, x), fmt, list(FILLERS).index("padding"))
    found, ours, theirs = differences(x, y, fmt, of, Arithmetic())
    assert found == [], (ours, theirs)


def test_a_mean_of_losses_is_demanded_where_a_target_is_hidden():
    of, fmt = named("cross_entropy mean"), FORMATS["float32"]
    x = rows_of("padding", 7, fmt, torch.device("cpu"))
    found, ours, theirs = differences(x, right(of, x).nan_to_num(nan=1.0), fmt, of, Arithmetic())
    assert found == []
    assert [(each.kind, each.count) for each in theirs.violations] == [(FindingKind.INF_MISMATCH, 2)]
    assert [(each.kind, each.count) for each in ours.violations] == [(FindingKind.INF_MISMATCH, 2)]


def test_an_output_without_an_error_has_a_largest_one_of_zero():
    of, fmt = named("cross_entropy ignoring"), FORMATS["float32"]
    x = rows_of("special", 65, fmt, torch.device("cpu"), 52)
    found, ours, _ = differences(x, right(of, x), fmt, of, Arithmetic(flush_to_zero=True))
    assert found == []
    assert ours.elements
    assert ours.max_ulp is not None
    assert ours.max_ulp.value == 0.0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_exact_values_and_limits_are_the_formulas(name, dtype, device):
    of, fmt = named(name), FORMATS[dtype]
    narrow = (Arithmetic(intermediate="input"),) if fmt.width == 16 else ()
    for at, family in some_families(name, dtype, device):
        x = rows_of(family, widths(of)[(at + 1) % 4], fmt, device)
        bits = to_bits(x, fmt)
        values = decode(bits, fmt)
        reference = of.answer(values, fmt, "nan")
        for arithmetic in (Arithmetic(), Arithmetic(rescales=True, lanes=1), Arithmetic(scaled_logits=True), *narrow):
            constants = model(arithmetic, fmt)
            zeros = np.zeros(reference.high.shape, fmt.storage)
            block = Block.of(0, bits, zeros, fmt, reference, constants, of, values, fmt)
            with np.errstate(all="ignore"):
                found, allowed = (
                    limits_of(of, x, fmt, constants),
                    of.bounds(values, block.exact, block.answer, constants),
                )
                exact, bounded = found.exact.cpu().numpy(), block.specials.bounded
                uncertain = found.uncertainty
                if isinstance(uncertain, torch.Tensor):
                    uncertain = np.broadcast_to(uncertain.cpu().numpy()[:, None], exact.shape)
                    bounded = bounded & (uncertain <= 2.0**-12)
                    uncertain = uncertain[bounded]
                np.testing.assert_array_equal(np.isnan(exact), np.isnan(block.answer))
                np.testing.assert_array_equal(np.isinf(exact), np.isinf(block.answer))
                off = np.abs(exact - block.answer)[bounded] / block.exact.ulp[bounded]
                # An answer that may be 0 the oracle gives as the size of its own error.
                assert np.all(off <= uncertain + block.exact.uncertainty[bounded] * (of.name == "attention_logsumexp"))
                assert np.all(uncertain <= 2.0**-10)
                # Next to a power of two float64 may not know which ULP is the answer's, and the roundings with it.
                same = (found.per_ulp.cpu().numpy() * block.exact.ulp == 1) | (of.scale is not None)
                ours = (found.limits / found.per_ulp).cpu().numpy()[bounded & same]
                wanted = (allowed.elements * block.exact.ulp)[bounded & same]
                # Answers that the oracle gives so are rounded too where losses are added up; a GPU multiplies in another order.
                relative = 1e-9 if name in {"cross_entropy mean", "cross_entropy sum"} else 1e-12
                relative = 1e-10 if of.name.startswith("attention") else relative
                np.testing.assert_allclose(ours, wanted, rtol=relative, atol=1e-300)
                if found.sums is not None:
                    rows = block.specials.ordinary & same.all(axis=1)
                    np.testing.assert_allclose(found.sums.cpu().numpy()[rows], allowed.sums[rows], rtol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_the_screen_passes_nothing_that_the_judge_refuses_and_most_right_rows(name, dtype):
    of, fmt = named(name), FORMATS[dtype]
    x = (3 * torch.randn(120, 33, generator=torch.Generator().manual_seed(1))).to(getattr(torch, dtype))
    x[::7, 3] = -torch.inf
    right_output = right(of, x)
    assert passing(x, right_output, fmt, operation=of).float().mean() > 0.7
    steps = torch.from_numpy(np.random.default_rng(1).integers(-12, 13, right_output.shape))
    near = right_output.double() + steps * (right_output.double().abs() * fmt.unit_roundoff)
    y = with_faults(near.to(x.dtype), 2)
    passed = passing(x, y, fmt, operation=of)
    assert judge(to_bits(x[passed], fmt), to_bits(y[passed], fmt), fmt, operation=of).violations == ()
    x[::3, 0], x[1::5], x[2::7, 1] = torch.nan, -torch.inf, torch.inf
    for masked in ("nan", "zero"):
        y = torch.full_like(right_output, torch.nan)
        y[1::5] = 0.0
        passed = passing(x, y, fmt, operation=of, fully_masked=masked)
        found = judge(to_bits(x[passed], fmt), to_bits(y[passed], fmt), fmt, operation=of, fully_masked=masked)
        assert found.violations == ()
        of_nan = passed[x.isnan().any(dim=1)]
        if name in {"log_softmax", "logsumexp"}:
            assert of_nan.all()


def test_counts_what_the_numpy_judge_does_not_see():
    """Of many wrong rows the numpy judge sees some; all are counted."""
    fmt, of = FORMATS["float32"], named("log_softmax")
    x = torch.randn(400, 33, generator=torch.Generator().manual_seed(1))
    y = torch.log_softmax(x, dim=1)
    y[::2] += 1e-3
    y[1::8, 3] = torch.nan
    y[3::8, 4] = torch.inf
    y[5::8, 4] = 1e-30
    found, ours, _ = differences(x, y, fmt, of, Arithmetic(), most_elements=40 * 33)
    # Disorder is looked at in the rows that the numpy judge sees.
    assert found == ["violations"]
    assert ours.rejudged_rows == 40
    counts = {violation.kind: violation.count for violation in ours.violations}
    theirs = judge(to_bits(x, fmt), to_bits(y, fmt), fmt, operation=of)
    wanted = {violation.kind: violation.count for violation in theirs.violations}
    assert counts.pop(FindingKind.ORDER_VIOLATION) < wanted.pop(FindingKind.ORDER_VIOLATION)
    assert counts == wanted


def test_counts_the_queries_that_the_numpy_judge_does_not_see():
    fmt, of = FORMATS["float32"], named("attention windowed")
    x = torch.randn(60, 9, generator=torch.Generator().manual_seed(1))
    y = right(of, x)
    y[::2] += 1e-2
    y[1::8, 3] = torch.nan
    found, ours, _ = differences(x, y, fmt, of, Arithmetic(), most_elements=10 * 9 * 9 * 4)
    assert found == []
    assert ours.rejudged_rows == 10


def test_judges_blocks_and_strides(monkeypatch):
    monkeypatch.setitem(judge_tensors.__globals__["_BLOCK"], "cpu", 700)
    monkeypatch.setitem(attention.SCORES, "cpu", 300)
    fmt = FORMATS["bfloat16"]
    x = torch.randn(130, 40, generator=torch.Generator().manual_seed(1)).to(torch.bfloat16)[:, ::2]
    x[7, 3], x[100, 2] = torch.nan, -torch.inf
    for name in OPERATIONS:
        of = named(name)
        rows = x[90:, :9] if name.startswith("attention") else x
        y = with_faults(right(of, rows.contiguous()), 1)
        found, ours, theirs = differences(rows, y, fmt, of, Arithmetic())
        assert found == [], (name, found, ours, theirs)


def test_leaves_to_numpy_what_has_no_answer_on_the_device():
    fmt, of = FORMATS["float32"], replace(named("log_softmax"), on_device=None)
    x = torch.randn(20, 33, generator=torch.Generator().manual_seed(1))
    assert judge_tensors(x, of.yardstick(x), fmt, operation=of).judged_in == "numpy"


def test_takes_wider_answers_of_rows():
    of, fmt = named("cross_entropy"), FORMATS["float16"]
    x = torch.randn(50, 33, generator=torch.Generator().manual_seed(1)).half()
    y = right(of, x.float())
    y[3] *= 1 + 1e-5
    found, ours, _ = differences(x, y, fmt, of, Arithmetic())
    assert found == []
    assert [violation.row for violation in ours.violations] == [3]


def test_a_row_of_masks_alone_is_what_was_declared():
    of, fmt = named("softmax"), FORMATS["float16"]
    x = torch.full((2, 3), -torch.inf).half()
    zeros = judge_tensors(x, torch.zeros_like(x), fmt, operation=of, fully_masked="zero")
    assert (zeros.violations, zeros.elements, zeros.special_rows, zeros.fully_masked_rows) == ((), 6, 2, 2)
    assert [v.kind for v in judge_tensors(x, torch.zeros_like(x), fmt, operation=of).violations] == ["nan_mismatch"]


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (torch.zeros(2, 3), torch.zeros(3, 2)),
        (torch.zeros(2, 3), torch.zeros(2, 3).half()),
        (torch.zeros(6), torch.zeros(6)),
    ],
)
def test_refuses_what_does_not_fit(x, y):
    with pytest.raises(UsageError, match="expected"):
        judge_tensors(x, y, FORMATS["float32"], operation=named("log_softmax"))
