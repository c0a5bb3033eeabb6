"""A tensor with other values in memory of its own that lies as another tensor's does. Imports torch when it is needed."""

from typing import TYPE_CHECKING

from softcheck.calling import operands

if TYPE_CHECKING:
    import torch

_BETWEEN = 2**20
"""Elements of memory between a tensor's own that are copied; of more, those at its beginning, since they may be 2^31."""


class Twin:
    """Stands in a tensor's place in a call: same shape, strides, offset, and memory between its elements."""

    def __init__(self, x: "torch.Tensor", values: "torch.Tensor") -> None:
        """Takes the tensor, and the values of its twin, [rows, columns].

        A tensor that requires a gradient gets no twin, since its gradient flows through the values as they are.
        """
        import torch

        self.view = values
        self._copied: list[torch.Tensor] = []
        if x.requires_grad or type(x) is not torch.Tensor or not x.numel():
            return
        integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
        whole = torch.empty(0, dtype=x.dtype, device=x.device).set_(x.untyped_storage())
        is_dense = whole.numel() <= x.numel() + _BETWEEN
        first = int(x.storage_offset())
        copy = operands.placed("x", whole.clone()) if is_dense else _around(whole, first, x.numel())
        self.view = copy.as_strided(x.shape, x.stride(), x.storage_offset())
        once = operands.once(x)
        self.view[once].copy_(values[once])
        watched = (copy, whole) if is_dense else (self.view[once], x[once])
        after, own = (tensor.view(integers) for tensor in watched)
        self._copied = [after, after.clone(), own]

    def write_back(self) -> None:
        """Changes in the tensor's memory what has changed in the twin's, so that it shows there.

        What happens to be the tensor's own value is written with other bits, since it was a change all the same.
        """
        import torch

        if self._copied:
            after, before, own = self._copied
            own.copy_(torch.where(after != before, torch.where(after == own, ~after, after), own))


def _around(memory: "torch.Tensor", first: int, elements: int) -> "torch.Tensor":
    """Returns as much memory, a copy where a tensor of so many elements begins, and ``_BETWEEN`` elements beyond these.

    Nothing is written to the rest, which ``torch.empty`` would fill where it is told to: gigabytes.
    """
    import torch

    storage = torch.UntypedStorage(memory.nbytes, device=memory.device)  # type: ignore[no-untyped-call]
    found = torch.empty(0, dtype=memory.dtype, device=memory.device).set_(storage)
    copied = slice(first, first + elements + _BETWEEN)
    found[copied].copy_(memory[copied])
    return found
