"""Names of variants: how each form is found, and what is said about one that is not."""

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
import torch

from softcheck.errors import UsageError
from softcheck.variants import registry
from softcheck.variants.declaration import Declaration
from softcheck.variants.registry import BUILTIN, load, load_anew, resolve
from softcheck.variants.source import source_of


@pytest.fixture
def write(tmp_path):
    def make(text, name="mine.py"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return file

    return make


def refused(spec, act=load):
    with pytest.raises(UsageError) as caught:
        act(spec)
    return str(caught.value)


def test_every_builtin_declares_itself():
    assert len(BUILTIN) == 15
    for name in BUILTIN:
        variant = load(name)
        assert variant.name == name
        assert variant.declaration.description
        assert variant.declaration.provenance
        assert all(defect.reason for defect in variant.declaration.known_defects)


def test_resolving_and_listing_import_neither_torch_nor_triton():
    code = (
        "import sys; from softcheck.variants import registry; registry.known_names(); "
        "[registry.resolve(n) for n in registry.BUILTIN]; registry.resolve('torch.nn.functional:softmax'); "
        "sys.exit('torch' in sys.modules or 'triton' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_file_variant_keeps_its_spec_as_name_and_the_default_declaration(write):
    spec = f"{write('def softmax(x): return x')}:softmax"
    variant = load(spec)
    assert (variant.name, variant.declaration, variant.function(3)) == (spec, Declaration(), 3)


def test_file_in_the_working_folder(write, monkeypatch):
    monkeypatch.chdir(write("def softmax(x): return 1").parent)
    assert load("mine.py:softmax").function(0) == 1


def test_file_is_imported_once(write):
    file = write("def a(x): pass\ndef b(x): pass")
    functions = [load(f"{file}:{name}").function.__wrapped__ for name in "ab"]
    assert functions[0].__globals__ is functions[1].__globals__


def test_files_of_one_name_get_their_own_module_and_their_own_siblings(write):
    for folder in ("one", "two"):
        write(f"WORD = {folder!r}", f"{folder}/beside.py")
        write("import beside\ndef softmax(x): return beside.WORD", f"{folder}/kernel.py")
    specs = [f"{write('', f'{folder}/unused.py').parent}/kernel.py:softmax" for folder in ("one", "two")]
    assert [load(spec).function(0) for spec in specs] == ["one", "two"]


def test_module_variant_in_the_working_folder(write, monkeypatch):
    file = write("def softmax(x): return 2", "a_package_of_mine/kernels.py")
    write("", "a_package_of_mine/__init__.py")
    monkeypatch.chdir(file.parent.parent)
    assert load("a_package_of_mine.kernels:softmax").function(0) == 2


def test_entry_point(monkeypatch, write):
    file = write("def softmax(x): return 4", "offered_by_a_plug_in.py")
    monkeypatch.syspath_prepend(file.parent)
    point = EntryPoint("plugged", "offered_by_a_plug_in:softmax", registry.ENTRY_POINTS)
    monkeypatch.setattr(registry.importlib.metadata, "entry_points", lambda group: [point])
    assert resolve("plugged").kind == "entry_point"
    assert load("plugged").function(0) == 4
    of_all = [name for names in (*registry.BUILTIN_OF.values(), registry.WITH_MASKS) for name in names]
    assert registry.known_names() == [*of_all, "plugged"]


def test_unknown_name_has_near_matches():
    assert "did you mean 'one_block'" in refused("one_blok", resolve)


@pytest.mark.parametrize("spec", ["nothing_like_it", "", ":", ":function"])
def test_unknown_name_without_near_match_lists_all(spec):
    assert f"expected one of: {', '.join(sorted(registry.known_names()))}" in refused(spec, resolve)


def test_missing_file_names_its_neighbours(write):
    file = write("")
    assert f"does not exist; did you mean '{file}'" in refused(f"{file.with_name('mime.py')}:softmax", resolve)


def test_missing_folder(tmp_path):
    assert "holds no Python file" in refused(f"{tmp_path}/no/mine.py:softmax", resolve)


def test_file_without_function(write):
    file = write("")
    assert f"names no function; write {file}:FUNCTION" in refused(f"{file}", resolve)
    assert f"'' is no function name; write {file}:FUNCTION" in refused(f"{file}:", resolve)


def test_entry_point_without_function(monkeypatch):
    import torch  # noqa: F401 - torch looks for entry points of its own when it is imported

    point = EntryPoint("broken", "json", registry.ENTRY_POINTS)
    monkeypatch.setattr(registry.importlib.metadata, "entry_points", lambda group: [point])
    assert "names no function" in refused("broken")


def test_file_that_is_no_python(write):
    assert "is no Python file" in refused(f"{write('', 'mine.txt')}:softmax", resolve)


@pytest.mark.parametrize("function", ["soft-max", "1", "soft-max(x)"])
def test_function_that_is_no_name(write, function):
    assert "is no function name" in refused(f"{write('')}:{function}", resolve)


def test_missing_module():
    message = refused("no_such_package.kernels:softmax", resolve)
    assert "no module named 'no_such_package'" in message
    assert "FILE.py:FUNCTION" in message


def test_missing_function_names_the_functions_there(write):
    file = write("from os.path import join\ndef softmax_rows(x): return x\ndef _hidden(x): return x")
    message = refused(f"{file}:softmax_row")
    assert "has no 'softmax_row'; did you mean 'softmax_rows'?" in message
    assert "it defines no public function" in refused(f"{write('x = 1', 'empty.py')}:softmax")


def test_not_callable(write):
    assert "'softmax' in" in refused(f"{write('softmax = 3')}:softmax")
    assert "of type int, expected a function" in refused(f"{write('softmax = 3')}:softmax")


@pytest.mark.parametrize("arguments", ["", "a, b, c"])
def test_function_whose_call_cannot_be_guessed(write, arguments):
    message = refused(f"{write(f'def softmax({arguments}): pass')}:softmax")
    assert f"softmax({arguments}) can't be called with one matrix" in message
    assert "from mine import softmax" in message


@pytest.mark.parametrize("arguments", ["x", "x, dim=-1", "*tensors", "x, /, *, out=None"])
def test_function_that_takes_a_tensor_and_perhaps_more(write, arguments):
    load(f"{write(f'def softmax({arguments}): pass')}:softmax")


def test_class_and_kernel_are_refused(write):
    file = write("import triton\nclass Softmax: pass\n@triton.jit\ndef kernel(x): pass")
    assert "is a class" in refused(f"{file}:Softmax")
    assert "is a Triton kernel; expected the function that launches it" in refused(f"{file}:kernel")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\nraise ValueError('no luck')", "raised on import: ValueError: no luck at {file}:2"),
        ("import sys\nsys.exit(3)", "raised on import: SystemExit: 3 at {file}:2"),
        ("x = 1\ndef softmax(x) return x", "raised on import: SyntaxError: expected ':' at {file}:2"),
        ("import not_installed_anywhere", "raised on import: ModuleNotFoundError: No module named"),
        (
            "import softcheck\nfrom softcheck.variants.declaration import variant\nvariant(dtype=('float16',))",
            "TypeError: softcheck.variant:",
        ),
        ("x = '\0'", "raised on import: SyntaxError: source code"),
    ],
)
def test_module_that_raises_on_import(write, text, said):
    file = write(text)
    for _ in range(2):
        assert said.format(file=file) in refused(f"{file}:softmax"), "the second attempt runs the file again"


def test_every_declared_defect_has_a_case_that_can_show_it():
    from softcheck.cases.corpus import builtin_names
    from softcheck.cases.corpus import load as load_cases
    from softcheck.probes.registry import PROBES

    cases = load_cases(builtin_names())
    for name in BUILTIN:
        for defect in load(name).declaration.known_defects:
            dtypes = defect.dtypes or load(name).declaration.dtypes
            for dtype in dtypes:
                shown = [c.id for c in cases if c.dtype == dtype and defect.may_show(c.id)]
                shown += [glob for glob in defect.cases if any(glob.startswith(f"probe/{p}/") for p in PROBES)]
                assert shown, f"{name}, {dtype}: no case matches {defect.cases}"


def test_home_that_nobody_has_is_refused():
    assert "can't be found" in refused("~nobody-has-this-name/x.py:f", resolve)


def test_promises_behind_a_name_replace_declared_ones(write):
    file = write(
        "import softcheck\n@softcheck.variant(max_columns=99, fully_masked='zero')\ndef softmax(x, dim): return x.softmax(dim)"
    )
    variant = load(f"{file}:softmax(x, -1)@layouts=contiguous,empty=False,max_elements=2**31,dtypes=fp16,bf16")
    declared = variant.declaration
    assert (declared.layouts, declared.empty, declared.max_elements) == (("contiguous",), False, 2**31)
    assert (declared.dtypes, declared.max_columns, declared.fully_masked) == (("float16", "bfloat16"), 99, "zero")
    assert variant.call == "f(x, -1)"
    assert registry.with_call(f"{file}:softmax@empty=False", "f(x, -1)") == f"{file}:softmax(x, -1)@empty=False"
    assert load("torch@empty=False").declaration.empty is False


@pytest.mark.parametrize(
    ("promises", "words"),
    [
        ("layuots=contiguous", "'layuots' in 'layuots=contiguous' is no promise; did you mean 'layouts'?"),
        ("layouts=strange", "layouts is 'strange'; expected contiguous or strided; write layouts=contiguous"),
        ("fully_masked=maybe", "expected nan or zero"),
        ("scale=3x", "scale is '3x'; expected a number, as 1"),
        ("causal=5", "causal is '5'; expected a word"),
        ("max_elements=5", "expected at least 8388608"),
        ("empty=False,contiguous", "'contiguous' in 'empty=False,contiguous' is no promise"),
    ],
)
def test_promises_that_are_none_are_refused(promises, words):
    assert words in refused(f"torch@{promises}", resolve)


@pytest.mark.parametrize("name", ["softmax", "wrapped"])
def test_operators_of_a_module_outlive_another_import_of_their_names(tmp_path, name):
    """Torch destroys an operator when another of its name is registered: whoever calls the first reads freed memory."""
    text = (
        "import torch\n\n"
        "calls = []\n\n\n"
        f"@torch.library.custom_op('softcheck_tests::{name}', mutates_args=())\n"
        "def softmax(x: torch.Tensor) -> torch.Tensor:\n"
        "    calls.append(1)\n"
        "    return torch.softmax(x, -1)\n\n\n"
        "def wrapped(x):\n"
        "    return softmax(x)\n"
    )
    files = [tmp_path / "registers.py", tmp_path / "beside.py"]
    for file in files:
        file.write_text(text)
    first = load(f"{files[0]}:{name}")
    calls = next(vars(m)["calls"] for m in list(sys.modules.values()) if getattr(m, "__file__", None) == str(files[0]))
    others = [load_anew(first, torch.device("cpu")), load(f"{files[1]}:{name}")]
    x = torch.zeros(2, 3)
    for each in (*others, first):
        before = len(calls)
        assert torch.equal(each.function(x), torch.softmax(x, -1))
        assert len(calls) == before + (1 if each is first else 0)
    assert source_of(first.function).files == (files[0],)
