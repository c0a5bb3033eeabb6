"""Every built-in variant against a softmax in extended precision, and every declared defect where it is declared."""

import numpy as np
import pytest

from oracles.formats import FORMATS, decode, encode, quantum_exponent
from softcheck.cases.case import Layout
from softcheck.variants.registry import BUILTIN

SHAPES = [(0, 5), (3, 0), (0, 0), (3, 1), (5, 2), (3, 7), (2, 128), (3, 129), (2, 513), (3, 781), (2, 1025), (1, 5000)]
CONTIGUOUS = Layout()
SIXTEEN_BIT = ("float16", "bfloat16")


def in_turn(values, first=0):
    """Pairs of a value and a dtype, in which each value has one dtype, another one from value to value."""
    return [(value, list(FORMATS)[(at + first) % len(FORMATS)]) for at, value in enumerate(values)]


IGNORES_STRIDES = ("hybrid", "hybrid_tiled")


def logits(shape, scale=3.0, shift=0.0, seed=1):
    return np.random.default_rng(seed).standard_normal(shape) * scale + shift


def layouts(columns):
    return [
        Layout(row_stride=columns + 5, offset=3),
        Layout(row_stride=2 * columns + 1, column_stride=2),
        Layout(row_stride=1, column_stride=4, offset=1),
        Layout(row_stride=0),
    ]


def softmax(values):
    wide = values.astype(np.longdouble)
    with np.errstate(all="ignore"):
        powers = np.exp(wide - wide.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)


def allowed(name, fmt, values, exact):
    """A plain tolerance that tells right from wrong logic; the judge's own bound is tested with the judge."""
    rounds_every_step = name in ("eager", "eager_compiled")
    u = fmt.unit_roundoff if rounds_every_step or fmt.width > 16 else 2.0**-24
    reach = 2 * np.abs(np.where(np.isfinite(values), values, 0.0)).max(axis=1, keepdims=True)
    half_quantum = np.exp2(quantum_exponent(exact.astype(np.float64), fmt) - 1.0)
    return u * (3 * reach + 40) * exact + half_quantum * (1.02 if fmt.width == 16 and not rounds_every_step else 2.02)


def check(name, dtype, bits, output):
    fmt = FORMATS[dtype]
    values, result = decode(bits, fmt), decode(output, fmt)
    exact = softmax(values)
    assert np.array_equal(np.isnan(result), np.isnan(exact)), (
        "NaN where the exact softmax has none, or none where it has"
    )
    ordinary = ~np.isnan(exact)
    error = np.abs(result - exact)
    limit = allowed(name, fmt, values, exact)
    assert (error <= limit)[ordinary].all(), f"off by up to {np.nanmax(error / limit):.3g} times the tolerance"
    assert (result[np.isneginf(values) & ordinary] == 0).all()


def run(child, name, dtype, cases):
    fmt = FORMATS[dtype]
    inputs = [(encode(values, fmt), layout) for values, layout in cases]
    return [(bits, output) for (bits, _), output in zip(inputs, child.ask(name, dtype, inputs), strict=True)]


def widths_where_right(name):
    if name == "notebook_basic":
        return [s for s in SHAPES if s[1] & (s[1] - 1) == 0]
    return [s for s in SHAPES if name != "notebook_vectorized" or s[1] <= 512]


@pytest.mark.parametrize(("name", "dtype"), in_turn(BUILTIN))
def test_right_on_contiguous_rows(interpreted, name, dtype):
    cases = [(logits(shape, shift=-4.0), CONTIGUOUS) for shape in widths_where_right(name)]
    for bits, output in run(interpreted, name, dtype, cases):
        assert output.shape == bits.shape
        if bits.size:
            check(name, dtype, bits, output)


@pytest.mark.parametrize(("name", "dtype"), in_turn([n for n in BUILTIN if n not in IGNORES_STRIDES], 1))
def test_honours_strides_and_offsets(interpreted, name, dtype):
    width = 128 if name == "notebook_basic" else 129
    rows = logits((4, width))
    cases = [(np.repeat(rows[:1], 4, axis=0) if layout.row_stride == 0 else rows, layout) for layout in layouts(width)]
    for bits, output in run(interpreted, name, dtype, cases):
        check(name, dtype, bits, output)


@pytest.mark.parametrize(("name", "dtype"), in_turn(BUILTIN, 2))
def test_special_rows(interpreted, name, dtype):
    inf = float("inf")
    cases = []
    for width in (1, 64, 128) if name == "notebook_basic" else (1, 33, 129, 500):
        rows = logits((8, width))
        rows[0] = -inf
        rows[1, ::2] = -inf
        rows[2, : width // 2] = -inf
        rows[3, width // 2 + 1 :] = -inf
        rows[4, -1] = inf
        rows[5, 0] = np.nan
        rows[6] = -inf
        rows[6, -1] = -3.0
        cases.append((rows, CONTIGUOUS))
    for bits, output in run(interpreted, name, dtype, cases):
        check(name, dtype, bits, output)


@pytest.mark.parametrize("name", ["online", "notebook_tiled", "tiled_float64_sum", "hybrid_tiled"])
def test_tiles_that_are_all_masked(interpreted, name):
    rows = logits((4, 9000))
    rows[0, :8500] = -np.inf
    rows[1, 20:] = -np.inf
    rows[2, 4000:8300] = -np.inf
    rows[3] = -np.inf
    [(bits, output)] = run(interpreted, name, "float32", [(rows, CONTIGUOUS)])
    check(name, "float32", bits, output)


def test_online_rescales_at_every_step_of_a_rising_ramp(interpreted):
    [(bits, output)] = run(interpreted, "online", "float32", [(np.arange(3000.0)[None] / 8, CONTIGUOUS)])
    check("online", "float32", bits, output)


@pytest.mark.parametrize("name", ["persistent", "multi_row"])
def test_more_rows_than_programs_or_tile_rows(interpreted, name):
    [(bits, output)] = run(interpreted, name, "float16", [(logits((131, 5)), CONTIGUOUS)])
    check(name, "float16", bits, output)


@pytest.mark.parametrize("name", IGNORES_STRIDES)
@pytest.mark.parametrize("layout", layouts(129)[:3])
def test_defect_strides_are_ignored(interpreted, name, layout):
    [(bits, output)] = run(interpreted, name, "float32", [(logits((4, 129)), layout)])
    with pytest.raises(AssertionError):
        check(name, "float32", bits, output)


@pytest.mark.parametrize(("width", "dtype"), in_turn([7, 129, 781, 9]))
def test_defect_basic_counts_lanes_beyond_the_row(interpreted, dtype, width):
    [(bits, output)] = run(interpreted, "notebook_basic", dtype, [(logits((2, width), shift=-4.0), CONTIGUOUS)])
    with pytest.raises(AssertionError, match="tolerance"):
        check("notebook_basic", dtype, bits, output)


@pytest.mark.parametrize("dtype", FORMATS)
def test_defect_vectorized_stops_at_512_columns(interpreted, dtype):
    [(bits, output)] = run(interpreted, "notebook_vectorized", dtype, [(logits((2, 781)), CONTIGUOUS)])
    assert np.isnan(decode(output[:, 512:], FORMATS[dtype])).all(), "columns from 512 on keep the poison"
    check("notebook_vectorized", dtype, bits[:, :512], output[:, :512])


@pytest.mark.parametrize("dtype", SIXTEEN_BIT)
@pytest.mark.parametrize("name", ["eager", "eager_compiled"])
def test_defect_eager_rounds_every_step(interpreted, name, dtype):
    [(bits, output)] = run(interpreted, name, dtype, [(logits((8, 781)), CONTIGUOUS)])
    with pytest.raises(AssertionError, match="tolerance"):
        check("torch", dtype, bits, output)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_defect_prescaled_error_grows_with_the_logits(interpreted, dtype):
    fmt = FORMATS[dtype]
    # Near 2^(p + 2) the spacing is 8, so neighbours differ by exponents that exp2 resolves and the product rounds.
    rows = 2.0 ** (fmt.precision + 2) + 8.0 * np.arange(64)[None] + 512 * np.arange(8)[:, None]
    pair = run(interpreted, "exp2_prescaled", dtype, [(rows, CONTIGUOUS)])[0]
    right = run(interpreted, "online", dtype, [(rows, CONTIGUOUS)])[0]

    def worst(bits, output):
        exact = softmax(decode(bits, fmt))
        quantum = np.exp2(quantum_exponent(exact.astype(np.float64), fmt).astype(float))
        return float((np.abs(decode(output, fmt) - exact) / quantum).max())

    assert worst(*pair) > 1.2 * worst(*right)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_defect_prescaled_overflows(interpreted, dtype):
    fmt = FORMATS[dtype]
    rows = np.array([[fmt.max, 0.0, -1.0], [-fmt.max, -fmt.max, -fmt.max]])
    [(_, output)] = run(interpreted, "exp2_prescaled", dtype, [(rows, CONTIGUOUS)])
    assert np.isnan(decode(output, fmt)).any(axis=1).all()
