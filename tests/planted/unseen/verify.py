"""Demonstrates the unseen kernels: each wrong one must be wrong where its file says so, and right on an ordinary call.

    TRITON_INTERPRET=1 python tests/planted/unseen/verify.py [NAME ...]

Ordinary and odd calls are those of a softmax of one matrix; of other operations a wrong kernel demonstrates its fault alone.

``demonstrate()`` of a wrong kernel returns what it gave and what is right in float64, and, where only the judge can tell
the difference, the input. Right kernels run on odd calls. Every file runs in a process of its own. Exits 1 where a wrong
kernel is not wrong, or a right one is.
"""

import ast
import importlib.util
import multiprocessing
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

os.environ.setdefault("TRITON_INTERPRET", "1")

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from planted import Planted, read

from oracles.formats import FORMATS
from softcheck.calling.call import TORCH_DTYPES
from softcheck.judge.judge import judge
from softcheck.toolchain import interpreter

FOLDER = Path(__file__).resolve().parent
WRONG_BY = {torch.float16: 4.0, torch.bfloat16: 4.0, torch.float32: 1024.0, torch.float64: 1024.0}
"""Errors in ULPs of the output's type that no contract allows."""
ROUNDED_BY = {torch.float16: 1.0, torch.bfloat16: 1.0, torch.float32: 64.0, torch.float64: 64.0}
"""Errors that an ordinary call of few columns stays below."""


def main() -> int:
    """Run every file, print a line for each that is not as it should be."""
    interpreter.correct()
    wrong = [read(path) for path in sorted((FOLDER / "bugs").glob("*.py"))]
    right = [read(path) for path in sorted((FOLDER / "controls").glob("*.py"))]
    tasks: list[tuple[Planted, Callable[[Planted], str]]] = []
    for one in wrong:
        if "interpreter" in one.backends:
            tasks += [(one, is_right_on_an_ordinary_call)] if _takes_one_matrix(one) else []
            tasks.append((one, is_wrong))
    tasks += [(one, is_right_on_odd_calls) for one in right if "interpreter" in one.backends and _takes_one_matrix(one)]
    names = sys.argv[1:]
    tasks = [task for task in tasks if not names or task[0].name in names]
    failed = 0
    for one, check in tasks:
        said = _in_a_fork(one, check)
        if said:
            failed += 1
            sys.stdout.write(f"{one.name}: {check.__name__}: {said}\n")
    sys.stdout.write(f"{len(wrong)} wrong and {len(right)} right files, {len(tasks)} checks, {failed} failed\n")
    return 1 if failed or not tasks else 0


def _takes_one_matrix(planted: Planted) -> bool:
    """True for a softmax without parameters, by its source."""
    for node in ast.parse(planted.path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == planted.function == "softmax":
            required = len(node.args.args) - len(node.args.defaults)
            return required == 1 and not any("parameters" in ast.unparse(each) for each in node.decorator_list)
    return planted.function == "softmax"


def is_right_on_an_ordinary_call(planted: Planted) -> str:
    """Empty if the kernel is right on 4 x 100 normal logits in each of its dtypes."""
    torch.manual_seed(1)
    for dtype in planted.dtypes:
        x = torch.randn(4, 100, dtype=torch.float64).to(TORCH_DTYPES[dtype])
        error = _error(_import(planted).softmax(x), torch.softmax(x.double(), -1), ROUNDED_BY)
        if error:
            return f"{dtype}: {error}"
    return ""


def is_wrong(planted: Planted) -> str:
    """Empty if what the kernel demonstrates breaks the contract."""
    torch.manual_seed(2)
    output, expected, *given = _import(planted).demonstrate()
    if _error(output, expected, WRONG_BY):
        return ""
    if given and _judged(given[0], output):
        return ""
    return f"not wrong enough: {_error(output, expected, ROUNDED_BY) or 'right'}"


def is_right_on_odd_calls(planted: Planted) -> str:
    """Empty if a control is right, as the judge sees it, on calls of many shapes, layouts and special values, twice."""
    module = _import(planted)
    function = module.softmax
    declared = getattr(function, "__softcheck_declaration__", None)
    takes_strides = declared is None or "strided" in declared.layouts
    fully_masked = "nan" if declared is None else declared.fully_masked
    torch.manual_seed(3)
    for dtype in planted.dtypes:
        limit = (None if declared is None else declared.column_limit(dtype)) or 10**9
        kept = []
        for name, wide in _odd_inputs():
            if wide.shape[1] > limit or (not takes_strides and not wide.is_contiguous()):
                continue
            x = _in_type(wide, TORCH_DTYPES[dtype])
            before = x.clone()
            try:
                output = function(x)
            except ValueError:
                # A function may refuse what it is not made for.
                continue
            if not torch.equal(_bits(x), _bits(before)):
                return f"{dtype}, {name}: changes its input"
            kept.append((name, x, output))
        for name, x, output in kept:
            if output.shape != x.shape or output.dtype != x.dtype:
                return f"{dtype}, {name}: gave {output.dtype} {tuple(output.shape)}"
            said = _judged(x, output, fully_masked)
            if said:
                return f"{dtype}, {name}: {said}"
    return ""


def _odd_inputs() -> list[tuple[str, torch.Tensor]]:
    inf, nan = float("inf"), float("nan")
    peaks = torch.randn(3, 5000)
    peaks[0, 4999] = peaks[1, 0] = peaks[2, 2500] = 30.0
    special = torch.randn(12, 700)
    special[0], special[1, 3], special[2, 699], special[3, 5] = -inf, nan, inf, -inf
    special[4, :600], special[5, 100:], special[6], special[7] = -inf, -inf, 0.0, -0.0
    special[8], special[9, ::2], special[10], special[11, 300] = -80.0, -1e4, 6e4, 60000.0
    rising = torch.linspace(-60.0, 60.0, 4100).repeat(2, 1)
    shapes = [(1, 1), (2, 1), (1, 2), (3, 3), (33, 17), (7, 128), (17, 129), (1, 9000), (5, 1025), (0, 4), (4, 0)]
    inputs = [(f"{rows} x {columns}", torch.randn(rows, columns)) for rows, columns in shapes]
    inputs += [("peaks", peaks), ("special", special), ("rising", rising), ("falling", rising.flip(1).contiguous())]
    inputs += [("transposed", torch.randn(40, 9).t()), ("sliced", torch.randn(9, 90)[1:8, 3:70])]
    inputs += [("stepped", torch.randn(6, 90)[::2, ::3]), ("one row expanded", torch.randn(1, 50).expand(4, 50))]
    inputs += [("a column expanded", torch.randn(4, 1).expand(4, 50)), ("5 x 40", torch.randn(5, 40))]
    return [*inputs, ("1100 x 3", torch.randn(1100, 3)), ("wide", torch.randn(2, 20000)), ("again", torch.randn(5, 40))]


def _in_type(wide: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The same numbers and strides in another type."""
    if wide.dtype == dtype or wide.numel() == 0:
        return wide.to(dtype)
    span = 1 + sum((size - 1) * stride for size, stride in zip(wide.shape, wide.stride(), strict=True))
    memory = torch.as_strided(wide, (span,), (1,)).to(dtype)
    return torch.as_strided(memory, wide.shape, wide.stride())


def _bits(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])


def _judged(x: torch.Tensor, output: torch.Tensor, fully_masked: Any = "nan") -> str:
    """The judge's first finding on an output, or an empty string."""
    if output.dtype != x.dtype or output.shape != x.shape:
        return f"{output.dtype} {tuple(output.shape)}"
    if x.numel() == 0:
        return ""
    name = next(name for name, dtype in TORCH_DTYPES.items() if dtype == x.dtype)
    unsigned = {2: "uint16", 4: "uint32", 8: "uint64"}[x.element_size()]
    bits = [_bits(tensor.detach()).numpy().view(unsigned) for tensor in (x, output)]
    violations = judge(*bits, FORMATS[name], fully_masked=fully_masked).violations
    return f"{violations[0].kind}: {violations[0].message}" if violations else ""


def _error(output: torch.Tensor, expected: torch.Tensor, limits: dict[torch.dtype, float]) -> str:
    if output.dtype not in limits or output.shape != expected.shape:
        return f"{output.dtype} {tuple(output.shape)}, expected {tuple(expected.shape)}"
    output, expected = output.detach(), expected.detach()
    if not torch.equal(output.isnan(), expected.isnan()):
        return "NaN in other places"
    is_infinite = output.isinf() | expected.isinf()
    if not torch.equal(output.double()[is_infinite], expected.double()[is_infinite]):
        return "infinite in other places"
    info = torch.finfo(output.dtype)
    spacing = torch.exp2(torch.floor(torch.log2(expected.abs().clamp(min=info.tiny)))) * info.eps
    ulps = ((output.double() - expected).abs() / spacing).nan_to_num(0.0)
    largest = float(ulps.max()) if ulps.numel() else 0.0
    return f"{largest:.3g} ULP off" if largest > limits[output.dtype] else ""


def _import(planted: Planted) -> ModuleType:
    spec = importlib.util.spec_from_file_location(planted.name, planted.path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _in_a_fork(planted: Planted, check: Callable[[Planted], str]) -> str:
    """Returns what a check says in a process of its own, so that nothing is left of other files' calls."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def run() -> None:
        try:
            sender.send(check(planted))
        except Exception as error:  # noqa: BLE001 - whatever a kernel raises is reported
            sender.send(f"{type(error).__name__}: {error}")

    process = context.Process(target=run)
    process.start()
    said = receiver.recv() if receiver.poll(120.0) else "no answer in 120 s"
    process.kill()
    process.join()
    return str(said)


if __name__ == "__main__":
    sys.exit(main())
