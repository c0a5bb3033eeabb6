"""Calls that are captured in CUDA graphs, and replayed on other values."""

from typing import Any

import torch

from softcheck.calling import activity
from softcheck.probes.modes import Function


class Replays:
    """A call that is captured when it is first made, and replayed from then on, as long as no other shape comes between.

    A variant may move what it keeps for a larger shape, and a graph knows the old place alone. That is not accused here.
    """

    def __init__(self) -> None:
        self._key: tuple[Any, ...] | None = None
        self._graph: tuple[torch.Tensor, torch.cuda.CUDAGraph, torch.Tensor] | None = None

    def note(self, *key: Any) -> None:
        """Forgets the graph if a call is of another kind than the one before."""
        if key != self._key:
            self._key, self._graph = key, None

    def replaying(self, function: Function) -> Function:
        """Returns the function as it is called by a graph; as it is, where its call can't be captured."""

        def replay(x: torch.Tensor) -> Any:
            if self._graph is None:
                static = x.detach().clone()
                try:
                    self._graph = (static, *captured(function, static))
                except Exception:  # noqa: BLE001 - that a call can be captured is not promised
                    return function(x)
            static, graph, output = self._graph
            static.copy_(x.detach())
            graph.replay()
            return output.clone() if isinstance(output, torch.Tensor) else output

        return replay


def captured(function: Function, x: torch.Tensor) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    """Returns the graph of a call and its output, as torch's documentation of CUDA graphs has it."""
    x.zero_()
    side = torch.cuda.Stream(x.device)  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream(x.device))
    with torch.cuda.stream(side), activity.calling():
        for _ in range(3):
            function(x)
    torch.cuda.current_stream(x.device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), activity.calling():
        output = function(x)
    return graph, output
