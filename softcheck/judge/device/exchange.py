# ruff: noqa: N803 - kernels name compile-time constants in capitals, as Triton does
"""Exchanges between the warps of a program through shared memory, on NVIDIA GPUs.

An exchange takes one barrier, where Triton's own takes three. Every warp stores its own figure, and after a barrier
reads them all. Each exchange has a place of its own. The place is free again after two more exchanges in other places:
when every warp has come to the first of them, it has read this one.
"""

import triton.language as tl

from softcheck.judge.device._jit import constexpr_function, jit

WORDS = 16 * 4 + 3 * 16 + 8
"""32-bit words that exchanges take, for up to 16 warps. The address that they are given must be a multiple of 16
bytes."""

PEAK, FIRST, CLOSER = tl.constexpr(256), tl.constexpr(320), tl.constexpr(384)
"""Places of exchanges of one word, in bytes. The exchange of two sums lies before them, and the values of ``kept``
behind."""
_KEPT = tl.constexpr(448)


@constexpr_function
def _store(size: int, stores: str) -> str:
    """PTX with which each warp stores at ``a``, its own ``size`` bytes from $1 on.

    All threads of a warp store the same.
    """
    return f"""{{.reg .b32 a;
mov.u32 a, %tid.x;
shr.u32 a, a, 5;
mad.lo.u32 a, a, {size}, $1;
{stores}
mov.u32 $0, 0;}}"""


@constexpr_function
def _store_word(place: int) -> str:
    ptx: str = _store(4, f"st.shared.b32 [a+{place}], $2;")
    return ptx


@constexpr_function
def _store_sums() -> str:
    ptx: str = _store(16, "st.shared.f64 [a], $2;\nst.shared.f32 [a+8], $3;")
    return ptx


@constexpr_function
def _word(operation: str, warps: int, place: int) -> str:
    """PTX that reads a word of every warp and joins them by the operation, in a tree."""
    lines = ["{", f".reg .b32 v<{warps}>;", "bar.sync 0;"]
    width = min(warps, 4)
    for first in range(0, warps, width):
        values = ", ".join(f"v{first + i}" for i in range(width))
        lines.append(f"ld.shared.v{width}.b32 {{{values}}}, [$1+{place + 4 * first}];")
    while warps > 1:
        warps //= 2
        lines += [f"{operation} v{i}, v{i}, v{i + warps};" for i in range(warps)]
    return "\n".join([*lines, "mov.b32 $0, v0;}"])


@constexpr_function
def _sums(warps: int) -> str:
    """PTX that reads a float64 and a float32 of every warp and adds them up, in a tree."""
    lines = ["{", f".reg .b32 l, h, w;\n.reg .f64 d<{warps}>;\n.reg .f32 f<{warps}>;", "bar.sync 0;"]
    for i in range(warps):
        lines += [f"ld.shared.v4.b32 {{l, h, w, _}}, [$2+{16 * i}];", f"mov.b64 d{i}, {{l, h}};\nmov.b32 f{i}, w;"]
    while warps > 1:
        warps //= 2
        for i in range(warps):
            lines.append(f"add.f64 d{i}, d{i}, d{i + warps};\nadd.f32 f{i}, f{i}, f{i + warps};")
    return "\n".join([*lines, "mov.f64 $0, d0;\nmov.f32 $1, f0;}"])


@constexpr_function
def _keep(place: int) -> str:
    return f"st.shared.b32 [$1+{place}], $2;\nld.volatile.shared.b32 $0, [$1+{place}];"


@jit
def kept(value: tl.tensor, place_of_all: tl.tensor, NUMBER: tl.constexpr, NVIDIA: tl.constexpr) -> tl.tensor:
    """Returns a float32 argument of a kernel in a register.

    ptxas would otherwise read it from parameter memory for every element. NUMBER, up to 7, is different for each
    argument. Every thread stores the same value and reads it back, so that no thread waits.
    """
    if NVIDIA:
        value = tl.inline_asm_elementwise(
            _keep(_KEPT + 4 * NUMBER), "=r,r,r", [place_of_all, value], dtype=tl.float32, is_pure=False, pack=1
        )
    return value


@jit
def of_warps(
    value: tl.tensor, place_of_all: tl.tensor, OPERATION: tl.constexpr, WARPS: tl.constexpr, PLACE: tl.constexpr
) -> tl.tensor:
    """Joins [WARPS] words, one of each warp, by a PTX operation of their type, into a scalar."""
    tl.inline_asm_elementwise(
        _store_word(PLACE), "=r,r,r", [place_of_all, value], dtype=tl.int32, is_pure=False, pack=1
    )
    return tl.inline_asm_elementwise(
        _word(OPERATION, WARPS, PLACE), "=r,r", [place_of_all], dtype=value.dtype, is_pure=False, pack=1
    )


@jit
def sums_of_warps(
    wide: tl.tensor, narrow: tl.tensor, place_of_all: tl.tensor, WARPS: tl.constexpr
) -> tuple[tl.tensor, tl.tensor]:
    """Sums of float64 and of float32 [WARPS], one of each warp, as scalars."""
    tl.inline_asm_elementwise(
        _store_sums(), "=r,r,d,f", [place_of_all, wide, narrow], dtype=tl.int32, is_pure=False, pack=1
    )
    wide_total, narrow_total = tl.inline_asm_elementwise(
        _sums(WARPS), "=d,=f,r", [place_of_all], dtype=(tl.float64, tl.float32), is_pure=False, pack=1
    )
    return wide_total, narrow_total
