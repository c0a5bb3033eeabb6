"""The sum is kept for each output of a forward: its second backward gets the sum of the first one's gradient.

From experience: two losses share one forward, and the sum over a row was to be computed once for each output.
"""

import weakref

import softcheck

EXPECTED = ("nondeterministic", "ulp_exceeds_bound")
SHOWN_BY = ("probe/histories",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_sums = {}


def _sum(g, y, p):
    held, version, total = _sums.get(id(y), (None, None, None))
    if held is None or held() is not y or version != y._version:
        total = (p * g).sum(dim=-1, keepdim=True)
        _sums[id(y)] = weakref.ref(y), y._version, total
    return total


@softcheck.variant(operation="softmax_backward", dtypes=("float16", "bfloat16", "float32"))
def softmax_backward(grad, y):
    g, p = grad.float(), y.float()
    return (p * (g - _sum(g, y, p))).to(y.dtype)
