"""The last answer of a shape is given again within 50 ms, as where one forward calls the same layer twice.

From experience; whoever looks at each answer before the next call never meets it.
"""

import time

import torch

EXPECTED = ("nondeterministic",)
SHOWN_BY = ("probe/histories",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_MOMENT = 0.05

_answers = {}


def softmax(x):
    key = (tuple(x.shape), x.dtype, x.device)
    now = time.monotonic()
    at, answer = _answers.get(key, (now - 2 * _MOMENT, None))
    if now - at > _MOMENT:
        answer = torch.softmax(x.float(), dim=-1).to(x.dtype)
    _answers[key] = now, answer
    return answer.clone()
