"""A smoothing of 0.1 unless another is given, by keyword alone, computed in at least float32 whatever autocast says; the class is a loss module."""

import torch

OPERATION = "cross_entropy"
FUNCTION = "SmoothedCrossEntropy"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32", "float64")
BACKENDS = ("interpreter", "cuda")


class SmoothedCrossEntropy(torch.nn.Module):
    def __init__(self, *, label_smoothing=0.1, ignore_index=-100, reduction="mean"):
        super().__init__()
        self.options = {"label_smoothing": label_smoothing, "ignore_index": ignore_index, "reduction": reduction}

    def forward(self, logits, targets):
        with torch.autocast(logits.device.type, enabled=False):
            wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
            return torch.nn.functional.cross_entropy(wide, targets, **self.options)


def ordinary(dtype):
    for rows, classes in ((4, 100), (1, 1), (2, 9000), (500, 3)):
        x, target = torch.randn(rows, classes).to(dtype), torch.randint(0, classes, (rows,))
        target[-1] = -100 if rows > 1 else target[-1]
        for reduction in ("mean", "sum", "none"):
            exact = torch.nn.functional.cross_entropy(x.double(), target, label_smoothing=0.1, reduction=reduction)
            yield f"{rows}x{classes} {reduction}", (SmoothedCrossEntropy(reduction=reduction)(x, target), exact)
    x = torch.randn(4, 12).to(dtype)
    x[0, 3], x[1, 2] = float("-inf"), float("nan")
    target = torch.tensor([1, 2, 3, -100])
    exact = torch.nn.functional.cross_entropy(x.double(), target, label_smoothing=0.1, reduction="none")
    yield "special", (SmoothedCrossEntropy(reduction="none")(x, target), exact)
    x = torch.randn(12, 5).to(dtype).mT
    with torch.autocast("cpu", dtype=torch.bfloat16):
        given = SmoothedCrossEntropy()(x, torch.arange(5))
    yield (
        "transposed, autocast",
        (given, torch.nn.functional.cross_entropy(x.double(), torch.arange(5), label_smoothing=0.1)),
    )
