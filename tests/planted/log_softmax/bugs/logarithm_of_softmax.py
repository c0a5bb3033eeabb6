"""log(softmax(x)): a logit 104 below its row's maximum has the probability 0, and -inf for a logarithm.

Reports: tenstorrent/pytorch2.0_ttnn#1341, pytorch/pytorch#187053.
"""

import torch

import softcheck

EXPECTED = ("inf_mismatch", "ulp_exceeds_bound")
SHOWN_BY = ("huge/every-scale-4",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@softcheck.variant(operation="log_softmax")
def log_softmax(x):
    return torch.softmax(x, dim=-1, dtype=torch.float32).log().to(x.dtype).contiguous()
