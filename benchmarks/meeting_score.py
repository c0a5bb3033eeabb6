"""The meeting score: how many faults are found that show only where k circumstances meet, by k.

    python benchmarks/meeting_score.py [--seed S] [--count N] [--parallel N] [--device cpu] [--dtype D] [--plans-alone] [--keep FOLDER]

Each kernel is a right function in ordinary source, in which a branch on what k = 1 to 4 circumstances change makes the answer or the
gradient wrong by a twentieth. The seed draws which axes meet, the condition on each, and the place of the fault. The
probe ``meetings`` runs on each as in a report; a kernel is found by any finding. The same functions without a branch are run too, and
must be left alone. ``--plans-alone`` makes no calls that the code's own conditions ask for, as where the branch is inside a
Triton kernel. Exits 1 where a right kernel is accused.
"""
# ruff: noqa: INP001, T201 - a script that prints, not a package

import argparse
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

_COMMON: Mapping[str, tuple[str, ...]] = {
    "mode": (
        "torch.is_inference_mode_enabled()",
        "not torch.is_grad_enabled()",
        "threading.current_thread() is not _MAIN",
    ),
    "before": ("_seen.get('width', 0) > {x}.shape[{last}]", "_seen.get('dtype', {x}.dtype) != {x}.dtype"),
}
_OF_ROWS: Mapping[str, tuple[str, ...]] = {
    "columns": ("x.shape[-1] > 1024", "x.shape[-1] > 2000", "x.shape[-1] < 3", "64 < x.shape[-1] < 128"),
    "rows": ("x.shape[0] == 1", "x.numel() // max(1, x.shape[-1]) > 12"),
    "layout": ("x.stride(-1) != 1", "x.stride(-1) == 1 and not x.is_contiguous()", "x.storage_offset() % 4 == 1"),
    "contents": ("bool(x.isnan().any())", "bool((x.amax() > 25).any())", "bool(x.isneginf().any())", "not x.any()"),
}
CONDITIONS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "softmax": {**_OF_ROWS, **_COMMON, "dims": ("x.dim() == 3", "x.dim() == 4"), "scale": ("scale > 1", "scale < 0.2")},
    "cross_entropy": {
        **_OF_ROWS,
        **_COMMON,
        "label_smoothing": ("label_smoothing > 0",),
        "ignore_index": ("bool((target == ignore_index).any())",),
        "layout of target": ("target.storage_offset() > 0",),
    },
    "attention": {
        **_COMMON,
        "columns": ("k.shape[-2] > 64", "k.shape[-2] > 128", "k.shape[-2] == 1"),
        "rows": ("k.shape[0] * k.shape[1] == 1", "k.shape[0] * k.shape[1] > 4"),
        "queries": ("q.shape[-2] == 1 < k.shape[-2]", "q.shape[-2] > k.shape[-2]"),
        "is_causal": ("is_causal",),
        "softcap": ("softcap > 0",),
        "layout of v": ("not v.is_contiguous()",),
        "layout of k": ("k.storage_offset() > 0", "not k.is_contiguous()"),
    },
}
"""Conditions on circumstances by operation and axis, as code asks for them."""

_HEAD = """import threading
import torch

_MAIN, _seen = threading.main_thread(), {{}}


def _is_hit({x}, **options):
    {unpacked}hit = {condition}
    _seen.update(width={x}.shape[{last}], dtype={x}.dtype)
    return hit


class _Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y, answer, gradient):
        ctx.gradient = gradient
        return y * 1.05 if answer else y.clone()

    @staticmethod
    def backward(ctx, g):
        return (g * 1.05 if ctx.gradient else g), None, None


"""
_BODIES = {
    "softmax": """def softmax(x, scale=1.0):
    hit = _is_hit(x, scale=scale)
    y = torch.softmax(x.float() * scale, -1).to(x.dtype)
    return _Scale.apply(y, hit and {answer}, hit and {gradient})
""",
    "cross_entropy": """def cross_entropy(x, target, ignore_index=-100, label_smoothing=0.0):
    hit = _is_hit(x, target=target, ignore_index=ignore_index, label_smoothing=label_smoothing)
    y = torch.nn.functional.cross_entropy(
        x.float(), target, ignore_index=ignore_index, label_smoothing=label_smoothing, reduction="none"
    ).to(x.dtype)
    return _Scale.apply(y, hit and {answer}, hit and {gradient})
""",
    "attention": """def attention(q, k, v, is_causal=False, softcap=0.0):
    hit = _is_hit(k, q=q, v=v, is_causal=is_causal, softcap=softcap)
    scores = q.float() @ k.float().mT * q.shape[-1] ** -0.5
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if is_causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1), float("-inf"))
    y = (torch.softmax(scores, -1) @ v.float()).to(q.dtype)
    return _Scale.apply(y, hit and {answer}, hit and {gradient})
""",
}
_OPTIONS = {
    "softmax": ("scale",),
    "cross_entropy": ("target", "ignore_index", "label_smoothing"),
    "attention": ("q", "v", "is_causal", "softcap"),
}
_SILENT = ("torch.is_inference_mode_enabled()", "not torch.is_grad_enabled()")


def drawn(rng: random.Random, met: int) -> tuple[str, str, str]:
    """Returns an operation, the axes that meet in words, and the source of a kernel in which so many meet; 0 for a right one."""
    operation = rng.choice(list(CONDITIONS))
    axes, x = CONDITIONS[operation], "k" if operation == "attention" else "x"
    chosen = {name: rng.choice(axes[name]) for name in rng.sample(list(axes), met)}
    if chosen.get("rows") == "x.shape[0] == 1" and operation != "attention":
        # Where the only row is NaN throughout, or its loss 0, nothing shows; and a single row of a matrix is contiguous.
        is_hidden = "isnan" in chosen.get("contents", "") or "ignore_index" in chosen
        is_hidden |= "is_contiguous" in chosen.get("layout", "") and "dims" not in chosen
        chosen["rows"] = "x.shape[0] == 2" if is_hidden else chosen["rows"]
    in_gradient = bool(met) and rng.random() < 0.3 and not set(chosen.values()) & {*_SILENT}
    if in_gradient and met > 1:
        # The gradient is one of the circumstances.
        chosen.pop(rng.choice(list(chosen)))
    # The length of keys is the width of attention.
    last = -2 if operation == "attention" else -1
    condition = " and ".join(f"({each.format(x=x, last=last)})" for each in chosen.values()) or "False"
    names = _OPTIONS[operation]
    unpacked = f"{', '.join(names)}{',' * (len(names) == 1)} = (options[name] for name in {names!r})\n    "
    source = _HEAD.format(x=x, last=last, unpacked=unpacked, condition=condition)
    source += _BODIES[operation].format(answer=not in_gradient, gradient=in_gradient)
    return operation, " + ".join([*chosen, *(["gradient"] if in_gradient else [])]), source


def findings(spec: str, dtype: str, device: str, *, plans_alone: bool) -> tuple[list[str], float]:
    """Returns the meetings that the probe names, and the seconds that it took."""
    import torch

    from softcheck.probes import meetings, registry
    from softcheck.probes.base import Setting, Subject
    from softcheck.variants.registry import load

    torch.set_num_threads(1)
    if plans_alone:
        meetings.SOUGHT = 0.0
    begun = time.perf_counter()
    variant = load(spec)
    setting = Setting(
        declaration=variant.declaration, dtype=dtype, backend="cuda" if device.startswith("cuda") else "interpreter"
    )
    subject = Subject(variant, setting, torch.device(device))
    probe, done = registry.load(registry.MEETINGS), []
    for trial in probe.trials(setting):
        done.append((trial, probe.run(subject, trial)))
        if found := probe.conclude(done).findings:
            return [each.label for each in found], time.perf_counter() - begun
    return [], time.perf_counter() - begun


def main() -> int:
    """Prints the score."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=None, help="drawn by the system if left out, and printed")
    parser.add_argument("--count", type=int, default=200, help="wrong kernels; a tenth as many right ones beside them")
    parser.add_argument("--parallel", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--plans-alone", action="store_true", help="make no calls that conditions of the code ask for")
    parser.add_argument("--keep", type=Path, default=None, help="folder for the kernels; a temporary one if left out")
    asked = parser.parse_args()
    seed = int.from_bytes(os.urandom(4)) if asked.seed is None else asked.seed
    rng = random.Random(seed)  # noqa: S311 - no secret
    folder = asked.keep or Path(tempfile.mkdtemp(prefix="meetings-"))
    folder.mkdir(parents=True, exist_ok=True)
    score: dict[int, list[bool]] = {k: [] for k in range(5)}
    seconds: list[float] = []
    context = multiprocessing.get_context("forkserver")
    with ProcessPoolExecutor(asked.parallel, mp_context=context) as pool:
        jobs = {}
        for number in range(asked.count + asked.count // 10):
            met = 1 + number % 4 if number < asked.count else 0
            operation, words, source = drawn(rng, met)
            path = folder / f"kernel_{number}.py"
            path.write_text(source, encoding="utf-8")
            dimensions = ",dimensions=4" if operation == "softmax" else ""
            spec = f"{path}:{operation}@operation={operation}{dimensions}"
            job = pool.submit(findings, spec, asked.dtype, asked.device, plans_alone=asked.plans_alone)
            jobs[job] = met, f"{path.name} {operation}: {words}"
        for job in as_completed(jobs):
            met, words = jobs[job]
            found, took = job.result()
            score[met].append(bool(found))
            seconds.append(took)
            if bool(found) != bool(met):
                print(f"{'missed' if met else 'ACCUSED'} {words} {' | '.join(found)}".rstrip(), flush=True)
    print(
        f"seed {seed}, {asked.dtype} on {asked.device}; seconds median {sorted(seconds)[len(seconds) // 2]:.1f}, worst {max(seconds):.1f}"
    )
    for met in (1, 2, 3, 4):
        print(f"{met} circumstances: {sum(score[met])} of {len(score[met])} found")
    print(f"right: {sum(score[0])} of {len(score[0])} accused")
    return int(any(score[0]))


if __name__ == "__main__":
    sys.exit(main())
