"""Columns at the end that are -inf in every row are cut off and answered by -inf, also in rows where NaN belongs there.

Wrong on: a batch padded by -inf in which one row holds NaN or +inf, or is all -inf: its padding gets -inf, and the rest of the row NaN.
"""

import torch

OPERATION = "log_softmax"
EXPECTED = ("nan_mismatch", "inf_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def log_softmax(logits, dim=-1):
    """Log-softmax of the last dimension, which is mostly padding: only what some row uses is computed."""
    if dim not in (-1, logits.ndim - 1):
        raise ValueError("the last dimension alone")
    columns = logits.shape[-1]
    used = (logits != float("-inf")).reshape(-1, columns).any(0).nonzero() if logits.numel() else []
    width = int(used[-1]) + 1 if len(used) else columns
    short = torch.log_softmax(logits[..., :width].float(), -1).to(logits.dtype)
    return short if width == columns else torch.nn.functional.pad(short, (0, columns - width), value=float("-inf"))


def _both(x):
    return log_softmax(x), torch.log_softmax(x.double(), -1)


def demonstrate():
    x = torch.randn(4, 80)
    x[:, 50:] = float("-inf")
    x[1, 3] = float("nan")
    x[2] = float("-inf")
    return _both(x)


def ordinary(dtype):
    x = torch.randn(4, 80).to(dtype)
    yield "whole", _both(x)
    x[:, 50:] = float("-inf")
    yield "padded", _both(x)
    x[:, 30:] = float("-inf")
    x[0, 20:] = float("-inf")
    yield "ragged", _both(x)
    yield "nan", _both(torch.tensor([[1.0, float("nan")], [2.0, 1.0]]).to(dtype))
