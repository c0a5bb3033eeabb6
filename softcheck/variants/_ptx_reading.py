"""Questions to one kernel's PTX: which exponentials, divisions, additions and conversions it holds.

What is known of instructions is the PTX ISA's. CUDA's libdevice, which Triton inlines, is recognised by constants that only
its exponentials hold.
"""

import re

from softcheck.variants._ptx_code import Code, Instruction

_LOG2E_FLOAT64 = "0d3FF71547652B82FE"
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


class Reading:
    """Questions to one kernel's code."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.powers = [i for i in code.instructions if i.operation == "ex2"]
        self.inside_libdevice = {id(i) for power in self.powers for i in self._libdevice(power)}
        starts = [r for i in [*self.powers, *self._float64_exponentials()] for r in i.results]
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
        """Where libdevice's exp and exp2 of float64 begin: where the exponent is rounded to an integer."""
        wide = (i for i in self.code.instructions if i.type == "f64" and i.operation in ("fma", "add"))
        return [i for i in wide if _LIBDEVICE_MAGIC in self.code.constants(i)]

    def exponentials(self) -> set[str]:
        """Kinds of exponentials, as ``ObservedArithmetic.exponentials`` names them."""
        found = {self._kind(power) for power in self.powers}
        if self._float64_exponentials():
            found.add("libdevice_float64")
        if any(self._scales_unshifted(i, _LOG2E_FLOAT64) for i in self.code.instructions if i.type == "f64"):
            found.add("prescaled_float64")
        return found

    def _kind(self, power: Instruction) -> str:
        if power.type != "f32":
            return f"ex2_approx_{_name(power.type)}"
        if id(power) in self.inside_libdevice:
            return "libdevice"
        steps = self.code.sources(power.operands[0])
        if any(i.operation == "fma" and not self._is_difference(i.operands[0]) for i in steps):
            return "prescaled_ex2_approx"
        if any(i.operation == "sub" and self._is_product(i) for i in steps):
            return "prescaled_ex2_approx"
        subtracts = any(
            i.operation in ("sub", "fma") or any(self._is_difference(operand) for operand in i.operands) for i in steps
        )
        return "ex2_approx" if subtracts else "unshifted_ex2_approx"

    def _is_difference(self, operand: str) -> bool:
        """Whether a register holds a difference: a subtraction, or the sum with something negated."""
        return any(i.operation == "sub" or (i.operation == "add" and i.type) for i in self.code.sources(operand))

    def _is_product(self, difference: Instruction) -> bool:
        return any(
            i.operation == "mul" and i.type for operand in difference.operands for i in self.code.sources(operand)
        )

    def _scales_unshifted(self, i: Instruction, factor: str) -> bool:
        if i.operation not in ("mul", "fma") or factor not in self.code.constants(i):
            return False
        inside = _LIBDEVICE_MAGIC in self.code.constants(i)
        return not inside and not self._is_difference(i.operands[0])

    def fused_exponents(self) -> bool:
        """Whether a scaling is fused with the subtraction before an exponential."""
        own = (power for power in self.powers if id(power) not in self.inside_libdevice)
        if any(i.operation == "fma" for power in own for i in self.code.sources(power.operands[0])):
            return True
        wide = (i for i in self.code.instructions if i.operation == "fma" and i.type == "f64")
        return any(self._scales_unshifted(i, _LOG2E_FLOAT64) for i in wide)

    def divisions(self) -> set[str]:
        """Kinds of divisions, as ``ObservedArithmetic.divisions`` names them."""
        found = set()
        for i in self.code.instructions:
            if i.operation not in ("div", "rcp") or not i.type:
                continue
            kind = "_".join(i.opcode.split(".")[:2])
            if i.operation == "div" and self.code.constant(i.operands[0]) in _ONE:
                kind = "reciprocal"
            found.add(f"{kind}_float64" if i.type == "f64" else kind)
        return found

    def sums(self) -> set[str]:
        """Types of additions, plain or fused with a product. Adding a constant is no sum."""
        found = set()
        for i in self.behind_powers:
            # libdevice's float64 exponentials are fused operations and additions with an explicit .rn.
            is_sum = i.opcode == "add.f64" if i.type == "f64" else i.operation in ("add", "fma")
            if is_sum and i.type and not self.code.constants(i):
                found.add(_name(i.type))
        return found

    def narrow_operations(self) -> set[str]:
        """Operations of 16-bit types that round."""
        narrow = (i for i in self.code.instructions if _NARROW.fullmatch(i.type) and i.operation in _ROUNDING)
        return {i.opcode for i in narrow}

    def narrow_roundings(self) -> set[str]:
        """Conversions to 16 bits of computed values that are computed with afterwards, not only stored."""
        found = set()
        # Triton 3.6 finds the maximum of 16-bit values in float32 and converts it back, which is exact; with shared memory
        # as one register it would seem to come from the sum.
        code = self.code.in_order
        for i in code.instructions:
            if not _NARROWING.match(i.opcode):
                continue
            computed = any(s.operation in _ROUNDING for operand in i.operands for s in code.sources(operand))
            readers = code.readers(i.results)
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
            if ".ftz" not in i.opcode or i.operation not in _ROUNDING or id(i) in self.inside_libdevice:
                continue
            # libdevice's logarithm is a polynomial of such operations; only its own small steps are flushed.
            if not self._is_polynomial(i):
                found.add(i.opcode)
        return found

    def _is_polynomial(self, i: Instruction) -> bool:
        """Whether this is a fused step with a constant coefficient, or follows one with at most one step between."""
        steps = [i]
        for _ in range(2):
            steps += [source for step in steps for operand in step.operands for source in self.code.sources(operand)]
        return i.operation == "fma" and any(s.operation == "fma" and self.code.constants(s) for s in steps)

    def rescales(self) -> bool:
        """Whether a float32 sum of exponentials is multiplied by another exponential."""
        for i in self.behind_powers:
            if i.operation not in ("mul", "fma") or i.type not in ("f32", "f32x2"):
                continue
            for factor, other in (i.operands[:2], i.operands[1::-1]):
                if self._is_power(factor) and self._is_sum(other):
                    return True
        return False

    def _is_power(self, operand: str) -> bool:
        for i in self.code.sources(operand):
            if i.operation == "ex2":
                return True
            if i.operation == "mul" and any(s.operation == "ex2" for o in i.operands for s in self.code.sources(o)):
                return id(i) in self._reached
        return False

    def _is_sum(self, operand: str) -> bool:
        return any(i.operation in ("add", "fma") and id(i) in self._reached for i in self.code.sources(operand))

    def calls(self) -> set[str]:
        """Functions of libdevice that are called and not inlined."""
        called = (i for i in self.code.instructions if i.operation == "call")
        return {name for i in called for name in i.operands if name.startswith("__nv_")}


def _name(ptx_type: str) -> str:
    return _NAMES[ptx_type.removesuffix("x2")]
