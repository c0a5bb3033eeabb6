"""Attention's formulas in float64 within their own error of Arb, and Arb around a third arithmetic."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest

from oracles.arrays import quiet
from oracles.attention import Heads, attention_ball, logsumexp_ball
from oracles.formats import FLOAT64
from oracles.reference import stated
from softcheck.operations import attention_bounds as formulas


def heads(seed=0, *, size=1.0, **parameters):
    rng = np.random.default_rng(seed)
    q, k, v = (rng.normal(size=(2, length, 8)).astype(np.float32).astype(np.float64) for length in (5, 9, 9))
    visible = np.tril(np.ones((5, 9), dtype=bool), 4)
    return Heads(q * size, k, v, np.broadcast_to(visible, (2, 5, 9)), **({"scale": 0.3} | parameters))


BIAS = np.random.default_rng(9).normal(size=(2, 5, 9)) * 8.0
FAR = (699.0, 701.0, 2000.0, 1e30)
HEADS = [
    heads(),
    heads(1, size=1000.0),
    heads(2, softcap=2.5),
    heads(3, sink=1.5),
    heads(4, sink=40.0, softcap=30.0, size=50.0),
    replace(heads(7, size=30.0), bias=BIAS),
    replace(heads(8, softcap=2.5, sink=1.5), bias=BIAS),
    replace(heads(5), q=np.eye(5, 8)[None].repeat(2, axis=0)),
    replace(heads(6), v=np.zeros((2, 9, 8))),
    *(heads(10, sink=sign * far) for far in FAR for sign in (1, -1)),
    heads(11, sink=1.0, size=-2000.0),
    heads(12, sink=1e30, size=1e30),
    replace(heads(13, sink=800.0), bias=BIAS * 100),
]


def attention(given):
    with quiet(given.q):
        return in_float64(formulas.attention(given, formulas.IN_FLOAT64, FLOAT64))


def logsumexp(given):
    with quiet(given.q):
        return in_float64(formulas.logsumexp(given, formulas.IN_FLOAT64))


def in_float64(found):
    return stated(*(part.reshape(-1, part.shape[2]) for part in (found.value, found.error)), absolute=2.0**-860)


def values(reference):
    return reference.high, reference.low, reference.relative_error * np.abs(reference.high) + reference.absolute_error


@pytest.mark.parametrize("given", HEADS)
def test_float64_is_within_its_own_error_of_arb(given):
    (high, _, off), (proven, low, _) = values(attention(given)), values(attention_ball(given))
    assert (np.abs((high - proven) - low) <= off * 1.01).all()


@pytest.mark.parametrize("given", [HEADS[0], HEADS[2], HEADS[3]])
def test_a_wrong_oracle_is_outside_of_its_error(given):
    wrong = attention(replace(given, scale=given.scale * (1 + 1e-7)))
    (high, _, off), (proven, low, _) = values(wrong), values(attention_ball(given))
    assert (np.abs((high - proven) - low) > off * 1.01).any()


@pytest.mark.parametrize("given", HEADS)
def test_arb_agrees_with_a_sum_in_many_digits(given):
    high, low, off = values(attention_ball(given))
    exact = [in_many_digits(given, head, query) for head in range(2) for query in range(5)]
    with mpmath.workdps(60):
        for found, rest, error, due in zip(high.ravel(), low.ravel(), off.ravel(), np.ravel(exact), strict=True):
            assert abs(mpmath.mpf(found) + mpmath.mpf(rest) - due) <= error


def in_many_digits(given, head, query):
    with mpmath.workdps(60):
        total, weights = sum_in_many_digits(given, head, query)
        return [
            mpmath.fdot(zip(weights, given.v[head, : len(weights), d].tolist(), strict=True)) / total for d in range(8)
        ]


def sum_in_many_digits(given, head, query):
    with mpmath.workdps(100):
        numbers = [[mpmath.mpf(x) for x in row] for row in given.k[head]]
        scores = []
        for key in np.flatnonzero(given.visible[head, query]):
            score = mpmath.fdot(zip(given.q[head, query].tolist(), numbers[key], strict=True)) * mpmath.mpf(given.scale)
            score = given.softcap * mpmath.tanh(score / given.softcap) if given.softcap else score
            scores.append(score if given.bias is None else score + given.bias[head, query, key])
        weights = [mpmath.exp(score) for score in scores]
        return mpmath.fsum(weights) + (mpmath.exp(given.sink) if np.isfinite(given.sink) else 0), weights


def test_a_query_that_sees_nothing_gives_zero():
    given = replace(heads(), visible=np.zeros((2, 5, 9), dtype=bool))
    assert not attention(given).high.any()
    assert not attention_ball(given).high.any()


@pytest.mark.parametrize("given", HEADS)
def test_logarithms_in_float64_are_within_their_own_error_of_arb(given):
    (high, _, off), (proven, low, _) = values(logsumexp(given)), values(logsumexp_ball(given))
    assert (np.abs((high - proven) - low) <= off * 1.01).all()
    with mpmath.workdps(60):
        total = sum_in_many_digits(given, 1, 4)[0]
        due = mpmath.log(total)
        assert abs(mpmath.mpf(proven[-1, 0]) + mpmath.mpf(low[-1, 0]) - due) <= 1e-25 * max(1, abs(due))


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_far_sink_leaves_small_errors(far, sign):
    found = logsumexp(heads(10, sink=sign * far))
    assert (found.relative_error < 2.0**-40).all()
    _, _, off = values(attention(heads(10, sink=sign * far)))
    assert (off < 2.0**-40).all()


def test_a_sink_far_above_all_scores_is_the_logarithm():
    given = heads(1, sink=1.0, size=-2000.0)
    given = replace(given, q=np.full_like(given.q, -1000.0), k=np.abs(given.k) + 1.0)
    assert (logsumexp(given).high == 1.0).all()


@pytest.mark.parametrize("size", [1.0, 300.0, 3000.0])
@pytest.mark.parametrize("sink", [-np.inf, 0.0, 800.0])
def test_changed_exponents_change_weights_and_sums_by_no_more(size, sink):
    """Errors of exponents of any size, where float64 holds neither e^-d nor e^E."""
    rng = np.random.default_rng(int(size))
    given = heads(20, size=size, sink=sink)
    with quiet(given.q):
        powers, total, _ = formulas.softmax(given, formulas.IN_FLOAT64)
    shape = powers.value.shape
    errors = np.abs(rng.normal(size=shape)) * rng.choice([1e-6, 1.0, 150.0, 900.0], shape)
    errors[..., 9:] = 0.0
    powers = replace(powers, log=errors)
    growth = powers.growth()
    allowed = (powers / replace(total, log=growth)).shares().error
    scores = formulas.scores(given, formulas.EXACT).value
    with mpmath.workdps(400):
        for head, query in np.ndindex(2, 5):
            seen = np.flatnonzero(given.visible[head, query])
            logits = [mpmath.mpf(x) for x in scores[head, query, seen]]
            before = _softmax(logits, sink)
            for signs in (np.ones(len(seen)), -np.ones(len(seen)), rng.choice([-1, 1], len(seen))):
                changes = errors[head, query, seen] * signs
                after = _softmax([score + change for score, change in zip(logits, changes, strict=True)], sink)
                assert abs(after[1] - before[1]) <= growth[head, query, 0] * (1 + 1e-9) + 1e-9
                for key, old, new in zip(seen, before[0], after[0], strict=True):
                    assert abs(new - old) <= allowed[head, query, key] * (1 + 1e-9) + 1e-300


def _softmax(scores, sink):
    weights = [mpmath.exp(score) for score in scores]
    total = mpmath.fsum(weights) + (mpmath.exp(sink) if np.isfinite(sink) else 0)
    return [weight / total for weight in weights], mpmath.log(total)
