"""Numbers and conditions are read from a variant's source, and from the modules beside it."""

import pytest
import torch

from softcheck.variants.source import Source, is_compiled_by_torch, read, source_of


@pytest.fixture
def written(tmp_path):
    def write(name="kernels.py", **files):
        for stem, text in files.items():
            (tmp_path / f"{stem}.py").write_text(text, encoding="utf-8")
        return read(tmp_path / name)

    return write


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("if n > 1 << 14: pass", [16384]),
        ("n = 2**20 + 4 * 1024", [2**20 + 4096]),
        ("WIDE = 300\nif n > 2 * WIDE: pass", [300, 600]),
        ("def f(x, block=512): pass", [512]),
        ("b = min(triton.next_power_of_2(n), 4096)", [4096]),
        ("C = tl.constexpr(77)\nn > C - 1", [77, 76]),
        ("y = tl.where(d < -104.5, 0.0, d)", [-104.5, 0.0]),
        ("configs = [triton.Config({'BLOCK': 2048}, num_warps=8)]", [2048]),
        ("x = tl.sum(t, axis=1)\ny: tuple[1024] = x.shape[1]", []),
        ("n = 3 / 0\nm = 1 << 10**9", [3, 0, 1, 10**9]),
    ],
)
def test_numbers(written, text, numbers):
    assert list(written(kernels=text).numbers) == numbers


def test_lines_of_conditions(written):
    text = "def f(x):\n    if x.stride(1) != 1 or x.requires_grad:\n        return 1 if x.data_ptr() % 16 else 2\n"
    found = written(kernels=text)
    assert {line for _, line in found.condition_lines} == {2}
    assert {line for _, line in found.branches} == {3}


def test_modules_beside_it_count(written):
    source = written(kernels="from helpers import LIMIT\nif n > LIMIT + 1: pass", helpers="LIMIT = 700\n")
    assert source.sizes == [700, 701]
    assert [file.name for file in source.files] == ["kernels.py", "helpers.py"]


def test_the_digest_follows_the_contents(written):
    before = written(kernels="a = 5")
    assert written(kernels="a = 6").digest != before.digest


def test_bytes_are_counted_in_elements():
    assert Source(numbers=(65536, 10, 104.5)).sizes_for(2) == [10, 32768, 65536]


def test_a_library_function_has_no_source():
    import torch

    assert source_of(torch.softmax) == Source()


def test_relative_imports_count(tmp_path):
    package = tmp_path / "package"
    (package / "kernels").mkdir(parents=True)
    (package / "kernels" / "softmax.py").write_text(
        "from ..limits import WIDE\nfrom . import tiles\nfrom ..numbers import rows\nimport torch\n", encoding="utf-8"
    )
    (package / "limits.py").write_text("WIDE = 700\n", encoding="utf-8")
    (package / "kernels" / "tiles.py").write_text("TILE = 96\n", encoding="utf-8")
    (package / "numbers").mkdir()
    (package / "numbers" / "rows.py").write_text("ROWS = 333\n", encoding="utf-8")
    assert read(package / "kernels" / "softmax.py").sizes == [96, 333, 700]


@pytest.mark.parametrize(
    ("text", "keeps"),
    [
        ("seen = {}\n", True),
        ("calls = itertools.count()\n", True),
        ("calls = 0\ndef f(x):\n    global calls\n    calls += 1\n", True),
        ("class F:\n    def __call__(self, x):\n        return 1 if self.calls > 3 else 2\n", True),
        ("WIDE = 3\ndef f(x):\n    return [1] if x.shape[1] > WIDE else []\n", False),
    ],
)
def test_what_calls_may_keep(written, text, keeps):
    assert written(kernels=text).keeps_state == keeps


def calls_a_compiled_one(x):
    return COMPILED(x)


def compiles_nothing(x):
    return torch.softmax(x, dim=-1)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning")
def test_functions_that_torch_compiles_are_known_without_a_call():
    global COMPILED  # noqa: PLW0603 - a name of this module, by which a function calls it
    COMPILED = torch.compile(compiles_nothing, backend="eager")
    assert all(map(is_compiled_by_torch, (COMPILED, calls_a_compiled_one, torch.compile(torch.nn.Softmax(dim=-1)))))
    assert not any(map(is_compiled_by_torch, (compiles_nothing, torch.softmax, torch.nn.Softmax(dim=-1))))
