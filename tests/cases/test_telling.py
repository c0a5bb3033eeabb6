"""Telling rows show a dropped column, a doubled tile and a wrong rescaling in every format, at any width."""

import numpy as np
import pytest

from oracles.formats import FORMATS, decode, encode
from softcheck.cases.telling import telling_batch
from softcheck.judge.judge import judge, reference

DTYPES = ("float16", "bfloat16", "float32")


def violations(bits, outputs, fmt):
    return {str(v.kind) for v in judge(bits, encode(outputs, fmt), fmt).violations}


def softmax(bits, fmt, weigh=lambda weights: weights):
    logits = decode(bits, fmt)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return weights / weigh(weights.copy()).sum(axis=1, keepdims=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [1, 2, 3, 65, 1000, 4097])
def test_exact_answers_pass(dtype, columns):
    fmt = FORMATS[dtype]
    bits = telling_batch(columns, 128, fmt, np.random.default_rng(0), values=(104.0, 1e-6, 4096), places=(5,))
    exact = reference(decode(bits, fmt), fmt)
    assert bits.shape[1] == columns
    assert bits.shape[0] > 70
    assert violations(bits, exact.high, fmt) == set()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("column", [0, 127, 128, 1000, 2047])
@pytest.mark.parametrize("factor", [0.0, 2.0])
def test_a_column_dropped_or_doubled_in_the_sum_shows(dtype, column, factor):
    fmt = FORMATS[dtype]

    def weigh(weights):
        weights[:, column] *= factor
        return weights

    bits = telling_batch(2048, 128, fmt, np.random.default_rng(1))
    assert violations(bits, softmax(bits, fmt, weigh), fmt)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_last_tile_that_is_not_summed_shows_in_the_first_rows(dtype):
    fmt = FORMATS[dtype]

    def weigh(weights):
        weights[:, 8192:] = 0.0
        return weights

    bits = telling_batch(8200, 1024, fmt, np.random.default_rng(2), most=4)
    assert bits.shape == (4, 8200)
    assert violations(bits, softmax(bits, fmt, weigh), fmt)


def test_values_appear_as_logits_and_as_distances():
    fmt = FORMATS["float32"]
    rows = decode(telling_batch(500, 64, fmt, np.random.default_rng(0), values=(33.0,)), fmt)
    finite = rows[np.isfinite(rows).all(axis=1)]
    distances = finite.max(axis=1, keepdims=True) - finite
    assert (finite == 33.0).any()
    assert (finite == -33.0).any()
    assert (distances == 33.0).any()
    assert (finite == np.nextafter(np.float32(33.0), np.float32(34.0))).any()


def test_special_values():
    fmt = FORMATS["float16"]
    values = decode(telling_batch(100, 32, fmt, np.random.default_rng(0)), fmt)
    assert np.isnan(values).any()
    assert np.isneginf(values).all(axis=1).any()
    assert np.isposinf(values).any()
    assert (np.signbit(values) & (values == 0.0)).any()


@pytest.mark.parametrize("seed", range(8))
def test_first_tiles_of_minus_infinity_are_among_the_first_rows(seed):
    columns, tile = 1000, 256
    logits = decode(
        telling_batch(columns, tile, FORMATS["float16"], np.random.default_rng(seed), most=4), FORMATS["float16"]
    )
    assert (np.isneginf(logits[:, :tile]).all(axis=1) & np.isfinite(logits[:, -1])).any()
