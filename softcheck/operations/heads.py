"""Queries, keys and values of attention, made from the rows of a matrix: one row is one head, and its logits are scores.

A key holds its logit in its first element, and a query a power of two there, so that scale * (q . k) is the logit times a
power of two over 1/scale. The other elements are drawn from the row's bits, and are 0 in some queries. A logit of -inf hides
its key from all queries. What else a mask hides from one query or another is drawn from the row's first logit, and a bias, numbers
that are added to the scores, from the row's bits.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from oracles.attention import Heads
from oracles.formats import Format, Values
from softcheck.operations.causal import BOTTOM_RIGHT
from softcheck.operations.drawn import of_elements, of_rows

if TYPE_CHECKING:
    import torch

_APART = 8
"""Elements between the rows of operands of a matrix that is not packed: 16 bytes of 16-bit numbers."""

_SIZES = (1.0, 8.0, 32.0)
"""Largest numbers of biases that are drawn freely."""

_AT_ONCE = 1 << 22
"""Numbers of a bias that are drawn at once: a bias of long heads is larger than its temporaries may be."""

_LARGE = 1000.0
"""Finite numbers behind masks."""


@dataclass(frozen=True, slots=True)
class Attending:
    """The parameters of attention, which say what each query sees and how it scores."""

    head_dim: int = 64
    """Numbers of a query and of a key."""
    value_dim: int = 0
    """Numbers of a value and of an answer; 0 for as many as of a key."""
    queries: int = 0
    """Queries of a head; 0 for as many as keys."""
    groups: int = 1
    """Query heads that share keys and values."""
    scale: float = 0.125
    causal: str = ""
    """One of ``ALIGNMENTS``: query 0 sees key 0 alone, or the last query sees all keys; empty for no causal mask."""
    window: int = 0
    """Keys that a query sees up to its own place; 0 for all."""
    softcap: float = 0.0
    sink: float = -math.inf
    masked: bool = False
    """True if keys may be hidden by a mask."""
    key_padding: bool = False
    """True if a mask hides keys from all queries of a head alone, as PyTorch's ``key_padding_mask`` does."""
    ignores_nan: bool = False
    """True if NaN and infinities may stand behind masks."""
    square: bool = False
    """True if there are always as many queries as keys."""
    biased: bool = False
    """True if a bias is added to the scores, after a soft cap."""

    @property
    def hides_by_query(self) -> bool:
        """True if a mask hides keys from one query or another."""
        return self.masked and not self.key_padding

    @property
    def known_to_torch(self) -> bool:
        """True if torch's attention takes all parameters: it has no soft cap and no sinks."""
        return self.softcap == 0 and not math.isfinite(self.sink)

    def parts(self, keys: int) -> tuple[int, int]:
        """Queries that share a row's keys, and numbers of a query's answer."""
        return self.groups * (self.queries or keys), self.value_dim or self.head_dim

    def visible(self, x: "torch.Tensor", queries: "torch.Tensor") -> "torch.Tensor":
        """True where queries, [count] by number, see a key by its place and by the mask, bool [rows, count, keys]."""
        x = x.detach()
        found = self.sees(queries, x.shape[1]) & (x != float("-inf"))[:, None]
        return found & self._shown(x, queries) if self.hides_by_query else found

    def _shown(self, x: "torch.Tensor", queries: "torch.Tensor") -> "torch.Tensor":
        """True for keys that a mask does not hide from one of the queries alone, bool [rows, count, keys].

        Of four heads one hides none so. One has three documents, whose queries see their own document's keys. In one each query sees
        a range of keys, perhaps an empty one. In one each query sees all, or three, two or one of four keys. Heads with equal first logits
        have equal masks.
        """
        import torch

        rows, keys = x.shape
        drawn = of_rows(x[:, :1]) ^ 2
        of_queries = of_elements(drawn, self.parts(keys)[0])[:, queries]
        found = torch.empty((rows, len(queries), keys), dtype=torch.bool, device=x.device)
        step = max(1, _AT_ONCE // max(1, rows * keys))
        for first in range(0, len(queries), step):
            part = slice(first, first + step)
            found[:, part] = self._shown_by(drawn, of_queries[:, part], queries[part], keys)
        return found

    def _shown_by(
        self, drawn: "torch.Tensor", of_queries: "torch.Tensor", queries: "torch.Tensor", keys: int
    ) -> "torch.Tensor":
        """The same by the bits of heads, [rows], and of their queries, [rows, count]."""
        import torch

        key, kind = torch.arange(keys, device=drawn.device), ((drawn >> 40) & 3)[:, None, None]
        place = (queries % (self.queries or keys) + keys - (self.queries or keys)).clamp(min=0)
        document, of_keys = torch.zeros_like(place), torch.zeros_like(key)
        for digits in (8, 24):
            boundary = ((drawn >> digits) % (keys + 1))[:, None]
            document, of_keys = document + (place >= boundary), of_keys + (key >= boundary)
        first, length = (
            ((of_queries >> digits) % size)[..., None] for digits, size in ((8, max(1, keys)), (32, keys + 1))
        )
        bits = of_elements(of_queries.flatten(), keys).view(*of_queries.shape, keys)
        by_kind = {
            1: document[..., None] == of_keys[:, None],
            2: (key >= first) & (key < first + length),
            3: ((bits >> 20) & 3) >= ((of_queries >> 5) & 3)[..., None],
        }
        found = torch.ones_like(bits, dtype=torch.bool)
        for number, shown in by_kind.items():
            found &= (kind != number) | shown
        return found

    def sees(self, queries: "torch.Tensor", keys: int) -> "torch.Tensor":
        """True where queries, [count] by number, see a key by its place, bool [count, keys] where the numbers lie."""
        import torch

        key, last = torch.arange(keys, device=queries.device), self.last(queries, keys)[:, None]
        found = key <= last
        return found & (key > last - self.window) if self.window else found

    def last(self, queries: "torch.Tensor", keys: int) -> "torch.Tensor":
        """The place of the last key that queries, [count] by number, see: below 0 for no key, and perhaps beyond all keys."""
        of_head = self.queries or keys
        if not self.causal:
            return queries * 0 + keys - 1
        return queries % of_head + (keys - of_head if self.causal == BOTTOM_RIGHT else 0)

    def hidden(self, x: "torch.Tensor") -> "torch.Tensor":
        """True for keys that no query sees, bool [rows, keys]."""
        import torch

        queries = torch.arange(self.queries or x.shape[1], device=x.device)
        return (x.detach() == float("-inf")) | ~self.sees(queries, x.shape[1]).any(dim=0)

    def operands(self, x: "torch.Tensor") -> "tuple[torch.Tensor, torch.Tensor, torch.Tensor]":
        """Queries [rows, queries, dimension], keys [rows, keys, dimension] and values [rows, keys, value dimension] of a matrix, in its dtype.

        The values of hidden keys are large, or what else may stand there.
        """
        import torch

        x = x.detach()
        rows, keys = x.shape
        (queries, value_dim), dim = self.parts(keys), self.head_dim
        drawn = of_elements(of_rows(x), (queries + keys) * dim + keys * value_dim)
        ends = queries * dim, (queries + keys) * dim
        of_q = drawn[:, : ends[0]].reshape(rows, queries, dim)
        of_k = drawn[:, ends[0] : ends[1]].reshape(rows, keys, dim)
        of_v = drawn[:, ends[1] :].reshape(rows, keys, value_dim)
        # Seven digits fit every format, so that queries and keys are the same in each.
        q, k = (((part >> 40) & 127).to(torch.float64) / 64 - 1 for part in (of_q, of_k))
        # Scores of a query that has one number alone are the logits, which have no digit beyond 16 bits: of single queries half have more.
        is_alone = (of_q[..., 0] & (3 if queries > 1 else 1)) == 0
        if queries > 1:
            is_alone[:, -1:] = True
        q = torch.where(is_alone[..., None], 0.0, q)
        is_halved = (of_q[..., 0] & 12) == 0
        is_halved[:, -1:] = False
        q[..., 0] = torch.where(is_halved, 0.5 * self.first, self.first)
        k, v = k.to(x.dtype), self._values(x, of_v).to(x.dtype)
        k[..., 0] = x
        return q.to(x.dtype), k, torch.where(self.hidden(x)[..., None], self._behind(v), v)

    def bias(self, x: "torch.Tensor", queries: "torch.Tensor") -> "torch.Tensor":
        """Numbers added to the scores of queries, [count] by number, in the matrix's dtype [rows, count, keys].

        A quarter of the heads have a slope of 1/4 to 1/32 for each place between query and key (Press, Smith and Lewis, ALiBi, 2022),
        the other heads numbers of up to 1, 8 or 32.
        """
        import torch

        rows, keys = x.shape
        of_head, of_row = self.queries or keys, of_rows(x) ^ 1
        of_queries, drawn = of_elements(of_row, self.parts(keys)[0]), (of_row >> 37)[:, None, None]
        sizes = torch.tensor((0.0, *_SIZES), dtype=torch.float64, device=x.device)[drawn & 3]
        slopes, key = 2.0 ** -(2 + ((drawn >> 2) & 3)), torch.arange(keys, device=x.device)
        found = torch.empty((rows, len(queries), keys), dtype=x.dtype, device=x.device)
        step = max(1, _AT_ONCE // max(1, rows * keys))
        for first in range(0, len(queries), step):
            numbers, part = queries[first : first + step], found[:, first : first + step]
            bits = of_elements(of_queries[:, numbers].flatten(), keys).reshape(part.shape)
            free = ((bits >> 20) & (2**24 - 1)).to(torch.float64) / 2**23 - 1
            # Large numbers have seven digits, so that scores in 16 bits are those in float64 but for little.
            free = torch.where(sizes > 1, (free * 64).round() / 64, free)
            place = numbers % of_head + keys - of_head
            part.copy_(torch.where(sizes == 0, -slopes * (key - place[:, None]).abs(), free * sizes))
        return found

    @property
    def first(self) -> float:
        """The first element of most queries: the power of two next to 1 / scale, so that logits are scores."""
        return 2.0 ** min(12, max(-12, round(math.log2(1.0 / self.scale))))

    def _values(self, x: "torch.Tensor", bits: "torch.Tensor") -> "torch.Tensor":
        """Values of eight kinds of rows: four vary, and one each is near 1, constant, alternating, and 1 at every d-th key."""
        import torch

        _, keys, dim = bits.shape
        varying = ((bits >> 20) & (2**24 - 1)).to(torch.float64) / 2**23 - 1
        key = torch.arange(keys, device=x.device)[None, :, None]
        column = torch.arange(dim, device=x.device)[None, None]
        kinds = (
            1 + varying / 64,
            varying[:, :1].expand_as(varying),
            torch.where(key % 2 == 0, 4.0, -4.0) + varying,
            (key % dim == column).to(torch.float64).expand_as(varying),
        )
        found, drawn = varying, ((of_rows(x) >> 37) & 7)[:, None, None]
        for number, other in enumerate(kinds):
            found = torch.where(drawn == number, other, found)
        return found

    def _behind(self, like: "torch.Tensor") -> "torch.Tensor":
        import torch

        found = [float("nan"), float("inf"), _LARGE] if self.ignores_nan else [_LARGE, -_LARGE]
        row = torch.tensor(found, dtype=like.dtype, device=like.device)
        return row[torch.arange(like.shape[1], device=like.device) % len(found)][None, :, None].expand_as(like)

    def make(self, x: "torch.Tensor", names: frozenset[str]) -> Mapping[str, Any]:
        """The operands of a call by their names in it: layouts of queries, keys and values, and masks.

        Where a mask is among them, what it hides is no longer -inf in the keys. A bias with numbers hides nothing unless ``masked``.
        """
        import torch

        rows = x.flatten(0, -2)
        q, k, v = self.operands(rows)
        masks = names & {"mask", "keep", "bias"}
        if masks:
            behind = self._behind(k)
            hidden = (rows.detach() == float("-inf"))[..., None]
            k = torch.where(hidden, behind if self.ignores_nan else torch.where(k.isfinite(), k, behind), k)
        makers: dict[str, Callable[[], torch.Tensor]] = {}
        for name, tensor in (("q", q), ("k", k), ("v", v)):
            makers |= _laid_out(name, tensor, self.groups if name == "q" else 1, is_packed=x.is_contiguous())
        if masks:
            queries = torch.arange(q.shape[1], device=x.device)
            hiding = ~self.visible(rows, queries)
            of_masks = {
                "mask": lambda: hiding,
                "keep": lambda: ~hiding,
                "bias": lambda: (
                    self.bias(rows, queries) if self.biased else torch.zeros_like(hiding, dtype=x.dtype)
                ).masked_fill(hiding & (self.masked or not self.biased), float("-inf")),
            }
            for name in masks:
                makers |= _laid_out(name, of_masks[name](), self.groups, is_packed=True)
        makers["sinks"] = lambda: torch.full((split(len(rows))[1] * self.groups,), self.sink, device=x.device)
        return {name: maker() for name, maker in makers.items() if name in names}

    def tiles(self, x: "torch.Tensor", scores: int) -> Iterator[Heads]:
        """The heads of a matrix as the oracles take them, of some queries at a time, with so many scores: what is not seen is finite."""
        import torch

        q, k, v = (part.to(torch.float64) for part in self.operands(x))
        k, v = (part.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0) for part in (k, v))
        step = max(1, scores // max(1, x.numel()))
        for part in torch.split(torch.arange(q.shape[1], device=x.device), step):
            bias = self.bias(x, part).to(torch.float64) if self.biased else None
            yield Heads(q[:, part], k, v, self.visible(x, part), self.scale, self.softcap, self.sink, bias)

    def heads(self, values: Values, fmt: Format) -> Heads:
        """The heads of rows of a matrix as the oracles take them."""
        return _heads(np.ascontiguousarray(values).tobytes(), values.shape, fmt.name, self)


def split(rows: int) -> tuple[int, int]:
    """Returns batch and heads of so many rows. Without rows the batch is empty: nobody has an attention without heads."""
    if not rows:
        return 0, 1
    batch = next((n for n in (2, 3, 5, 7) if rows % n == 0 and rows > n), 1)
    return batch, rows // batch


def heads_first(name: str, operand: "torch.Tensor", rows: int) -> "torch.Tensor":
    """Returns a view of an operand of so many rows as [batch, heads, length, ...], whatever the layout that its name says.

    Sinks stay [query heads].
    """
    if name.endswith("_blhd"):
        return operand.transpose(1, 2)
    if not name.endswith("3"):
        return operand
    batch, heads = split(rows)
    return operand.view(batch, len(operand) // batch if batch else heads, *operand.shape[1:])


def _laid_out(
    name: str, tensor: "torch.Tensor", groups: int, *, is_packed: bool
) -> "dict[str, Callable[[], torch.Tensor]]":
    """Makers of an operand [rows, groups * length, dimension] in each layout, by name."""
    rows, length, dim = tensor.shape
    batch, heads = split(rows)
    by_head = tensor.reshape(batch, heads * groups, length // groups, dim)

    def apart(found: "torch.Tensor") -> "torch.Tensor":
        if is_packed:
            return found.contiguous()
        wider = found.new_full((*found.shape[:-1], dim + _APART), float("nan"))
        wider[..., :dim] = found
        return wider[..., :dim]

    return {
        name: lambda: apart(by_head),
        f"{name}3": lambda: apart(by_head.flatten(0, 1)),
        f"{name}_blhd": lambda: apart(by_head.transpose(1, 2)),
    }


@lru_cache(maxsize=4)
def _heads(values: bytes, shape: tuple[int, int], dtype: str, attending: Attending) -> Heads:
    import torch

    matrix = torch.frombuffer(bytearray(values), dtype=torch.float64).reshape(shape) if values else torch.empty(shape)
    (found,) = attending.tiles(matrix.to(getattr(torch, dtype)), 1 << 62)
    names = ("q", "k", "v", "visible", *(["bias"] if attending.biased else []))
    return replace(found, **{name: getattr(found, name).numpy() for name in names})
