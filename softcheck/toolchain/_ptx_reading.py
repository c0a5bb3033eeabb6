"""Questions to one kernel's PTX: the exponentials, divisions, additions and conversions that it holds.

The meaning of instructions is taken from the PTX ISA. CUDA's libdevice, which Triton inlines, is recognised by
constants that only its exponentials hold.
"""

import re
from dataclasses import dataclass
from functools import cached_property

from softcheck.toolchain._ptx_code import Code, Instruction
from softcheck.toolchain._ptx_exponents import Exponents, Subtraction

_LIBDEVICE_LOW = "0f32A57060"
"""The low part of log2(e) that libdevice's expf multiplies by, 1.925963e-8."""
_LIBDEVICE_MAGIC = "0d4338000000000000"
"""1.5 * 2^52, with which libdevice's exp and exp2 of float64 round to an integer."""
_ONE = ("0f3F800000", "0d3FF0000000000000")

_NAMES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
_ROUNDING = ("add", "sub", "mul", "fma", "div", "rcp", "ex2")
_NARROW = re.compile(r"b?f16(x2)?")
_NARROWING = re.compile(r"cvt\.(\w+\.)*b?f16(x2)?\.f(32|64)$")
_DIRECTED = re.compile(r"cvt\.(rz|rm|rp|rna|rs)\.(\w+\.)*(b?f16(x2)?\.f32|b?f16\.f64|f32\.f64)$")


@dataclass(frozen=True, slots=True)
class _Exponent:
    """The exponent of one exponential."""

    kind: str
    """The type of an ex2, ``libdevice`` for its expf, ``f64`` for its exp and exp2 of float64."""
    shifts: list[Subtraction]
    base_two: bool = False
    power: Instruction | None = None
    """The ex2; None for one of float64, which has no instruction of its own."""

    @property
    def prescaled(self) -> bool:
        """True if logits are multiplied by log2(e) before the subtraction, here or before they are loaded."""
        return self.base_two and any(not shift.scaled_after for shift in self.shifts)

    @property
    def scalings(self) -> set[str]:
        """Kinds of factors of the logits, other than the log2(e) of a prescaled exponent."""
        found = set()
        for shift in self.shifts:
            factors = shift.factors
            if self.base_two and not shift.scaled_after:
                # A scale and log2(e) may have been made one factor.
                factors = factors - {"log2e"} if "log2e" in factors else factors - {max(factors, default="")}
            found |= {"argument" if factor == "argument" else "constant" for factor in factors}
        return found


class Reading:
    """Questions to one kernel's code."""

    def __init__(self, code: Code) -> None:
        # With shared memory as one register, maxima would seem to come from sums, and sums from maxima.
        self.code = code = code.in_order
        self.powers = [i for i in code.instructions if i.operation == "ex2"]
        self.inside_libdevice = {id(i) for power in self.powers for i in self._libdevice(power)}
        self._inner = [
            e.power for e in self._all_exponents if not e.shifts and e.power is not None and self._is_of_logits(e.power)
        ]
        own = [power for power in self.powers if power not in self._inner]
        starts = [r for i in [*own, *self._float64_exponentials()] for r in i.results]
        self.behind_powers = code.reached(starts, lambda i: i.operation in ("div", "rcp"))
        self._reached = {id(i) for i in self.behind_powers}

    def _libdevice(self, power: Instruction) -> list[Instruction]:
        """The instructions of libdevice's expf that end in this ex2; none for another exponential."""
        found, waiting = [power], list(power.operands)
        while waiting:
            for i in self.code.definitions.get(waiting.pop(), []):
                if i not in found and i.operation in ("fma", "add", "neg", "cvt", "mov"):
                    found.append(i)
                    waiting.extend(i.operands)
        return found if any(_LIBDEVICE_LOW in self.code.constants(i) for i in found) else []

    def _float64_exponentials(self) -> list[Instruction]:
        """Returns the first instructions of libdevice's exp and exp2 of float64.

        They round the exponent to an integer.
        """
        wide = (i for i in self.code.instructions if i.type == "f64" and i.operation in ("fma", "add"))
        return [i for i in wide if _LIBDEVICE_MAGIC in self.code.constants(i)]

    def exponentials(self) -> set[str]:
        """Kinds of exponentials, as ``ObservedArithmetic.exponentials`` names them."""
        found = {self._kind(e) for e in self._exponents}
        if self._float64_exponentials():
            found.add("libdevice_float64")
        return found

    @cached_property
    def _exponents(self) -> list["_Exponent"]:
        """The exponents but for those inside of logits, such as a soft cap's or a sigmoid's, of which nothing is to be subtracted."""
        return [e for e in self._all_exponents if e.power not in self._inner]

    def _is_of_logits(self, i: Instruction) -> bool:
        """True if what an instruction computes goes into the exponent of an exponential that subtracts a maximum, and does not come from there."""
        behind = self._flow(i)
        shifted = [e.power for e in self._all_exponents if e.shifts and e.power is not None and e.power is not i]
        return any(id(power) in behind and id(i) not in self._flow(power) for power in shifted)

    def _flow(self, i: Instruction) -> set[int]:
        """Instructions that a value flows into, as far as exponentials and logarithms: what is subtracted with one is a sum's."""
        return {id(each) for each in self.code.reached(i.results, lambda i: i.operation in ("ex2", "lg2"))}

    @cached_property
    def _all_exponents(self) -> list["_Exponent"]:
        """The exponent of each exponential, and how a maximum was subtracted in it."""
        reader = Exponents(self.code, self._float64_exponentials())
        found = []
        for power in self.powers:
            inner = (i for i in self.code.sources(power.operands[0]) if _LIBDEVICE_LOW in self.code.constants(i))
            step = next(inner, None)
            if step is not None and id(power) in self.inside_libdevice:
                found.append(_Exponent("libdevice", reader.shifts(self._open_operand(step)), power=power))
            else:
                found.append(_Exponent(power.type, reader.shifts(power.operands[0]), base_two=True, power=power))
        for start in self._float64_exponentials():
            # exp multiplies by log2(e) as it rounds, exp2 only rounds.
            shifts = reader.shifts(self._open_operand(start))
            found.append(_Exponent("f64", shifts, base_two=start.operation == "add"))
        return found

    def _open_operand(self, i: Instruction) -> str:
        """The first operand that is no constant."""
        return next(o for o in i.operands if self.code.constant(o) is None)

    def _kind(self, exponent: "_Exponent") -> str:
        if exponent.kind.endswith(("16", "16x2")):
            return f"ex2_approx_{_name(exponent.kind)}"
        suffix = "float64" if exponent.kind == "f64" else "ex2_approx"
        if not exponent.shifts:
            return f"unshifted_{suffix}"
        if any(s.other_maximum for s in exponent.shifts):
            return f"misshifted_{suffix}"
        if exponent.prescaled:
            return f"prescaled_{suffix}"
        return {"libdevice": "libdevice", "f64": "libdevice_float64"}.get(exponent.kind, "ex2_approx")

    def fused_exponents(self) -> bool:
        """True if a scaling is fused with the subtraction before an exponential."""
        return any(shift.fused for exponent in self._exponents for shift in exponent.shifts)

    def scaled_logits(self) -> set[str]:
        """Factors of the logits before the subtraction, as ``ObservedArithmetic.scaled_logits`` names them."""
        found = set()
        for exponent in self._exponents:
            # What is multiplied behind an exponential of the logits' own is no scale of theirs.
            is_capped = exponent.power is not None and any(id(exponent.power) in self._flow(i) for i in self._inner)
            found |= {"function"} if is_capped and exponent.scalings else exponent.scalings
        return found

    def divisions(self) -> set[str]:
        """Kinds of divisions but those of logits, as ``ObservedArithmetic.divisions`` names them."""
        found = set()
        for i in self.code.instructions:
            if i.operation not in ("div", "rcp") or not i.type or self._is_of_logits(i):
                continue
            kind = "_".join(i.opcode.split(".")[:2])
            if i.operation == "div" and self.code.constant(i.operands[0]) in _ONE:
                kind = "reciprocal"
            found.add(f"{kind}_float64" if i.type == "f64" else kind)
        return found

    def sums(self) -> set[str]:
        """Types of additions, plain or fused with a product. Adding a constant is no sum."""
        return {_name(i.type) for i in self.behind_powers if self._adds(i)}

    def narrow_operations(self) -> set[str]:
        """Operations of 16-bit types that round."""
        narrow = (i for i in self.code.instructions if _NARROW.fullmatch(i.type) and i.operation in _ROUNDING)
        return {i.opcode for i in narrow}

    def narrow_roundings(self) -> set[str]:
        """Conversions to 16 bits of computed values that are computed with afterwards, not only stored."""
        found = set()
        for i in self.code.instructions:
            if not _NARROWING.match(i.opcode):
                continue
            computed = any(s.operation in _ROUNDING for operand in i.operands for s in self.code.sources(operand))
            readers = self.code.readers(i.results)
            if computed and any(r.type and r.operation in (*_ROUNDING, "cvt") for r in readers):
                found.add(i.opcode)
        return found

    def directed_roundings(self) -> set[str]:
        """Conversions to a narrower type that don't round to nearest."""
        return {i.opcode for i in self.code.instructions if _DIRECTED.match(i.opcode)}

    def flushing(self) -> set[str]:
        """Operations that flush subnormal values to zero, outside libdevice's own."""
        found = set()
        for i in self.code.instructions:
            # The first guess of a float64 division has no other form.
            if ".ftz" not in i.opcode or i.opcode == "rcp.approx.ftz.f64":
                continue
            if i.operation not in _ROUNDING or id(i) in self.inside_libdevice or i in self._inner:
                continue
            if i.operation in ("div", "rcp") and self._is_of_logits(i):
                continue
            # libdevice's logarithm is a polynomial of such operations; only its own small steps are flushed.
            if not self._is_polynomial(i):
                found.add(i.opcode)
        return found

    def _is_polynomial(self, i: Instruction) -> bool:
        """True for a fused step with a constant coefficient, or one that follows such a step.

        At most one step may lie between the two.
        """
        steps = [i]
        for _ in range(2):
            steps += [source for step in steps for operand in step.operands for source in self.code.sources(operand)]
        return i.operation == "fma" and any(s.operation == "fma" and self.code.constants(s) for s in steps)

    def rescales(self) -> bool:
        """True if a sum of exponentials, or a number that is loaded and then added, is multiplied by an exponential.

        Partial sums of another kernel are put together in the second way.
        """
        for i in self.behind_powers:
            if not i.type:
                continue
            if i.operation == "div" and self._is_power(i.operands[1]) and self._is_sum(i.operands[0]):
                return True
            if i.operation not in ("mul", "fma"):
                continue
            is_added = i.operation == "fma" or any(self._adds(reader) for reader in self.code.readers(i.results))
            for factor, other in (i.operands[:2], i.operands[1::-1]):
                is_loaded = any(source.opcode.startswith("ld.global") for source in self.code.sources(other))
                if self._is_power(factor) and (self._is_sum(other) or (is_loaded and is_added)):
                    return True
        return False

    def _is_power(self, operand: str) -> bool:
        sources = self.code.sources(operand)
        for i in sources:
            if i.operation == "ex2":
                return True
            if i.operation == "mul" and any(s.operation == "ex2" for o in i.operands for s in self.code.sources(o)):
                return id(i) in self._reached
        # libdevice's float64 exponentials end in a polynomial, to whose exponent bits an integer is added.
        reached = [i for i in sources if id(i) in self._reached]
        polynomial = any(i.type == "f64" and self.code.constants(i) for i in reached)
        return polynomial and any(i.operation == "add" and not i.type for i in reached)

    def _is_sum(self, operand: str) -> bool:
        return any(self._adds(i) for i in self.code.sources(operand))

    def _adds(self, i: Instruction) -> bool:
        """True if an instruction adds values that depend on exponentials, none of them a constant."""
        return i.operation in ("add", "fma") and bool(i.type) and id(i) in self._reached and not self.code.constants(i)

    def calls(self) -> set[str]:
        """Functions of libdevice that are called and not inlined."""
        called = (i for i in self.code.instructions if i.operation == "call")
        return {name for i in called for name in i.operands if name.startswith("__nv_")}


def _name(ptx_type: str) -> str:
    return _NAMES[ptx_type.removesuffix("x2")]
