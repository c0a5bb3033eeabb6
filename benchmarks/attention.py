"""Long heads of attention on a GPU: errors over their bound, beside what two rules of others say of the same outputs.

    python benchmarks/attention.py --heads 64 --length 4096 --head-dim 128 --dtype bfloat16

Exact answers are matrix products in float64 where the tensors lie, some queries at a time; their seconds are printed. Errors of all
elements are counted in ulp(sum p |v|). The bound (docs/bounds.md, section 26) is computed on the host for the queries that show
the largest error of each head, and for some others. The rules are flash-attention's, max |o - r| <= 2 max |p - r| for a plain
attention p in the input's dtype and one in float32, r, and ``torch.testing.assert_close`` with its own tolerances against r. Beside torch's
backends stand faults: the last 32 keys left out, one head scaled by 1 + 2^-5, and the last query of each head zero.
"""
# ruff: noqa: INP001, T201 - a script, not a package; it prints

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from oracles.attention import Heads
from oracles.formats import FORMATS, Format
from softcheck.errors import UsageError
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.attention_bounds import errors
from softcheck.operations.bounds import model
from softcheck.operations.heads import Attending
from softcheck.operations.log_softmax import half_ulp

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Queries, keys and values, [heads, length, dimension]."""

SCORES = 1 << 26
"""Scores in float64 that are held at once: 512 MiB."""
OTHERS = 16
"""Queries of each head whose bound is computed beside the worst one's."""


def exact(tensors: Tensors, scale: float, *, scores: int = SCORES) -> tuple[torch.Tensor, torch.Tensor]:
    """Exact answers and sum p |v|, float64 of the queries' shape, by matrix products in float64 in tiles."""
    q, k, v = (tensor.to(torch.float64) for tensor in tensors)
    sizes, keys = v.abs(), k.mT
    answers, scales = torch.empty_like(q), torch.empty_like(q)
    step = max(1, scores // k.shape[1])
    for head in range(len(q)):
        for first in range(0, q.shape[1], step):
            chosen = slice(first, first + step)
            weights = torch.softmax((q[head, chosen] @ keys[head]).mul_(scale), dim=-1)
            torch.matmul(weights, v[head], out=answers[head, chosen])
            torch.matmul(weights, sizes[head], out=scales[head, chosen])
    return answers, scales


def ulps(output: torch.Tensor, answers: torch.Tensor, scales: torch.Tensor, fmt: Format) -> torch.Tensor:
    """Errors in ulp(sum p |v|), float64."""
    exponent = torch.frexp(scales.clamp(min=2.0**fmt.min_exponent))[1].to(torch.float64) - 1
    return (output.to(torch.float64) - answers).abs() * torch.exp2(fmt.precision - 1 - exponent)


def share(
    output: torch.Tensor, answers: torch.Tensor, found: torch.Tensor, tensors: Tensors, scale: float, fmt: Format
) -> float:
    """The largest error over its bound, of the worst query of each head and ``OTHERS`` more."""
    generator, largest = np.random.default_rng(0), 0.0
    constants = model(Arithmetic(), fmt)
    for head in range(len(output)):
        worst = int(found[head].nan_to_num(nan=torch.inf).amax(dim=1).argmax())
        chosen = [worst, *generator.integers(output.shape[1], size=OTHERS).tolist()]
        q, k, v = (
            part[None].to(torch.float64).cpu().numpy()
            for part in (tensors[0][head, chosen], tensors[1][head], tensors[2][head])
        )
        allowed = errors(Heads(q, k, v, np.ones((1, len(chosen), k.shape[1]), dtype=np.bool_), scale), constants, fmt)[
            0
        ]
        due = answers[head, chosen].cpu().numpy()
        allowed = allowed + (half_ulp(np.abs(due) + allowed, fmt) if constants.rounds_result else 0.0)
        off = np.abs(output[head, chosen].to(torch.float64).cpu().numpy() - due)
        largest = max(largest, float(np.nan_to_num(off / allowed, nan=np.inf).max()))
    return largest


def backends() -> Iterator[tuple[str, Callable[..., torch.Tensor]]]:
    """Torch's backends by name, as functions of [1, heads, length, dimension]."""
    for backend in (
        *(SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION),
    ):

        def run(
            q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, which: SDPBackend = backend
        ) -> torch.Tensor:
            with sdpa_kernel(which):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=scale)

        yield backend.name.lower(), run


def plain(tensors: Tensors, scale: float) -> torch.Tensor:
    """Attention by single operations in the tensors' dtype, one head after the other."""
    return torch.stack([torch.softmax((q @ k.mT) * scale, dim=-1) @ v for q, k, v in zip(*tensors, strict=True)])


def faults(tensors: Tensors, scale: float, dtype: torch.dtype) -> Iterator[tuple[str, torch.Tensor]]:
    """Wrong outputs by name, each of a small slip in exact answers."""
    q, k, v = tensors
    answers, _ = exact(tensors, scale)
    yield "32 keys left out", exact((q, k[:, :-32], v[:, :-32]), scale)[0].to(dtype)
    scaled = answers.clone()
    scaled[0] *= 1 + 2.0**-5
    yield "a head 3 % too large", scaled.to(dtype)
    answers[:, -1] = 0
    yield "last queries zero", answers.to(dtype)


def verdicts(output: torch.Tensor, low: torch.Tensor, high: torch.Tensor) -> tuple[str, str]:
    """What flash-attention's rule and ``torch.testing.assert_close`` say of an output; the rule says nothing of float32."""
    of_output, of_low = ((each.float() - high).abs().max() for each in (output, low))
    try:
        torch.testing.assert_close(output, high.to(output.dtype))
    except AssertionError:
        close = "fail"
    else:
        close = "pass"
    if output.dtype == high.dtype:
        return "-", close
    return "pass" if bool(of_output <= 2 * of_low) else "fail", close


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
    tensors = Attending(head_dim=options.head_dim, scale=scale).operands(x)
    exact(tensors, scale)
    begun = _now(device)
    answers, scales = exact(tensors, scale)
    print(
        f"exact answers: {_now(device) - begun:.3f} s on {device}, {options.heads} x {options.length} x {options.head_dim}"
    )
    high = plain((tensors[0].float(), tensors[1].float(), tensors[2].float()), scale)
    low = plain(tensors, scale)
    print(f"{'output':<22}{'max ULP':>10}{'error/bound':>13}  2x rule  assert_close")
    broken, ran = False, 0
    for name, run in backends():
        try:
            output = run(*(tensor[None] for tensor in tensors), scale)[0]
        except RuntimeError as error:
            print(f"{name:<22}does not run: {str(error).splitlines()[0][:90]}")
            continue
        ran += 1
        broken |= _line(name, output, (answers, scales), tensors, scale, fmt, verdicts(output, low, high))
    for name, output in (("plain, 16 bits kept", low), *faults(tensors, scale, dtype)):
        _line(name, output, (answers, scales), tensors, scale, fmt, verdicts(output, low, high))
    return 3 if not ran else int(broken)


def _line(
    name: str,
    output: torch.Tensor,
    due: tuple[torch.Tensor, torch.Tensor],
    tensors: Tensors,
    scale: float,
    fmt: Format,
    said: tuple[str, str],
) -> bool:
    found = ulps(output, *due, fmt)
    of_bound = share(output, due[0], found, tensors, scale, fmt)
    print(f"{name:<22}{float(found.max()):>10.4g}{of_bound:>13.4g}  {said[0]:<7}  {said[1]}")
    return of_bound > 1


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
