"""The compiled judge on tensors gives the figures of torch's own operations, and is not used where it does not."""

import pytest
import torch
from test_tensors import named, right

from oracles.formats import FORMATS
from softcheck.judge import compiled
from softcheck.judge.judge import STANDARD
from softcheck.judge.tensor_rows import TensorJudge


def pairs(name, dtype):
    of, fmt = named(name), FORMATS[dtype]
    x = (3 * torch.randn(997, 2, generator=torch.Generator().manual_seed(1))).to(getattr(torch, dtype))
    return TensorJudge(of, fmt, fmt, "nan", STANDARD), x, right(of, x)


def test_a_compiled_judge_agrees_with_what_it_is_made_of():
    assert compiled.compiled(*pairs("softmax", "float16")) is not None


@pytest.mark.parametrize("fault", ["raises", "clears", "counts"])
def test_a_compiler_that_fails_or_contradicts_torch_is_not_used(monkeypatch, fault):
    judge, x, y = pairs("softmax", "float16")

    def made(function, **_):
        def wrong(x, y):
            found = function(x, y)
            if fault == "raises":
                raise RuntimeError("no compiler")
            return found._replace(
                **({"clear": torch.ones_like(found.clear)} if fault == "clears" else {"errors": found.errors + 1})
            )

        return wrong

    monkeypatch.setattr(torch, "compile", made)
    assert compiled.compiled(judge, x, y) is None


def test_a_shape_is_compiled_once_it_was_judged_often(monkeypatch):
    judge, x, y = pairs("softmax", "float16")
    monkeypatch.setattr(compiled, "ENOUGH", 2 * x.numel())
    calls = []
    monkeypatch.setattr(compiled, "compiled", lambda *_: calls.append("compiled") or judge.judged)
    for _ in range(3):
        compiled.judged(judge, x, y)
    assert not calls, "not worth it on a CPU"
    monkeypatch.setattr(compiled, "_is_worth_it", lambda *_: True)
    for _ in range(3):
        compiled.judged(judge, x, y)
    assert calls == ["compiled"]
