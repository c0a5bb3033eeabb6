"""Functions under torch.vmap and modules that were copied, saved, cast or put into training are judged."""

import pytest
from probe_helpers import conclusion_of_source, made_in

from softcheck.variants.registry import load

MAPPED = """
import torch


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return torch.softmax(x.detach(), -1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def vmap(info, in_dims, x):
        x = {moved}
        return Softmax.apply(x), {out}


def softmax(x):
    return Softmax.apply(x)
"""
MODULE = """
import torch


class Softmax(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.block = lambda n: n
        self.register_buffer("log2e", torch.tensor(1.4426950408889634))

    def __getstate__(self):
        return {{name: value for name, value in vars(self).items() if name != "block"}}

    def __setstate__(self, state):
        super().__setstate__(state)
        self.block = lambda n: {block}

    def forward(self, x):
        columns = {training}self.block(x.shape[-1])
        given, x = x.dtype, x.float()
        e = torch.exp2((x - x.amax(-1, keepdim=True)) * {constant})
        e[..., columns:] = 0
        return (e / e.sum(-1, keepdim=True)).to(given)


softmax = Softmax()
"""
RIGHT = {"block": "n", "training": "", "constant": "1.4426950408889634"}
OF_TRAINING = "1 if self.training else "


def found_in(tmp_path, source, dtype, *ways):
    path = tmp_path / "kernels.py"
    path.write_text(source, encoding="utf-8")
    function = load(f"{path}:softmax").function
    function.__name__ = f"{path}:softmax"
    return made_in(function, dtype, ("vmap", "module"), *ways)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(
    ("moved", "out"), [("x.movedim(in_dims[0], 0)", "0"), ("x.movedim(in_dims[0], 1).contiguous()", "1")]
)
def test_a_right_rule_for_vmap_is_left_alone(tmp_path, moved, out, dtype):
    assert found_in(tmp_path, MAPPED.format(moved=moved, out=out), dtype) == {}


def test_a_mapped_dimension_that_stays_last_is_found(tmp_path):
    [(way, found)] = found_in(tmp_path, MAPPED.format(moved="x", out="in_dims[0]"), "float16").items()
    assert way == "vmap=over the last"
    assert "sum_violation" in {str(each.kind) for each in found}


def test_a_function_without_a_rule_is_not_mapped(tmp_path):
    source = "import torch\n\n\ndef softmax(x):\n    return torch.softmax(x, -1)\n"
    found = conclusion_of_source("torch_transforms", tmp_path, source)
    assert (found.findings, found.trials) == ((), 0)
    assert found.skipped == ("nothing to try: has no other value of vmap or module",)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_right_module_is_left_alone(tmp_path, dtype):
    assert found_in(tmp_path, MODULE.format(**RIGHT), dtype) == {}


@pytest.mark.parametrize(
    ("changed", "dtype", "way"),
    [
        ({"block": "min(n, 1024)"}, "float32", "columns=1120,module=copied by copy.deepcopy"),
        ({"block": "min(n, 1024)"}, "float32", "columns=1120,module=saved by torch.save and loaded"),
        ({"constant": "self.log2e"}, "bfloat16", "module=cast by to(x.dtype)"),
        ({"training": OF_TRAINING}, "float32", "module=in training"),
    ],
)
def test_a_module_that_is_wrong_once_it_was_changed_is_found(tmp_path, changed, dtype, way):
    assert found_in(tmp_path, MODULE.format(**(RIGHT | changed)), dtype, way)


def test_the_slice_finds_a_copy_that_is_wrong_for_wide_rows(tmp_path):
    found = conclusion_of_source("torch_transforms", tmp_path, MODULE.format(**(RIGHT | {"block": "min(n, 1024)"})))
    assert any("module=" in shown.label and "columns=1" in shown.label for shown in found.findings)


def test_a_module_that_is_random_in_training_is_left_alone_there(tmp_path):
    source = MODULE.format(**RIGHT)
    noisy = source.replace("e[..., columns:] = 0", "e = torch.nn.functional.dropout(e, 0.5, self.training)")
    assert found_in(tmp_path, noisy, "float32") == {}
