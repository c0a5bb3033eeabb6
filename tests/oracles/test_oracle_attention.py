"""Attention's oracles: float64 within its own error of Arb, and Arb around a third arithmetic."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest

from oracles.attention import Heads, attention, attention_ball, logsumexp, logsumexp_ball


def heads(seed=0, *, size=1.0, **parameters):
    rng = np.random.default_rng(seed)
    q, k, v = (rng.normal(size=(2, length, 8)).astype(np.float32).astype(np.float64) for length in (5, 9, 9))
    visible = np.tril(np.ones((5, 9), dtype=bool), 4)
    return Heads(q * size, k, v, np.broadcast_to(visible, (2, 5, 9)), **({"scale": 0.3} | parameters))


BIAS = np.random.default_rng(9).normal(size=(2, 5, 9)) * 8.0
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
]


def values(reference):
    return reference.high, reference.low, reference.relative_error * np.abs(reference.high)


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
        numbers = [[mpmath.mpf(x) for x in row] for row in given.k[head]]
        scores = []
        for key in np.flatnonzero(given.visible[head, query]):
            score = mpmath.fdot(zip(given.q[head, query].tolist(), numbers[key], strict=True)) * mpmath.mpf(given.scale)
            score = given.softcap * mpmath.tanh(score / given.softcap) if given.softcap else score
            scores.append(score if given.bias is None else score + given.bias[head, query, key])
        weights = [mpmath.exp(score) for score in scores]
        total = mpmath.fsum(weights) + (mpmath.exp(given.sink) if np.isfinite(given.sink) else 0)
        return [
            mpmath.fdot(zip(weights, given.v[head, : len(weights), d].tolist(), strict=True)) / total for d in range(8)
        ]


def test_a_query_that_sees_nothing_gives_zero():
    given = replace(heads(), visible=np.zeros((2, 5, 9), dtype=bool))
    assert not attention(given).high.any()
    assert not attention_ball(given).high.any()


@pytest.mark.parametrize("given", HEADS)
def test_logarithms_in_float64_are_within_their_own_error_of_arb(given):
    (high, _, off), (proven, low, _) = values(logsumexp(given)), values(logsumexp_ball(given))
    assert (np.abs((high - proven) - low) <= off * 1.01).all()
    with mpmath.workdps(60):
        scores = [
            mpmath.fdot(zip(given.q[1, 4].tolist(), k, strict=True)) * mpmath.mpf(given.scale)
            for k in given.k[1].tolist()
        ]
        if given.softcap:
            scores = [given.softcap * mpmath.tanh(score / given.softcap) for score in scores]
        if given.bias is not None:
            scores = [score + number for score, number in zip(scores, given.bias[1, 4].tolist(), strict=True)]
        total = mpmath.fsum(map(mpmath.exp, scores)) + (mpmath.exp(given.sink) if np.isfinite(given.sink) else 0)
        assert abs(mpmath.mpf(proven[-1, 0]) + mpmath.mpf(low[-1, 0]) - mpmath.log(total)) < 1e-25
