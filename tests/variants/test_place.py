"""The line of a variant's code, told without importing it."""

import pytest

from softcheck.variants.place import SourcePlace, place_of
from softcheck.variants.registry import BUILTIN

FILE = """
raise RuntimeError("imported")
import triton
from elsewhere import imported

@triton.jit
def kernel(x_ptr, n: int):
    helper(x_ptr)

@triton.jit
def helper(x_ptr):
    pass

@triton.jit
def other_kernel(x_ptr):
    pass

@some.decorator
def launches(x):
    return run(x)

def run(x):
    kernel[(1,)](x, 2)

def either(x):
    kernel[(1,)](x, 2) if len(x) else other_kernel[(1,)](x)

def plain(x):
    return x[0](x)

class Softmax:
    def forward(self, x):
        return plain(x)

instance = Softmax()
"""


def line_of(text):
    return FILE.splitlines().index(text) + 1


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    (tmp_path / ".git").mkdir()
    (tmp_path / "src" / "package").mkdir(parents=True)
    (tmp_path / "src" / "kernels.py").write_text(FILE)
    (tmp_path / "src" / "package" / "__init__.py").write_text("raise RuntimeError('imported')")
    (tmp_path / "src" / "package" / "inner.py").write_text(FILE)
    monkeypatch.chdir(tmp_path / "src")
    return tmp_path


@pytest.mark.parametrize(
    ("function", "line"),
    [
        ("launches", "def kernel(x_ptr, n: int):"),
        ("launches(x, dim=-1)@layouts=contiguous", "def kernel(x_ptr, n: int):"),
        ("run", "def kernel(x_ptr, n: int):"),
        ("kernel[(rows,)](x, 1)", "def kernel(x_ptr, n: int):"),
        ("either", "def either(x):"),
        ("plain", "def plain(x):"),
        ("Softmax", "class Softmax:"),
        ("Softmax.forward", "    def forward(self, x):"),
        ("instance", "instance = Softmax()"),
        ("imported", "from elsewhere import imported"),
    ],
)
@pytest.mark.parametrize(("module", "file"), [("kernels.py", "kernels.py"), ("package.inner", "package/inner.py")])
def test_the_place_is_of_the_one_kernel_or_of_the_function_from_the_root_of_the_repository(
    module, file, function, line
):
    assert place_of(f"{module}:{function}") == SourcePlace(f"src/{file}", line_of(line))


def test_a_kernel_in_another_file_has_its_place_there(folder):
    (folder / "src" / "wrapper.py").write_text("from kernels import kernel\ndef softmax(x):\n    kernel[(1,)](x, 1)\n")
    assert place_of("wrapper.py:softmax") == SourcePlace("src/kernels.py", line_of("def kernel(x_ptr, n: int):"))


def test_a_file_outside_of_the_repository_has_its_whole_path(folder, monkeypatch, tmp_path_factory):
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    file = folder / "src" / "kernels.py"
    assert place_of(f"{file}:plain") == SourcePlace(str(file), line_of("def plain(x):"))


def test_what_can_not_be_read_has_no_place(folder):
    (folder / "src" / "broken.py").write_text("def softmax(x:")
    for name in ("broken.py:softmax", "nowhere.py:softmax", "package.nowhere:softmax", "no_such_variant", "sys:exit"):
        assert place_of(name) is None
    assert place_of("kernels.py:nowhere") == SourcePlace("src/kernels.py", 1)


def test_a_file_that_has_changed_is_read_again(folder):
    place_of("kernels.py:plain")
    (folder / "src" / "kernels.py").write_text(f"\n{FILE}")
    assert place_of("kernels.py:run") == SourcePlace("src/kernels.py", line_of("def kernel(x_ptr, n: int):") + 1)


@pytest.mark.parametrize("name", BUILTIN)
def test_every_built_in_variant_has_a_place_below_its_package(name):
    place = place_of(name)
    assert place is not None
    assert place.file.startswith("softcheck/variants/builtin/")
    assert place.line > 1
