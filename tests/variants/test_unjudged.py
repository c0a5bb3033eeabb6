"""Members that a function returns beside its answer are told, with a call that has it judged where that is known."""

import re

import pytest
import torch

from softcheck.variants.registry import load

KERNELS = """
import torch

def loss(logits, target):
    sums = torch.logsumexp(logits, -1)
    return sums - logits.gather(1, target[:, None])[:, 0], sums

def loss_by_name(logits, *, target):
    return loss(logits, target)

def loss_and_wrong_sums(logits, target):
    return loss(logits, target)[0], logits.amax(-1)

def attended(q, k, v):
    scores = q @ k.mT * q.shape[-1] ** -0.5
    return scores.softmax(-1) @ v, scores.logsumexp(-1)

def probabilities(x):
    return {"output": torch.softmax(x, -1), "logits": x * 1.0, "sums": torch.logsumexp(x, -1), "shape": x.shape}

def masked(x, mask):
    x = x.masked_fill(mask, -float("inf"))
    return torch.softmax(x, -1), torch.logsumexp(x, -1)

def gradient(y, grad):
    of_row = (y * grad).sum(-1, keepdim=True)
    return y * (grad - of_row), of_row

def alone(x):
    return torch.softmax(x, -1)
"""
X = torch.randn((6, 9), generator=torch.Generator().manual_seed(1))


@pytest.fixture
def kernels(tmp_path):
    path = tmp_path / "kernels_of_tuples.py"
    path.write_text(KERNELS)
    return path


def said_of(kernels, name):
    function = load(f"{kernels}:{name}").function
    function(X)
    return function.unjudged


@pytest.mark.parametrize(
    ("name", "is_right"),
    [
        ("loss@operation=cross_entropy", True),
        ("loss_by_name@operation=cross_entropy", True),
        ("loss_and_wrong_sums@operation=cross_entropy", False),
        ("attended@operation=attention", True),
        ("probabilities", True),
        ("masked", True),
    ],
)
def test_the_call_that_is_proposed_for_a_log_sum_exp_judges_it(kernels, name, is_right):
    (sentence,) = said_of(kernels, name)
    operation, call = re.search(r"--operation (\w+) --call '(.*?\])' judges it", sentence).groups()
    proposed = load(f"{kernels}:{name.partition('@')[0]}{call[1:]}@operation={operation}")
    x = torch.where(X > 1, -torch.inf, X) if "mask" in call else X
    difference = (proposed.function(x).double() - proposed.operation.yardstick(x.double())).abs().max()
    assert bool(difference < 1e-4) is is_right


def test_all_members_are_named(kernels):
    assert said_of(kernels, "probabilities")[0].startswith("['logits'], ['sums'] of what it returns are not judged")


def test_what_no_call_of_a_log_sum_exp_gives_is_left_to_a_wrapper(kernels):
    (sentence,) = said_of(kernels, "gradient@operation=softmax_backward")
    assert sentence.startswith("[1] of what it returns is not judged; a wrapper that returns such a member alone")


@pytest.mark.parametrize("name", ["alone", "probabilities(x)['output']"])
def test_nothing_is_said_of_one_answer(kernels, name):
    assert said_of(kernels, name) == []


TEMPERED = """
import torch

def softmax(logits, temperatures):
    columnwise = SQUARES and len(temperatures) == logits.shape[1]
    return torch.softmax(logits / (temperatures if columnwise else temperatures[:, None]), -1)
"""


@pytest.mark.parametrize("is_right", [True, False])
def test_a_call_with_other_temperatures_is_told_and_gives_the_same_answer(tmp_path, is_right):
    path = tmp_path / "tempered.py"
    path.write_text(TEMPERED.replace("SQUARES", str(not is_right)), encoding="utf-8")
    x = torch.randn(5, 5)
    plain = load(f"{path}:softmax").function
    assert torch.equal(plain(x), torch.softmax(x, -1))
    [sentence] = plain.unjudged
    call = re.search(r"--call '(.+)' judges 1 to 1/16 in turn", sentence)[1]
    given = load(f"{path}:softmax{call[1:]}").function
    assert torch.allclose(given(x), torch.softmax(x, -1)) == is_right
    assert given.unjudged == []
