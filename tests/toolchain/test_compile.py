"""Every built-in variant's kernels compile for every target without a GPU, and a kernel that can't compile is refused."""

import re

import pytest

from softcheck.variants.registry import BUILTIN

TARGETS = ("cuda:80", "cuda:90", "cuda:100", "hip:gfx942")
WITHOUT_KERNELS = ("eager", "torch", "eager_compiled")
"""Variants that launch library kernels only; without a GPU there is nothing of theirs to compile."""
WITH_KERNELS = [name for name in BUILTIN if name not in WITHOUT_KERNELS]
DTYPES = ("float16", "bfloat16", "float32", "float64")

PLANTED = """
import torch, triton, triton.language as tl

@triton.jit
def changing_type(output, x, columns, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    total = tl.zeros([], tl.float32)
    for start in range(0, columns, BLOCK):
        powers = tl.exp(tl.load(x + start + lane, mask=start + lane < columns, other=-float("inf")).to(tl.float32))
        total = total + tl.sum(powers.to(tl.float64), axis=0)
    for start in range(0, columns, BLOCK):
        powers = tl.exp(tl.load(x + start + lane, mask=start + lane < columns, other=-float("inf")).to(tl.float32))
        tl.store(output + start + lane, powers / total, mask=start + lane < columns)

def softmax(x):
    output = torch.empty_like(x)
    changing_type[(1,)](output, x, x.shape[1], 16)
    return output

@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["columns"])
@triton.jit
def tuned(output, x, columns, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    tl.store(output + lane, tl.load(x + lane, mask=lane < columns), mask=lane < columns)

def autotuned(x):
    output = torch.empty_like(x)
    tuned[(1,)](output, x, x.shape[1])
    return output
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", WITH_KERNELS)
def test_kernels_compile(compiled, name, target):
    binary = "cubin" if target.startswith("cuda") else "hsaco"
    # One of the dtypes, another one for the next variant or target.
    dtype = DTYPES[(WITH_KERNELS.index(name) + TARGETS.index(target)) % len(DTYPES)]
    kernels = compiled.ask(name, target, dtype, (5, 781))
    assert len(kernels) == 1
    assert binary in kernels[0][1]


@pytest.mark.parametrize("name", WITHOUT_KERNELS)
def test_library_variants_have_no_kernel_of_their_own(compiled, name):
    assert compiled.ask(name, "cuda:90", "float32", (5, 781)) == []


def test_hybrid_compiles_both_of_its_paths(compiled):
    [(_, _, _, one_pass)] = compiled.ask("hybrid", "cuda:90", "float16", (2, 3000))
    [(_, _, _, tiled)] = compiled.ask("hybrid_tiled", "cuda:90", "float16", (2, 3000))
    assert "scf.for" not in one_pass
    assert tiled.count("scf.for") == 3


@pytest.mark.parametrize("dtype", DTYPES)
def test_persistent_fits_its_widest_row(compiled, dtype):
    widest = {"float16": 32768, "bfloat16": 32768, "float32": 16384, "float64": 8192}[dtype]
    [(_, _, shared, _)] = compiled.ask("persistent", "cuda:90", dtype, (4, widest))
    assert 3 * 65536 <= shared <= 227 * 1024, "three buffers of 64 KiB, within the limit of compute capability 9.0"
    [(_, _, shared, _)] = compiled.ask("persistent", "cuda:80", dtype, (4, widest))
    assert 65536 <= shared <= 163 * 1024, "one buffer where three don't fit"


def test_only_the_one_block_pair_has_a_32_bit_row_offset(compiled):
    def multiplies_program_id_in_32_bits(name):
        [(_, _, _, ttir)] = compiled.ask(name, "cuda:90", "float16", (5, 781))
        program = re.search(r"(%\w+) = tt\.get_program_id x", ttir)[1]
        return re.search(rf"arith\.muli {program}, [^:]*: i32", ttir) is not None

    assert [n for n in WITH_KERNELS if multiplies_program_id_in_32_bits(n)] == ["one_block", "one_block_default_warps"]


@pytest.mark.parametrize("target", ["cuda:90", "hip:gfx942"])
def test_kernel_that_only_the_interpreter_accepts_is_refused(compiled, interpreted, tmp_path, target):
    import numpy as np

    from softcheck.cases.case import Layout

    file = tmp_path / "planted.py"
    file.write_text(PLANTED)
    [output] = interpreted.ask(f"{file}:softmax", "float32", [(np.zeros((1, 40), np.uint32), Layout())])
    assert np.allclose(output.view(np.float32), 1 / 40)
    with pytest.raises(RuntimeError, match=rf"KernelCompileError: kernel changing_type does not compile for {target}"):
        compiled.ask(f"{file}:softmax", target, "float32", (1, 40))
    assert compiled.ask("one_block", target, "float32", (5, 781)), "the next kernel compiles as if nothing had been"


def test_autotuned_kernel_compiles_every_configuration(compiled, tmp_path):
    file = tmp_path / "planted.py"
    file.write_text(PLANTED)
    assert len(compiled.ask(f"{file}:autotuned", "cuda:90", "float32", (1, 40))) == 2


def test_unknown_target_and_dtype_are_named(compiled):
    with pytest.raises(RuntimeError, match="UsageError: unknown target 'cuda:91'; expected one of: cuda:80"):
        compiled.ask("one_block", "cuda:91", "float32", (1, 40))
    with pytest.raises(RuntimeError, match="UsageError: unknown dtype 'float8'"):
        compiled.ask("one_block", "cuda:90", "float8", (1, 40))
