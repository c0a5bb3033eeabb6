"""The built-in variants in the order of tables: the module of each, and what it promises. Imports no torch."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import msgspec

from softcheck.operations.arithmetic import Arithmetic
from softcheck.variants.builtin import _defects as defects
from softcheck.variants.declaration import ATTRIBUTE, Declaration, Function, Traffic

MAX_BLOCK = 2**17
"""Widest row, in elements, that is promised for a block of 16 warps: each thread holds 256 values and spills. A row
twice as wide compiles for ten seconds and more."""
MAX_BLOCK_OF_FOUR_WARPS = 2**15
"""Widest row for Triton's default of 4 warps. A row four times as wide compiles for over a minute."""
IGNORED = -100
"""The ``ignore_index`` of the losses."""

_ALL = ("float16", "bfloat16", "float32", "float64")
_NARROW = _ALL[:3]

_TUTORIAL, _BLOG = "tutorial on fused softmax", "blog post on a hybrid one-pass and tiled softmax"
_PRACTICE = "common practice"
_ONLINE = "Milakov and Gimelshein, Online normalizer calculation for softmax, 2018"
_FLASH = "Dao, Fu, Ermon, Rudra and Re, FlashAttention, 2022; Milakov and Gimelshein, 2018"
_FLASH_DECODING = "Dao, Haziza, Massa and Sizov, Flash-Decoding for long-context inference, 2023"
_TWO_PASSES = "two passes in tiles of up to 4096, one running maximum and sum per row"
_RESCALES = Arithmetic(rescales=True)
_ROUNDED_EACH_TIME = Arithmetic(exp="libdevice", division="div_rn", intermediate="input")
"""Each operation rounds its result to the input type; a sum is added up in float32 and rounded once."""


class Builtin(NamedTuple):
    """A variant that softcheck brings."""

    module: str
    """The module of this package that has the function of the variant's name."""
    declaration: Declaration


def _in(module: str, description: str, **promises: Any) -> Builtin:
    return Builtin(module, Declaration(**{"dtypes": _ALL, "description": description, **promises}))


_torchs = partial(_in, provenance="PyTorch")
_own = partial(_in, batch_invariant=True, arithmetic=Arithmetic())
"""A kernel of our own whose rows don't depend on their neighbours."""
_once = partial(_own, traffic=Traffic(reads=1, writes=1))
"""One that reads and writes each element once."""
_loss = {"operation": "cross_entropy", "parameters": {"ignore_index": IGNORED}, "call": "f(x, target)"}
_heads = {"operation": "attention", "call": "f(q, k, v)", "dtypes": _NARROW}
_masked_heads = {**_heads, "parameters": {"masked": 1}, "call": "f(q, k, v, keep)"}
_biased_heads = {**_heads, "parameters": {"masked": 1, "biased": 1}, "call": "f(q, k, v, bias)"}
_online_heads = partial(_own, "attention", provenance=_FLASH, arithmetic=_RESCALES)
_by_torch = partial(_torchs, "attention_torch")
_chosen = (defects.NONE_WITHOUT_HEADS, defects.GRADIENT_TAKEN_FOR_PACKED, defects.ALIGNED)
"""Defects of the backends that torch chooses by itself."""

DECLARED: dict[str, Builtin] = {
    "eager": _in(
        "eager",
        "five torch operations: row maximum, subtract, exponential, row sum, divide",
        dimensions=4,
        provenance=f"{_TUTORIAL}, unfused version",
        traffic=Traffic(reads=5, writes=3, row_reads=2, row_writes=2),
        arithmetic=_ROUNDED_EACH_TIME,
        known_defects=(defects.OVERFLOW,),
    ),
    "torch": _torchs("torch_native", "torch.softmax over the last dimension", dimensions=4),
    "eager_compiled": _in(
        "eager",
        "the five operations of eager through torch.compile with dynamic shapes",
        provenance=f"{_TUTORIAL}, compiled version",
        # Without a GPU the captured graph runs operation by operation. On one, where Inductor does not fuse everything (very wide
        # or transposed rows), results between its kernels are stored in the 16-bit type.
        arithmetic=_ROUNDED_EACH_TIME,
        known_defects=(msgspec.structs.replace(defects.OVERFLOW, backends=("interpreter",)), *defects.OF_INDUCTOR),
    ),
    "one_block": _once(
        "one_block",
        "one program per row, block of the next power of two, 4 to 16 warps by width",
        max_columns=MAX_BLOCK,
        provenance=f"{_TUTORIAL}, first version",
        known_defects=(defects.OFFSETS_WRAP,),
    ),
    "one_block_default_warps": _once(
        "one_block",
        "one program per row, block of the next power of two, Triton's default warps; moves CPU input to the GPU",
        max_columns=MAX_BLOCK_OF_FOUR_WARPS,
        provenance="blog post on Triton softmax",
        known_defects=(defects.OFFSETS_WRAP,),
    ),
    "persistent": _once(
        "persistent",
        "persistent programs, as many as fit the device at once, striding over rows with pipelined loads",
        # Blocks of 64 KiB, of which the three buffers of four stages fit the 227 KiB of compute capability 9.0 and 10.0.
        max_columns={"float16": 32768, "bfloat16": 32768, "float32": 16384, "float64": 8192},
        provenance=f"{_TUTORIAL}, later version",
    ),
    "hybrid": _once(
        "hybrid",
        "shape as compile-time constants, whole row in one block of at least 64; packed rows assumed",
        max_columns=MAX_BLOCK_OF_FOUR_WARPS,
        provenance=_BLOG,
        known_defects=defects.STRIDES_IGNORED,
    ),
    "hybrid_tiled": _own(
        "hybrid",
        "the hybrid kernel with blocks of at most 1024, so that wide rows take its three tiled passes",
        provenance=_BLOG,
        traffic=Traffic(reads=3, writes=1),
        known_defects=defects.STRIDES_IGNORED,
    ),
    "tiled_float64_sum": _own(
        "hybrid",
        "three passes in tiles of up to 1024, exponentials summed in float64",
        provenance=f"{_BLOG}, note on precision",
        traffic=Traffic(reads=3, writes=1),
        arithmetic=Arithmetic(accumulation="float64"),
    ),
    "notebook_basic": _once(
        "notebook",
        "one program per row, masked load without a fill value",
        max_columns=MAX_BLOCK_OF_FOUR_WARPS,
        batch_invariant=False,
        provenance="notebook on Triton softmax, basic kernel",
        known_defects=(defects.LANES_UNFILLED,),
    ),
    "notebook_vectorized": _in(
        "notebook",
        "one program per row over its first 512 columns, four to a vector, no loop",
        provenance="notebook on Triton softmax, vectorized kernel",
        arithmetic=Arithmetic(),
        known_defects=(defects.COLUMNS_UNREAD,),
    ),
    "notebook_tiled": _own(
        "notebook",
        "three passes in tiles of 512",
        provenance="notebook on Triton softmax, tiled kernel",
        traffic=Traffic(reads=3, writes=1),
    ),
    "online": _own("online", _TWO_PASSES, provenance=_ONLINE, traffic=Traffic(reads=2, writes=1), arithmetic=_RESCALES),
    "multi_row": _once(
        "multi_row",
        "tiles of several rows by the next power of two of columns, 4096 elements; one row where it is wider",
        # The widest row that 16 warps hold in registers, 64 32-bit words to a thread.
        max_columns={"float16": 32768, "bfloat16": 32768, "float32": 32768, "float64": 16384},
        provenance=f"{_PRACTICE} for short rows",
    ),
    "exp2_prescaled": _once(
        "one_block",
        "one block per row; logits times log2(e), then minus the maximum, then exp2",
        max_columns=MAX_BLOCK,
        provenance=f"{_PRACTICE} in attention kernels",
        # tl.exp2 compiles to ex2.approx.ftz.f32, unlike tl.exp.
        arithmetic=Arithmetic(exp="prescaled_ex2_approx", flush_to_zero=True),
        known_defects=defects.LARGE_PRODUCTS,
    ),
    "torch_log_softmax": _torchs(
        "logarithms",
        "torch.log_softmax over the last dimension",
        operation="log_softmax",
        dimensions=4,
        known_defects=(defects.LOG_SOFTMAX_IN_SIXTEEN_BITS,),
    ),
    "log_softmax_one_block": _once(
        "logarithms",
        "one program per row, block of the next power of two; maximum, then the logarithm of the sum subtracted",
        operation="log_softmax",
        max_columns=MAX_BLOCK,
        provenance=_PRACTICE,
    ),
    "log_softmax_online": _own(
        "logarithms",
        _TWO_PASSES,
        operation="log_softmax",
        provenance=_ONLINE,
        traffic=Traffic(reads=2, writes=1),
        arithmetic=_RESCALES,
    ),
    "torch_logsumexp": _torchs(
        "logarithms",
        "torch.logsumexp over the last dimension",
        operation="logsumexp",
        known_defects=defects.LOGSUMEXP_IN_SIXTEEN_BITS,
    ),
    "logsumexp_one_block": _own(
        "logarithms",
        "one program per row, block of the next power of two; float32 answers",
        operation="logsumexp",
        max_columns=MAX_BLOCK,
        provenance=_PRACTICE,
        traffic=Traffic(reads=1, writes=0, row_writes=1),
    ),
    "logsumexp_online": _own(
        "logarithms",
        "one pass in tiles of up to 4096, one running maximum and sum per row; float32 answers",
        operation="logsumexp",
        provenance=_ONLINE,
        traffic=Traffic(reads=1, writes=0, row_writes=1),
        arithmetic=_RESCALES,
    ),
    "torch_cross_entropy": _torchs(
        "cross_entropy",
        "torch.nn.functional.cross_entropy with reduction='none'",
        **_loss,
        known_defects=(defects.ROW_STATE_IN_SIXTEEN_BITS,),
    ),
    "cross_entropy_online": _own(
        "cross_entropy",
        "one pass in tiles of up to 4096, one running maximum and sum per row; float32 losses; backward in one pass",
        **_loss,
        backward=True,
        provenance=_ONLINE,
        traffic=Traffic(reads=1, writes=0, row_reads=2, row_writes=2),
        arithmetic=_RESCALES,
    ),
    "cross_entropy_chunked": _own(
        "cross_entropy",
        "chunks of up to 65536 columns by programs of their own, merged by another kernel; float32 losses",
        **_loss,
        backward=True,
        provenance=f"{_PRACTICE} for large vocabularies",
        traffic=Traffic(reads=1, writes=0, row_reads=2, row_writes=2),
        arithmetic=_RESCALES,
    ),
    "cross_entropy_in_place": _own(
        "cross_entropy",
        "two passes, the second of which writes the gradient for 1 over the logits; float32 losses",
        **{**_loss, "parameters": {"ignore_index": IGNORED, "gradient_in_place": 1}},
        provenance="Hsu et al., Liger Kernel: Efficient Triton Kernels for LLM Training, 2024",
        traffic=Traffic(reads=2, writes=1, row_reads=1, row_writes=1),
        arithmetic=_RESCALES,
    ),
    **{
        name: made("backward", description, operation=operation, call="f(grad, y)", **promises)
        for operation, of_torch, summed, rounded, reads in (
            ("softmax_backward", "torch.softmax", "a sum of products", "products and their sum", 4),
            ("log_softmax_backward", "torch.log_softmax", "a sum of gradients", "the sum of gradients", 3),
        )
        for name, made, description, promises in (
            (f"torch_{operation}", _torchs, f"torch's kernel behind the backward of {of_torch}", {}),
            (
                f"{operation}_one_block",
                _own,
                f"one program per row, block of the next power of two; {rounded} in float32",
                {"max_columns": MAX_BLOCK, "provenance": _PRACTICE, "traffic": Traffic(reads=2, writes=1)},
            ),
            (
                f"{operation}_two_pass",
                _own,
                f"two passes in tiles of up to 4096: {summed} in each lane, then the gradient",
                {"provenance": _PRACTICE, "traffic": Traffic(reads=reads, writes=1)},
            ),
        )
    },
    "torch_sdpa_math": _by_torch("torch's attention by its backend MATH, single operations in float32", **_heads),
    "torch_sdpa_flash": _by_torch(
        "torch's attention by its backend FLASH_ATTENTION",
        **{**_heads, "dtypes": defects.SIXTEEN_BITS},
        provenance="PyTorch; Dao, FlashAttention-2, 2023",
        known_defects=defects.OF_FLASH_ATTENTION,
    ),
    "torch_sdpa_efficient": _by_torch(
        "torch's attention by its backend EFFICIENT_ATTENTION, on a GPU alone",
        **_heads,
        provenance="PyTorch; Rabe and Staats, Self-attention does not need O(n^2) memory, 2021",
        known_defects=(defects.MANY_HEADS, defects.ALIGNED),
    ),
    "torch_sdpa_cudnn": _by_torch(
        "torch's attention by its backend CUDNN_ATTENTION, on a GPU alone",
        **{**_heads, "dtypes": defects.SIXTEEN_BITS},
        provenance="PyTorch; cuDNN",
        known_defects=(defects.NO_KERNEL, defects.GRADIENT_TAKEN_FOR_PACKED, defects.ALIGNED),
    ),
    "torch_sdpa_causal": _by_torch(
        "torch's scaled_dot_product_attention with is_causal, by the backend that torch chooses",
        **_heads,
        parameters={"causal": "top-left"},
        known_defects=(*defects.OF_FLASH_ATTENTION, *_chosen),
    ),
    "torch_sdpa_masked": _by_torch(
        "torch's scaled_dot_product_attention with a boolean mask, by the backend that torch chooses",
        **_masked_heads,
        fully_masked="zero",
        known_defects=(
            *(defects.ZERO_FOR_NAN, defects.SUMS_IN_SIXTEEN_BITS, defects.HIDDEN_VALUES_SEEN, defects.MANY_HEADS),
            *_chosen,
        ),
    ),
    "torch_sdpa_biased": _by_torch(
        "torch's scaled_dot_product_attention with a mask of numbers, by the backend that torch chooses",
        **_biased_heads,
        provenance="PyTorch; Press, Smith and Lewis, ALiBi, 2022",
        fully_masked="zero",
        known_defects=(defects.ZERO_FOR_NAN, defects.SUMS_IN_SIXTEEN_BITS, defects.MANY_HEADS, *_chosen),
    ),
    "attention_online": _online_heads(
        "one program per 32 queries, tiles of 32 keys, a running maximum and sum; weights in the input's dtype",
        **_heads,
    ),
    "attention_online_causal": _online_heads(
        "attention_online with a causal mask aligned to the last key, two query heads for each head of keys",
        **_heads,
        parameters={"causal": "bottom-right", "groups": 2},
    ),
    "attention_online_masked": _online_heads(
        "attention_online with a boolean mask that selects scores", **_masked_heads
    ),
    "attention_online_biased": _online_heads(
        "attention_online with a bias that is added to scores, and hides keys where it is -inf", **_biased_heads
    ),
    "attention_split_keys": _online_heads(
        "the keys of a tile of queries split among num_splits programs (4), whose maxima, sums and values a second kernel merges",
        **_heads,
        provenance=_FLASH_DECODING,
    ),
    "torch_attention_logsumexp": _by_torch(
        "torch.logsumexp of scores in float32, by single operations", **{**_heads, "operation": "attention_logsumexp"}
    ),
    "attention_split_keys_logsumexp": _online_heads(
        "what attention_split_keys merges by: the maximum and the logarithm of the sum over num_splits parts (4)",
        **{**_heads, "operation": "attention_logsumexp"},
        provenance=_FLASH_DECODING,
    ),
    "scaled_masked_one_block": _once(
        "masked",
        "softmax of scaled logits behind a boolean mask; one program per row, the row in one block",
        dtypes=_NARROW,
        parameters={"scale": 0.125},
        call="f(x, mask, scale)",
        max_columns=MAX_BLOCK,
        provenance=_PRACTICE,
        arithmetic=Arithmetic(scaled_logits=True),
    ),
    "causal_online": _own(
        "masked",
        "causal softmax of [.., queries, keys] in tiles that end at the diagonal, one running maximum and sum per query",
        parameters={"causal": "top-left"},
        call="f(x)",
        fully_masked="zero",
        provenance=_ONLINE,
        arithmetic=_RESCALES,
    ),
    "causal_online_bottom_right": _own(
        "masked",
        "the same, with the last query beside the last key",
        parameters={"causal": "bottom-right"},
        call="f(x)",
        fully_masked="zero",
        provenance=_ONLINE,
        arithmetic=_RESCALES,
    ),
    "torch_safe_softmax": _torchs(
        "masked", "torch._safe_softmax, which gives zeros to a row of -inf, as attention has it", fully_masked="zero"
    ),
}
"""Variants by name."""

WITH_MASKS = ("scaled_masked_one_block", "causal_online", "causal_online_bottom_right", "torch_safe_softmax")
"""Variants of softmax with masks, scales or zeros for hidden rows; a report of softmax takes them where they are named."""


def declared(name: str) -> Callable[[Function], Function]:
    """Decorator that attaches a variant's declaration to its function."""

    def attach(function: Function) -> Function:
        setattr(function, ATTRIBUTE, DECLARED[name].declaration)
        return function

    return attach
