"""Code that a process has compiled for other shapes is not timed."""

import torch

from softcheck.run.timing import forget_compiled


def test_torch_compile_compiles_anew_for_the_shape_that_is_timed():
    seen = []

    def backend(graph, inputs):
        seen.append([symbol for symbol in inputs if isinstance(symbol, torch.SymInt)])
        return graph.forward

    function = torch.compile(lambda x: torch.softmax(x, dim=-1), backend=backend)
    for columns in (3, 5, 7):
        function(torch.ones(2, columns))
    assert [len(symbols) for symbols in seen] == [0, 1], "the second width has made it compile for any"
    forget_compiled()
    function(torch.ones(2, 9))
    assert [len(symbols) for symbols in seen] == [0, 1, 0], "compiled for 9 columns alone"
