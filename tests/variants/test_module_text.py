"""Objects that no file defines at its top level, written out as a module: what a worker imports gives the same."""

import functools
import linecache
import subprocess
import sys
import types

import pytest
import torch

from softcheck.errors import UsageError
from softcheck.variants.module_text import module_text

X = torch.randn((4, 5), generator=torch.Generator().manual_seed(3))
CELLS = (
    "import torch\nfrom functools import partial\nimport math as m\nHALF, SIZES, MINUS = 0.5, [1, 2], -m.inf\ntable = torch.arange(5.0)",
    "def shifted(x):\n    return x - x.amax(-1, keepdim=True).clamp(min=MINUS)\n",
    "def softmax(x):\n    e = shifted(x).exp()\n    return e / e.sum(-1, keepdim=True)\n",
    "%not python",
    "class Soft(torch.nn.Module):\n    def forward(self, x):\n        return softmax(x * HALF + table * SIZES[0])\nmodule = Soft()",
    "part = partial(torch.softmax, dim=-1)\npair = (lambda x: x), (lambda x: x + 1)\n",
    (
        "def make(power, *, unseen=None):\n    @torch.no_grad()\n    def inner(x):\n        return softmax(x**power) if unseen is None else unseen\n    return inner\n"
        "closed, opaque = make(3), make(3, unseen=torch.ones(2))\n"
    ),
)


@pytest.fixture(scope="module")
def notebook():
    """A main module whose cells ran as IPython runs them: without a file, their lines kept."""
    module, before = types.ModuleType("__main__"), sys.modules["__main__"]
    sys.modules["__main__"] = module
    for number, cell in enumerate(CELLS):
        file = f"/tmp/ipykernel_1/{number}.py"
        linecache.cache[file] = (len(cell), None, cell.splitlines(keepends=True), file)
        if not cell.startswith("%"):
            exec(compile(cell, file, "exec"), vars(module))
    yield vars(module)
    sys.modules["__main__"] = before


def defined_anew(found, name):
    space = {"__name__": "elsewhere"}
    exec(compile(module_text(found, name), "<sent>", "exec"), space)
    return space[name]


@pytest.mark.parametrize("name", ["softmax", "module", "part", "closed"])
def test_what_a_cell_defines_gives_the_same(notebook, name):
    anew = defined_anew(notebook[name], name)
    assert anew is not notebook[name]
    assert torch.equal(anew(X), notebook[name](X))


def test_a_class_of_a_cell_and_a_lambda_of_a_test_are_defined_anew(notebook):
    assert torch.equal(defined_anew(notebook["Soft"], "Soft")()(X), notebook["module"](X))
    scale = 2.0
    assert defined_anew(lambda x: x * scale, "function")(3.0) == 6.0


def test_what_another_module_holds_is_imported():
    assert defined_anew(functools.partial, "part") is functools.partial
    assert "from torch import softmax" not in module_text(lambda x: x, "function")


@pytest.mark.parametrize(("name", "words"), [("opaque", "unseen is of type Tensor"), ("pair", "no one line")])
def test_what_no_line_defines_is_refused(notebook, name, words):
    found = notebook[name][0] if name == "pair" else notebook[name]
    with pytest.raises(UsageError, match=words):
        module_text(found, "function")


def test_two_objects_of_one_name_are_refused(notebook):
    softmax = notebook["softmax"]

    def both(x):
        return softmax(x), outer(x)

    def outer(x, softmax=torch.softmax):
        return other(softmax(x, -1))

    def made():
        softmax = torch.softmax
        return lambda x: softmax(x, -1)

    other = made()
    with pytest.raises(UsageError, match="two objects are called softmax"):
        module_text(both, "both")


KERNEL = """
@triton.autotune(configs=[triton.Config({}, num_warps=w) for w in (1, 4)], key=["n"])
@triton.jit
def kernel(y, x, stride, n, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    e = exponential(tl.load(x + tl.program_id(0) * stride + c, mask=c < n, other=-float("inf")).to(tl.float32))
    tl.store(y + tl.program_id(0) * stride + c, e / tl.sum(e, axis=0) * ONE, mask=c < n)
"""
NOTEBOOK = f"""
import linecache, sys
cells = [
    "import torch, triton, softcheck\\nimport triton.language as tl\\nONE = tl.constexpr(1.0)",
    '''{KERNEL}''',
    '''@triton.jit
def exponential(v):
    return tl.exp(v - tl.max(v, axis=0))''',
    '''def softmax(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    kernel[(x.shape[0],)](y, x, x.stride(0), x.shape[1], triton.next_power_of_2(x.shape[1]))
    return y
result = softcheck.check(softmax, "fp16", cases=["ties/*"], device="interpreter")''',
]
del sys.modules["__main__"].__file__
for number, cell in enumerate(cells):
    file = f"<ipython-input-{{number}}>"
    linecache.cache[file] = (len(cell), None, cell.splitlines(keepends=True), file)
    exec(compile(cell, file, "exec"), globals())
assert result.ok, result
print(result)
"""


@pytest.mark.parametrize("device", ["interpreter", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_triton_kernel_of_a_notebook_is_judged(tmp_path, monkeypatch, device):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    file = tmp_path / "notebook.py"
    file.write_text(NOTEBOOK.replace('device="interpreter"', f'device="{device}"'))
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 pass" in done.stdout
    assert list((tmp_path / "softcheck").glob("softcheck-sent-*.py"))
