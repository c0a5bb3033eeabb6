"""The four binary floating-point formats that softmax kernels read and write, as bit patterns and as values.

Everything above works on bit patterns (unsigned integers of the format's width) and on float64 values; float64 holds
every value of all four formats exactly, so decoding never rounds.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.unsignedinteger]
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Format:
    """An IEEE 754 style binary format with precision p (hidden bit included) and least normal exponent emin."""

    name: str
    width: int
    precision: int
    min_exponent: int
    max_exponent: int

    @property
    def storage(self) -> np.dtype[np.unsignedinteger]:
        """The unsigned integer dtype that holds one bit pattern."""
        return np.dtype(f"u{self.width // 8}")

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.width // 8

    @property
    def unit_roundoff(self) -> float:
        """Unit roundoff u = 2^-p, the largest relative error of rounding to nearest in the normal range."""
        return 2.0**-self.precision

    @property
    def max(self) -> float:
        """The largest finite value."""
        return float((2.0 - 2.0 ** (1 - self.precision)) * 2.0**self.max_exponent)

    @property
    def least_normal(self) -> float:
        """2^emin."""
        return 2.0**self.min_exponent

    @property
    def least_subnormal(self) -> float:
        """2^(emin - p + 1), the spacing of subnormal values."""
        return 2.0 ** (self.min_exponent - self.precision + 1)

    @property
    def exponent_mask(self) -> int:
        """The exponent field's bits; a pattern with all of them set is infinite or NaN."""
        return ((1 << (self.width - self.precision)) - 1) << (self.precision - 1)

    @property
    def decimal_digits(self) -> int:
        """Significant decimal digits that tell all values apart: ceil(1 + p log10 2) (Matula, 1968)."""
        return math.ceil(1 + self.precision * math.log10(2))

    @property
    def hex_digits(self) -> int:
        """Digits of a bit pattern in hexadecimal."""
        return self.width // 4


FLOAT16 = Format("float16", 16, 11, -14, 15)
BFLOAT16 = Format("bfloat16", 16, 8, -126, 127)
FLOAT32 = Format("float32", 32, 24, -126, 127)
FLOAT64 = Format("float64", 64, 53, -1022, 1023)

FORMATS: dict[str, Format] = {f.name: f for f in (FLOAT16, BFLOAT16, FLOAT32, FLOAT64)}


def decode(bits: Bits, fmt: Format) -> Values:
    """Values of bit patterns, exact, as float64 of the same shape. NaN payloads are not kept."""
    bits = np.ascontiguousarray(bits, dtype=fmt.storage)
    wide = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32) if fmt == BFLOAT16 else bits.view(fmt.name)
    # Widening a signalling NaN counts as an invalid operation.
    with np.errstate(invalid="ignore"):
        return wide.astype(np.float64)


def encode(values: Values, fmt: Format) -> Bits:
    """Bit patterns of float64 values rounded once to the format, to nearest with ties to even.

    Values that round beyond the largest finite value become infinite. Every NaN becomes the format's positive quiet NaN,
    so that equal inputs give equal bits on every machine.
    """
    values = np.asarray(values, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        if fmt == BFLOAT16:
            # Rounded here because a detour through float32 would round twice; what is left is exact in float32.
            quantum = np.ldexp(1.0, quantum_exponent(values, fmt))
            rounded = np.rint(values / quantum) * quantum
            bits = (rounded.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
        else:
            bits = values.astype(fmt.name).view(fmt.storage)
    quiet_nan = fmt.exponent_mask | (1 << (fmt.precision - 2))
    return np.where(np.isnan(values), fmt.storage.type(quiet_nan), bits)


def quantum_exponent(values: Values, fmt: Format) -> NDArray[np.int64]:
    """Exponent q of the format's spacing 2^q at each real value r: max(floor(log2 |r|), emin) - p + 1.

    This is the definition of ulp(r) in docs/ulp.md; zero has the spacing of the least subnormal, and for values that
    are not finite the result has no meaning.
    """
    _, exponent = np.frexp(values)
    floor_log2 = np.where(values == 0, fmt.min_exponent, exponent.astype(np.int64) - 1)
    return np.maximum(floor_log2, fmt.min_exponent) - fmt.precision + 1


def format_of(bits: Bits, fmt: Format) -> Format:
    """The format of an output's bits for inputs of a format: float32 where they are wider, as one answer for a row may be."""
    return FLOAT32 if bits.dtype.itemsize > fmt.itemsize else fmt


def widest(fmt: Format) -> Format:
    """The widest format that kernels for inputs of a format compute in: float64 for itself, else float32."""
    return FLOAT64 if fmt == FLOAT64 else FLOAT32


def bits_hex(bits: int, fmt: Format) -> str:
    """A bit pattern as fixed-width hexadecimal, such as ``3c00`` for 1.0 in float16."""
    return f"{int(bits):0{fmt.hex_digits}x}"
