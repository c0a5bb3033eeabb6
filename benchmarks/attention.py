"""Long heads of attention on a GPU: errors over their bound, beside what two rules of others say of the same outputs.

    python benchmarks/attention.py --heads 64 --length 4096 --head-dim 128 --dtype bfloat16

Exact answers, and the bound on each number (docs/bounds.md#attention), are matrix products in float64 where the tensors lie, some queries at a
time; the seconds of judging one output are printed. Errors are counted in ulp(sum p |v|). The rules are those of
``softcheck.judge.peers``, with a plain attention in the dtype and one in float32. Beside torch's backends stand faults: the last 32 keys left out, one head
scaled by 1 + 2^-5, and the last query of each head zero.
"""
# ruff: noqa: INP001, T201 - a script, not a package; it prints

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

import torch

from oracles.formats import FORMATS, Format
from softcheck.errors import UsageError
from softcheck.judge.judge import STANDARD
from softcheck.judge.peers import CLOSE, TWICE, verdicts
from softcheck.judge.tensor_rows import TensorJudge
from softcheck.operations.attention import SCORES
from softcheck.operations.heads import Attending
from softcheck.operations.operation import Operation
from softcheck.operations.registry import operation
from softcheck.operations.torch_backends import backends

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Queries, keys and values, [heads, length, dimension]."""


def batches(x: torch.Tensor) -> Iterator[slice]:
    """Heads of a matrix, one or several at a time: what the judge takes at once."""
    step = max(1, SCORES[x.device.type] // x.shape[1] ** 2)
    return (slice(first, first + step) for first in range(0, len(x), step))


def judged(x: torch.Tensor, output: torch.Tensor, of: Operation, fmt: Format) -> tuple[float, float]:
    """The largest error of an output, [heads, length, dimension], in ulp(sum p |v|), and the largest share of its bound."""
    judge, found = TensorJudge(of, fmt, fmt, "nan", STANDARD), []
    for heads in batches(x):
        rows = judge.judged(x[heads], output[heads].flatten(1))
        found.append(torch.stack([rows.errors.amax(), rows.shares.amax()]).nan_to_num(nan=torch.inf))
    worst, share = torch.stack(found).amax(dim=0).tolist()
    return worst, share


def seconds(x: torch.Tensor, of: Operation, fmt: Format) -> float:
    """Seconds of the judgement of an output."""
    output = torch.zeros(len(x), *of.part_shape(x.shape[1]), dtype=x.dtype, device=x.device)
    begun = _now(x.device)
    judged(x, output, of, fmt)
    return _now(x.device) - begun


def plain(tensors: Tensors, scale: float) -> torch.Tensor:
    """Attention by single operations in the tensors' dtype, one head after the other; exact but for roundings in float64."""
    return torch.stack([torch.softmax((q @ k.mT) * scale, dim=-1) @ v for q, k, v in zip(*tensors, strict=True)])


def faults(tensors: Tensors, scale: float, dtype: torch.dtype) -> Iterator[tuple[str, torch.Tensor]]:
    """Wrong outputs by name, each of a small slip in exact answers."""
    q, k, v = (tensor.to(torch.float64) for tensor in tensors)
    answers = plain((q, k, v), scale)
    yield "32 keys left out", plain((q, k[:, :-32], v[:, :-32]), scale).to(dtype)
    scaled = answers.clone()
    scaled[0] *= 1 + 2.0**-5
    yield "a head 3 % too large", scaled.to(dtype)
    answers[:, -1] = 0
    yield "last queries zero", answers.to(dtype)


def main(arguments: Sequence[str]) -> int:
    """Prints the table; returns 1 if a backend breaks its bound, and 3 if none runs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (("--heads", 64), ("--length", 4096), ("--head-dim", 128)):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float16", "float32"))
    options = parser.parse_args(arguments)
    if min(options.heads, options.length, options.head_dim) < 1:
        raise UsageError("--heads, --length and --head-dim are at least 1")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    fmt, dtype = FORMATS[options.dtype], getattr(torch, options.dtype)
    scale = options.head_dim**-0.5
    generator = torch.Generator(device).manual_seed(0)
    x = torch.randn(options.heads, options.length, generator=generator, device=device).mul_(2).to(dtype)
    of = operation("attention", {"head_dim": float(options.head_dim), "scale": scale})
    attending = Attending(head_dim=options.head_dim, scale=scale)
    tensors = attending.operands(x)
    seconds(x[:1], of, fmt)
    taken = seconds(x, of, fmt)
    shape = f"{options.heads} x {options.length} x {options.head_dim}"
    print(f"judge: {taken:.3f} s on {device}, {shape}")
    high = plain((tensors[0].float(), tensors[1].float(), tensors[2].float()), scale).to(dtype)
    low = plain(tensors, scale)
    print(f"{'output':<22}{'max ULP':>10}{'error/bound':>13}  2x rule  assert_close")
    broken, ran = False, 0
    given = {"x": x, **dict(zip(("q3", "k3", "v3"), tensors, strict=True))}
    for name, run in backends(attending).items():
        try:
            output = run(given).flatten(0, 1)
        except RuntimeError as error:
            print(f"{name:<22}does not run: {str(error).splitlines()[0][:90]}")
            continue
        ran += 1
        broken |= _line(name, judged(x, output, of, fmt), verdicts(output, high, low))
    for name, output in (("plain, 16 bits kept", low), *faults(tensors, scale, dtype)):
        _line(name, judged(x, output, of, fmt), verdicts(output, high, low))
    return 3 if not ran else int(broken)


def _line(name: str, found: tuple[float, float], said: Mapping[str, bool]) -> bool:
    twice, close = ({True: "pass", False: "fail", None: "-"}[said.get(rule)] for rule in (TWICE, CLOSE))
    print(f"{name:<22}{found[0]:>10.4g}{found[1]:>13.4g}  {twice:<7}  {close}")
    return found[1] > 1


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
