"""Paths of a wrapper are found in a fork, without a launch, with the boundaries between them."""

import pytest
import torch
import triton
import triton.language as tl

from softcheck.variants import exploration
from softcheck.variants.coverage import code_lines, never_run
from softcheck.variants.exploration import explore
from softcheck.variants.signatures import Recorder, tracing
from softcheck.variants.source import read

CPU = torch.device("cpu")


@triton.jit
def _kernel(out, x, BLOCK: tl.constexpr):
    raise AssertionError("launched")


def two_blocks(x):
    out = torch.empty_like(x)
    rows, columns = x.shape
    block = 64 if rows * columns > 12345 else triton.next_power_of_2(columns)
    _kernel[(rows,)](out, x, block)
    return out


@pytest.fixture
def source(tmp_path):
    file = tmp_path / "kernels.py"
    file.write_text("def softmax(x):\n    return x\n", encoding="utf-8")
    return read(file)


def test_a_boundary_is_found_by_bisection(source):
    found = explore(
        two_blocks, source, "float32", CPU, rows=[1], columns=[1, 20000], most_elements=10**6, most_calls=6000
    )
    constants = {shape: path.launches[0].numbers[0] for shape, path in found.items()}
    assert constants[1, 12345].rule == "next power of 2 of columns"
    assert constants[1, 12346].value == 64
    assert found[1, 1].key == found[1, 12345].key != found[1, 12346].key


def test_nothing_that_a_call_keeps_remains(source):
    kept = []

    def remembering(x):
        kept.append(x.shape)
        return two_blocks(x)

    assert explore(remembering, source, "float16", CPU, shapes=[(2, 3)], most_elements=100, most_calls=6000)
    assert kept == []


def test_a_shape_that_is_refused_has_no_path(source):
    def narrow(x):
        if x.shape[1] > 100:
            raise ValueError("too wide")
        return two_blocks(x)

    found = explore(narrow, source, "float32", CPU, shapes=[(1, 100), (1, 101)], most_elements=1000, most_calls=6000)
    assert list(found) == [(1, 100)]


def test_a_call_that_hangs_ends(source, monkeypatch):
    monkeypatch.setattr(exploration, "_HANGS", 1.0)

    def hanging(x):
        while x.shape[1] == 5:
            pass
        return two_blocks(x)

    found = explore(hanging, source, "float32", CPU, shapes=[(1, 4), (1, 5), (1, 6)], most_elements=10, most_calls=6000)
    assert list(found) == [(1, 4)]


def test_a_gpu_is_pretended(source):
    def on_gpu_alone(x):
        assert x.is_cuda
        assert torch.cuda.is_available()
        with torch.cuda.device(x.device):
            out = torch.empty(x.shape, device=x.device)
            _kernel[(1,)](out, x.to("cuda"), 32)
        return out

    device = torch.device("cuda", 0)
    found = explore(on_gpu_alone, source, "float32", device, shapes=[(1, 4)], most_elements=10, most_calls=6000)
    assert [launch.kernel for launch in found[1, 4].launches] == ["_kernel"]
    assert not torch.empty(1).is_cuda


CODE = '''
def helper(x):
    """Says something."""
    return x


def unrelated(x):
    return x


def softmax(x):
    if x > 3:
        y = helper(x)
        return y
    else:
        z = 1
    return z
'''


def test_lines_that_never_ran_are_named_with_their_condition(tmp_path):
    file = tmp_path / "kernels.py"
    file.write_text(CODE, encoding="utf-8")
    source = read(file)
    space = {}
    exec(compile(CODE, str(file), "exec"), space)
    recorder = Recorder(source.files)
    with tracing(recorder):
        space["softmax"](2)
    lines = code_lines(source, "softmax")
    assert [line.line for line in lines] == [4, 12, 13, 14, 16, 17]
    assert never_run(lines, recorder.lines) == [
        "line 4 of kernels.py: `def helper`",
        "lines 13-14 of kernels.py: `if x > 3`",
    ]
    with tracing(recorder):
        space["softmax"](4)
    assert never_run(lines, recorder.lines) == []


def capped(x):
    """One program for each tile of 32 rows, four at most."""
    out = torch.empty_like(x)
    _kernel[lambda meta: (min(triton.cdiv(x.shape[0], meta["BLOCK"]), 4),)](out, x, 32, num_warps=8)
    return out


def test_a_grid_that_scales_is_one_path_and_a_capped_one_another(source):
    found = explore(
        capped, source, "float32", CPU, rows=[1, 7, 33, 5000], columns=[5], most_elements=10**6, most_calls=6000
    )
    launches = {shape: path.launches[0] for shape, path in found.items()}
    assert str(launches[33, 5]) == "_kernel(BLOCK=32, num_warps=8, grid=rows / BLOCK)"
    assert found[33, 5].key == found[128, 5].key != found[129, 5].key
    assert launches[5000, 5].grid[0].value == 4


def test_operations_of_torch_tell_paths_apart(source):
    def by_two_means(x):
        return torch.softmax(x, -1) if x.shape[1] > 9 else (x - x.amax(-1, keepdim=True)).exp()

    found = explore(by_two_means, source, "float32", CPU, shapes=[(1, 9), (1, 10)], most_elements=100, most_calls=6000)
    assert found[1, 10].operations == ("aten._softmax",)
    assert found[1, 9].operations == ("aten.amax", "aten.sub", "aten.exp")


def test_both_sides_of_a_condition_in_one_line_are_two_paths(tmp_path):
    file = tmp_path / "one_line.py"
    file.write_text("def softmax(x):\n    scale = 1.0 if len(x) == 3 else 0.5\n    return x\n", encoding="utf-8")
    space = {}
    exec(compile(file.read_text(), str(file), "exec"), space)
    found = explore(
        space["softmax"], read(file), "float32", CPU, rows=[1, 9], columns=[2], most_elements=99, most_calls=6000
    )
    assert found[1, 2].key == found[9, 2].key
    shapes = [(2, 2), (3, 2)]
    found = explore(space["softmax"], read(file), "float32", CPU, shapes=shapes, most_elements=99, most_calls=6000)
    assert found[2, 2].key != found[3, 2].key
