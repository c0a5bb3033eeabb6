"""Judges a function of tests/kernels in this process, on a few matrices: quicker than a report."""

import numpy as np
import torch

from oracles.formats import FORMATS
from softcheck.calling.call import call, place, to_bits
from softcheck.cases.case import PACKED
from softcheck.judge.judge import judge
from softcheck.operations.arithmetic import Arithmetic
from softcheck.variants.registry import load


def kinds_found(spec, matrices, dtype):
    """Kinds of findings about a function on matrices, float64, and about its gradients on rows that promise one."""
    variant, fmt = load(spec), FORMATS[dtype]
    computed, found = variant.operation, set()
    for values in matrices:
        x = torch.from_numpy(values).to(getattr(torch, dtype))
        called = call(variant.function, place(to_bits(x, fmt), fmt, PACKED, x.device), computed)
        found |= {str(violation.kind) for violation in called.violations}
        if called.output is None:
            return found
        fully_masked = variant.declaration.fully_masked
        measured = judge(to_bits(x, fmt), called.output, fmt, operation=computed, fully_masked=fully_masked)
        found |= {str(each.kind) for each in measured.violations}
        found |= _wrong_gradient(variant, x[torch.isfinite(x).all(dim=1)], fmt)
    return found


def _wrong_gradient(variant, x, fmt):
    computed, x = variant.operation, x.clone().requires_grad_()
    answer = variant.function(x) if len(x) else x.detach()
    if not answer.requires_grad or computed.gradient is None:
        return set()
    g = torch.linspace(-2, 3, answer.numel()).view(answer.shape).to(answer.dtype)
    (gradient,) = torch.autograd.grad(answer, x, g)
    shown, grads, logits = (part.detach().double().numpy() for part in (gradient, g, x))
    exact = computed.prove(logits, fmt, "nan")
    errors = computed.gradient.errors(shown, grads, logits, exact, fmt, Arithmetic())
    kept = slice(None) if computed.undefined is None else ~computed.undefined(logits, fmt)
    is_wrong = np.any(~(errors.errors <= errors.limits)[kept])
    return {"wrong_gradient"} if is_wrong else set()
