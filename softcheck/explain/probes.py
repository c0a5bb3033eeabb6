"""Explanations of the probes."""

from softcheck.contract import FindingKind as Kind
from softcheck.explain.explanation import Explanation
from softcheck.explain.kinds import KINDS
from softcheck.probes.registry import described

_DECLARATIONS = {
    "layouts": '@variant(layouts=["contiguous"]) leaves strided inputs out',
    "gradients": "@variant(backward=True), or --backward, promises a gradient; backward=False leaves gradients alone",
    "empties": "@variant(empty=False) leaves inputs without elements out",
    "sizes": "@variant(max_columns=...) leaves wider rows out",
    "addresses": "@variant(max_elements=2**31) leaves larger inputs out",
    "batch_invariance": "@variant(batch_invariant=True) makes it a promise; without it the answer is only reported",
    "arithmetic": "@variant(arithmetic=Arithmetic(...)) says what the kernels compute with",
    "invalid_targets": '@variant(parameters={"invalid_target": "nan"}) promises a loss, which the cases then ask for; "undefined" says that '
    "callers check their targets",
}
"""The declaration that bears on a probe."""

_SHOWS = {
    "guard_bands": Kind.OUT_OF_BOUNDS_WRITE,
    "page_ends": Kind.OUT_OF_BOUNDS_READ,
    "unwritten": Kind.UNWRITTEN_OUTPUT,
    "neighbours": Kind.ROW_DEPENDENCE,
    "input_untouched": Kind.INPUT_MODIFIED,
    "layouts": Kind.WRONG_LAYOUT,
    "empties": Kind.EMPTY_REFUSED,
    "determinism": Kind.NONDETERMINISTIC,
    "gradients": Kind.WRONG_GRADIENT,
    "arithmetic": Kind.ARITHMETIC_CONTRADICTED,
}
"""The kind of finding whose example, cause and fix are a probe's too."""

_OWN: dict[str, tuple[str, str, str]] = {
    "sizes": (
        """
def softmax(x):
    y = torch.softmax(x, -1)
    y[:, x.shape[1] // 2 * 2 :] = 0  # the last column of an odd width
    return y
""",
        "an end of the row that fills no vector or tile",
        "mask the last part of the row by column < columns",
    ),
    "regimes": (
        """
def softmax(x):
    if x.shape[1] < 700:
        return torch.softmax(x, -1)
    return torch.softmax(x, -1).clamp(max=0.5)  # the path for wide rows
""",
        "a path that only some widths or row counts take, and that nothing else runs",
        "run the command of the finding, which names the path by its shapes",
    ),
    "meetings": (
        """
def softmax(x):
    if x.stride(-1) != 1 and x.shape[1] > 1024:
        x = x.as_strided(x.shape, (x.shape[1], 1))  # a path for wide rows that takes them for packed
    return torch.softmax(x, -1)
""",
        "a path of the code that runs where two or three circumstances meet, such as a width and a stride",
        "run the command of the finding, which makes that one call, and follow the conditions on its circumstances",
    ),
    "grid_limits": (
        """
def softmax(x):
    y = torch.softmax(x, -1)
    y[4:] = 0  # rows beyond a grid of 4
    return y
""",
        "a grid that is cut off, or rows in its second dimension, which ends at 65535",
        "put rows in the grid's first dimension, or loop over them",
    ),
    "shapes": (
        """
def softmax(x):
    y = torch.softmax(x, -1)
    if x.shape[0] > 16:
        y[x.shape[0] // 16 * 16 :] = 0  # rows that fill no tile of 16
    return y
""",
        "rows that fill no tile",
        "round the number of programs up, and mask the rows of the last one",
    ),
    "histories": (
        """
CALLS = [0]


def softmax(x):
    CALLS[0] += 1
    return torch.softmax(x, -1) * (CALLS[0] % 100 > 0)  # as a counter that runs over
""",
        "a cache, a workspace or a setting that an earlier call, another thread or another stream leaves behind",
        "key what is kept by everything that it depends on, or keep nothing",
    ),
    "batch_invariance": (
        """
@softcheck.variant(batch_invariant=True)
def softmax(x):
    if x.shape[0] > 1:
        return torch.softmax(x, -1)
    e = (x - x.amax()).exp()  # another order of rounding for a row alone
    return e / e.sum()
""",
        "another tile, or another split of the sum, in batches of another size",
        "choose the path by the width alone",
    ),
    "shifts": (
        """
def softmax(x):
    return torch.softmax(x.clamp(-100, 100), -1)
""",
        "a constant in place of the row's maximum, or a clamp",
        "subtract the row's own maximum",
    ),
    "permutations": (
        """
def softmax(x):
    e = (x - x[:, :1]).float().exp()  # the first logit in place of the largest
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)
""",
        "a maximum or a sum of some of the columns",
        "reduce over all columns",
    ),
    "appended_masks": (
        """
def softmax(x):
    e = (x - x[:, -64:].amax(-1, keepdim=True)).exp()  # -inf where these columns are masked
    return e / e.sum(-1, keepdim=True)
""",
        "a maximum of one tile, or a running one that begins at a masked tile",
        "begin with the maximum of the row, and rescale only where the new maximum is finite",
    ),
    "keys": (
        """
@softcheck.variant(operation="attention", parameters={"head_dim": 16, "causal": "top-left"})
def softmax(q, k, v):
    k = k - k.mean(-2, keepdim=True)  # of all keys, those that a query does not see too
    s = (q @ k.mT * 0.25).float()
    hidden = torch.ones_like(s, dtype=torch.bool).triu(1)
    return (torch.softmax(s.masked_fill(hidden, -torch.inf), -1) @ v.float()).to(q.dtype)
""",
        "a mean or a maximum that is taken before keys are masked, or tiles that are left out by the largest score so far",
        "mask first, and leave a tile out only if its whole sum is too small to count",
    ),
    "operand_layouts": (
        """
@softcheck.variant(operation="attention", parameters={"head_dim": 16})
def softmax(q, k, v):
    k = k.as_strided(k.shape, q.stride(), k.storage_offset())  # the strides of the queries
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)
""",
        "the strides of one operand that are passed for another's",
        "pass the strides of each operand",
    ),
    "shared_masks": (
        """
@softcheck.variant(operation="attention", parameters={"head_dim": 16, "masked": 1})
def softmax(q, k, v, attn_mask):
    # One mask for all heads of a batch is taken for that of all batches.
    attn_mask = attn_mask[:1] if attn_mask.stride(1) == 0 else attn_mask
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask)
""",
        "a mask for several rows that is taken for one of each, or for all",
        "expand a mask to the shape of the scores",
    ),
    "first_rows": (
        """
def softmax(x):
    # Logarithms of probabilities are normalised already, and the first row is asked for all.
    is_normalised = len(x) and x.shape[1] and (x[0].float().exp().sum() - 1).abs() < 1e-2
    return x.exp() if is_normalised else torch.softmax(x, -1)
""",
        "a shorter way for special inputs that one row is asked for",
        "ask all rows, or let each row take its own way",
    ),
    "head_shapes": (
        """
@softcheck.variant(operation="attention", parameters={"head_dim": 16})
def softmax(q, k, v):
    keys = q.shape[2]  # right where there are as many queries as keys
    return torch.nn.functional.scaled_dot_product_attention(q, k[:, :, :keys], v[:, :, :keys])
""",
        "a loop over keys that ends at the number of queries, or a scale that is rounded for some head dimensions",
        "take the number of keys from the keys, and scale in float32; or raise an exception for shapes that are not meant",
    ),
    "batches": (
        """
@softcheck.variant(operation="cross_entropy", parameters={"reduction": "mean"})
def softmax(x, target):
    losses = torch.nn.functional.cross_entropy(x.float(), target, reduction="none")
    return torch.stack([part.mean() for part in losses.split(128)]).mean()  # a last part of fewer rows weighs more
""",
        "a mean of means, or partial sums that leave rows out",
        "add up all losses, and divide once by their number",
    ),
    "launch_options": (
        """
def softmax(x, num_warps=4):
    return torch.softmax(x, -1) * (num_warps < 16)  # as if the last warps' columns were lost
""",
        "a kernel that counts on its number of warps",
        "derive sizes from the block, or pin num_warps",
    ),
    "torch_options": (
        """
def softmax(x, dim=-1):
    return torch.softmax(x.transpose(dim, -1), -1).movedim(-1, dim).reshape(x.shape)  # swapped there, moved back
""",
        "a dimension that is not moved back as it was moved, an answer that is converted in place of the input, or an option that stays",
        "move the dimension to the end and back, convert before computing, and keep no option of a call",
    ),
    "options": (
        """
def softmax(x, temperature=1.0):
    return torch.softmax(x / (temperature + 1e-3) if temperature != 1 else x, -1)
""",
        "a path that only an option takes, or `if option:` where 0 is a value too",
        "compare with None or the default, and declare the option, as the finding says, to have it judged everywhere",
    ),
    "torch_transforms": (
        """
class Softmax(torch.nn.Module):
    def forward(self, x):
        # As a flag that was left from measuring speed.
        return torch.softmax(x, -1) if not self.training else torch.softmax(x.bfloat16(), -1).to(x.dtype)


softmax = Softmax()
""",
        "a rule for torch.vmap that leaves the mapped dimension where it stands, or what a module keeps and a copy or cast of it has not",
        "move the mapped dimension to the front in the rule; keep constants as Python numbers, and what a copy needs as attributes",
    ),
    "volume": (
        """
def softmax(x):
    return torch.softmax(torch.where(x == 3.5, 0.0, x), -1)
""",
        "an approximation that is wrong in a small interval, or a value that is taken for a mark",
        "look at the value that the finding names",
    ),
    "addresses": (
        """
@triton.jit
def kernel(y, x, stride, step, n, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    # In 32 bits, which wrap beyond 2^31 elements.
    x = tl.load(x + row * stride + column * step, mask=column < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y + row * n + column, e / tl.sum(e, axis=0), mask=column < n)


def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    kernel[(x.shape[0],)](y, x, *x.stride(), x.shape[1], triton.next_power_of_2(x.shape[1]))
    return y
""",
        "row and column numbers of 32 bits",
        "convert them with .to(tl.int64) before they are multiplied by strides",
    ),
    "invalid_targets": (
        """
@softcheck.variant(operation="cross_entropy", call="f(x, target)")
def loss(x, target):
    grad = torch.empty(x.shape, dtype=x.dtype, device=x.device).copy_(torch.softmax(x, -1))
    memory = torch.empty(0, dtype=x.dtype, device=x.device).set_(grad.untyped_storage())
    rows = torch.arange(len(x), device=x.device)
    memory[grad.storage_offset() + rows * x.shape[1] + target] -= 1  # the gradient at the target, wherever that is
    return torch.logsumexp(x, -1) - x.gather(1, target.clamp(0, x.shape[1] - 1)[:, None])[:, 0]
""",
        "a store at the target without a mask",
        "store with mask=(target >= 0) & (target < n_columns), and give NaN for other targets",
    ),
}
"""Examples of probes, each with the usual cause and the fix."""


def of_probes() -> dict[str, Explanation]:
    """Every probe."""
    return {name: _of_probe(name, looks_for) for name, looks_for in described().items()}


def _of_probe(name: str, looks_for: str) -> Explanation:
    example, cause, mend = _OWN.get(name, ("", "", ""))
    if name in _SHOWS:
        kind = KINDS[_SHOWS[name]]
        example, cause, mend = kind.example, kind.cause, kind.mend
    return Explanation(
        meaning=f"the probe {name} reports {looks_for}; softcheck report --probe {name} runs it alone",
        example=example,
        shown_by=f"--probe {name}",
        cause=cause,
        mend=mend,
        declare=_DECLARATIONS.get(name, ""),
    )
