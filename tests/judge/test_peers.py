"""The verdicts of usual rules: what they let through, what they refuse although it is right, and what they can't judge."""

from pathlib import Path

import pytest
import torch
from family_cases import cases_of

from softcheck.judge.measurement import merge
from softcheck.judge.peers import CLOSE, TWICE, verdicts
from softcheck.operations.heads import Attending
from softcheck.operations.registry import operation
from softcheck.run.protocol import Measured, RunCase
from softcheck.run.serving import Server

KERNELS = Path(__file__).parents[1] / "kernels" / "attentions.py"


@pytest.fixture(scope="module")
def heads():
    """Exact answers of two heads, rounded to bfloat16, and a plain attention in bfloat16."""
    x = torch.randn(2, 70, generator=torch.Generator().manual_seed(0)).mul_(2).to(torch.bfloat16)
    q, k, v = (part.double() for part in Attending(head_dim=16, scale=0.25).operands(x))
    plain = operation("attention", {"head_dim": 16}).plain(x)
    return (torch.softmax(q @ k.mT * 0.25, dim=-1) @ v).bfloat16().view(2, -1), plain


def test_an_exact_answer_is_accepted_and_another_head_is_not(heads):
    exact, plain = heads
    assert verdicts(exact, exact, plain) == {TWICE: True, CLOSE: True}
    assert verdicts(exact.flip(0), exact, plain) == {TWICE: False, CLOSE: False}
    assert verdicts(torch.full_like(exact, torch.nan), exact, plain) == {TWICE: False, CLOSE: False}


def test_twice_the_error_lets_a_head_pass_that_is_too_large(heads):
    exact, plain = heads
    wrong = exact.clone()
    wrong[0] *= 1 + 2.0**-6
    assert verdicts(wrong, exact, plain) == {TWICE: True, CLOSE: False}


def test_the_rule_allows_what_arithmetic_on_the_answer_rounds_and_half_more_with_a_soft_cap():
    exact = torch.tensor([0.25, 1.0], dtype=torch.float16)
    allowed = 2 * float(((exact + 0.3 - 0.3) - exact).abs().max())
    assert allowed > 0
    off = torch.tensor([0.0, allowed], dtype=torch.float16)
    plain = exact + torch.tensor([0.0, 2.0**-6], dtype=torch.float16)
    assert verdicts(exact + off, exact, exact)[TWICE]
    assert not verdicts(exact + 2 * off, exact, exact)[TWICE]
    assert not verdicts(exact + 3 * 2.0**-6, exact, plain)[TWICE]
    assert verdicts(exact + 3 * 2.0**-6, exact, plain, softcap=True)[TWICE]


def test_a_rule_that_has_no_measure_says_nothing(heads):
    exact, plain = heads
    assert TWICE not in verdicts(exact, exact, torch.full_like(plain, torch.inf))
    assert TWICE not in verdicts(exact.float(), exact.float(), plain.float())
    assert verdicts(exact[:0], exact[:0], plain[:0]) == {}


@pytest.mark.parametrize(("function", "measured"), [("by_heads", 2), ("that_selects", 1)])
def test_a_case_is_judged_by_peers_where_that_is_asked_for(function, measured):
    """A right function is accepted, and not judged where NaN behind a mask spoils the plain attention."""
    server, name = Server(torch.device("cpu")), f"{KERNELS}:{function}"
    (special,) = (case for case in cases_of("heads", "bfloat16") if case.id == "heads/hidden-part-48/bfloat16")
    (ties,) = (case for case in cases_of("ties", "bfloat16") if case.shape[1] == 33)
    found = []
    for case in (special, ties):
        assert not next(r for r in server.answer(RunCase(case, name)) if isinstance(r, Measured)).result.peers
        found += [r.result for r in server.answer(RunCase(case, name, None, True)) if isinstance(r, Measured)]
    assert merge(found).peers[TWICE] == (measured, 0)
    assert merge(found).peers[CLOSE][0] == 2
