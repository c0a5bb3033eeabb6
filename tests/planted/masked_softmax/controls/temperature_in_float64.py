"""The reciprocal of the temperature and the product with the logits are float64, the exponentials float32."""

import softcheck

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@softcheck.variant(parameters={"scale": 0.3})
def softmax(x, *, temperature):
    differences = x.double() / temperature
    differences = differences - differences.amax(-1, keepdim=True) if x.numel() else differences
    e = differences.float().exp()
    return (e / e.sum(-1, keepdim=True)).to(x.dtype).contiguous()
