"""The floating-point environment of the calling thread: rounding of results, and flushing of subnormals to 0.

``torch.set_flush_denormal`` and C's ``fesetround`` change it for everything that the thread computes afterwards, in
other variants and in the judge. C's ``fegetenv`` stores the processor's registers. Of these, the bits that control
arithmetic are kept. The flags of exceptions that have occurred are left out, since all arithmetic sets them.

Sources: Intel 64 and IA-32 architectures software developer's manual, volume 1, sections 8.1.5 and 10.2.3 (x87 control
word, MXCSR); Arm architecture reference manual for A-profile, FPCR; ``bits/fenv.h`` of glibc and of musl for
``fenv_t``.
"""

import ctypes
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

State = tuple[int, ...]
"""Register bits that control arithmetic on a thread, to be compared and put back."""

_Buffer = ctypes.c_uint64 * 8
"""Larger than any ``fenv_t``."""


@dataclass(frozen=True, slots=True)
class _Register:
    """A register in ``fenv_t``: its place and size in bytes, the bits that control arithmetic, and their default."""

    name: str
    offset: int
    size: int
    control: int
    standard: int


_LAYOUTS = {
    "x86_64": (_Register("x87 control word", 0, 2, 0x0F3F, 0x033F), _Register("MXCSR", 28, 4, 0xFFC0, 0x1F80)),
    "aarch64": (_Register("FPCR", 0, 4, 0xFFFFFFFF, 0),),
}
"""Layouts by the machine's name under Linux, where both C libraries have the same layouts. Triton is published for both."""


class Registers:
    """The control bits of the processor's registers, as ``fegetenv`` stores them; none on a machine without a layout."""

    def __init__(self) -> None:
        known = platform.system() == "Linux"
        self._registers = _LAYOUTS.get(platform.machine(), ()) if known else ()
        # Python, numpy and torch have loaded the library that holds C's functions for the environment.
        self._library: Any = ctypes.CDLL("libm.so.6" if known else None)
        self.standard = tuple(register.standard for register in self._registers)
        """Rounding to nearest, gradual underflow, no traps: what IEEE 754 has a thread begin with."""

    def read(self) -> State:
        """The control bits of each register."""
        raw = self._stored()
        return tuple(
            int.from_bytes(raw[r.offset : r.offset + r.size], sys.byteorder) & r.control for r in self._registers
        )

    def write(self, state: State) -> None:
        """Sets the control bits and leaves all others. Raises RuntimeError where the machine doesn't take them."""
        raw = bytearray(self._stored())
        for register, bits in zip(self._registers, state, strict=True):
            place = slice(register.offset, register.offset + register.size)
            others = int.from_bytes(raw[place], sys.byteorder) & ~register.control
            raw[place] = (others | bits).to_bytes(register.size, sys.byteorder)
        self._library.fesetenv(_Buffer.from_buffer(raw))
        taken = self.read()
        if taken != state:
            raise RuntimeError(
                f"the floating-point environment is {self.describe(taken)}, expected {self.describe(state)} after setting it"
            )

    def describe(self, state: State) -> str:
        """The registers' names and control bits."""
        return ", ".join(f"{r.name} {bits:#x}" for r, bits in zip(self._registers, state, strict=True))

    def _stored(self) -> bytes:
        buffer = _Buffer()
        self._library.fegetenv(buffer)
        return bytes(buffer)


access = cache(Registers)
"""The way to the environment of the calling thread."""


@contextmanager
def standard() -> Iterator[None]:
    """Runs a block in the standard environment, whatever the thread's is, which is put back afterwards."""
    found = access()
    before = found.read()
    if before == found.standard:
        yield
        return
    found.write(found.standard)
    try:
        yield
    finally:
        found.write(before)
