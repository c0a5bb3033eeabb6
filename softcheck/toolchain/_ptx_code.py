"""PTX as a graph: instructions, and which registers flow into which. Text only; nothing is executed.

Registers may be written in several places (loops copy into them), so every question is answered for all of a register's
definitions. Shared memory is one register that every store to it writes and every load from it reads.
"""

import re
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LABEL = re.compile(r"^\s*[$%\w]+:(?!:)")
_PREDICATE = re.compile(r"^@!?%\w+\s+")
_STATEMENT = re.compile(r"^([a-z][\w.:]*)\s*(.*)$", re.DOTALL)
_TOKEN = re.compile(r"0[fFdD][0-9A-Fa-f]{8,16}|-?0[xX][0-9A-Fa-f]+|%?[A-Za-z_$][\w$]*(?:\.[xyzw])?|-?\d+")
_CONSTANT = re.compile(r"0[fFdD][0-9A-Fa-f]+$|-?0[xX][0-9A-Fa-f]+$|-?\d+$")

SHARED = "shared memory"

_WITHOUT_RESULT = ("st.", "red.", "bar", "bra", "ret", "barrier", "membar", "fence", "cp.", "trap", "mbarrier", "exit")
_COPIES = ("mov", "selp", "shfl", "prmt", "cvt", "ld.shared", "st.shared", "stmatrix", "ldmatrix", "neg", "abs")


@dataclass(frozen=True, eq=False)
class Instruction:
    """One instruction: its opcode with all modifiers, the registers it writes, and its operands in order."""

    opcode: str
    results: tuple[str, ...]
    operands: tuple[str, ...]

    @property
    def operation(self) -> str:
        """The opcode without modifiers, such as ``add``."""
        return self.opcode.partition(".")[0]

    @property
    def type(self) -> str:
        """The floating-point type that is computed in (for ``cvt`` that of the source), or an empty string."""
        found = re.findall(r"\.(b?f(?:16x2|32x2|16|32|64))\b", self.opcode)
        # Mixed operations such as sub.rn.f32.f16 name their own type first and an operand's behind it.
        return (found[-1] if self.operation == "cvt" else found[0]) if found else ""

    @property
    def copies(self) -> bool:
        """True if a value only passes through, at most with its sign or its type changed."""
        return self.opcode.startswith(_COPIES)


@dataclass(frozen=True, eq=False)
class Code:
    """The instructions of one PTX text."""

    instructions: tuple[Instruction, ...]

    @cached_property
    def definitions(self) -> dict[str, list[Instruction]]:
        """Instructions that write a register."""
        found = defaultdict(list)
        for instruction in self.instructions:
            for register in instruction.results:
                found[register].append(instruction)
        return found

    @cached_property
    def uses(self) -> dict[str, list[Instruction]]:
        """Instructions that read a register."""
        found = defaultdict(list)
        for instruction in self.instructions:
            for register in instruction.operands:
                found[register].append(instruction)
        return found

    @cached_property
    def in_order(self) -> "Code":
        """Returns the same code with shared memory cut into one register per exchange: a load reads the latest store.

        So one reduction's values are not taken for another's. A value that is loaded only after another exchange is
        lost; Triton's reductions and changes of layout load the values that they have just stored.
        """
        exchange, loaded = 0, False
        numbered = []
        for i in self.instructions:
            if SHARED in i.results:
                exchange, loaded = exchange + loaded, False
            elif SHARED in i.operands:
                loaded = True
            place = {SHARED: f"{SHARED} {exchange}"}
            results, operands = (tuple(place.get(r, r) for r in registers) for registers in (i.results, i.operands))
            numbered.append(Instruction(i.opcode, results, operands))
        return Code(tuple(numbered))

    def constant(self, operand: str) -> str | None:
        """The constant that an operand always is, in PTX's notation in upper case but for the prefix, or None."""
        if _CONSTANT.match(operand):
            return operand[:2].lower() + operand[2:].upper() if operand[:2].lower() in ("0f", "0d") else operand
        definitions = self.definitions.get(operand, [])
        if len(definitions) != 1 or definitions[0].operation != "mov":
            return None
        # A packed register holds a constant where both halves hold the same one.
        values = {self.constant(source) for source in definitions[0].operands}
        return values.pop() if len(values) == 1 else None

    def number(self, operand: str, kind: str) -> float | None:
        """The number that an operand of a type always is, or None; of a packed type, the one that both halves are."""
        text = self.constant(operand)
        return None if text is None else number(text, kind)

    def constants(self, instruction: Instruction) -> set[str]:
        """The constants among an instruction's operands."""
        return {value for operand in instruction.operands if (value := self.constant(operand)) is not None}

    def sources(self, register: str) -> list[Instruction]:
        """The instructions that computed a register's value, behind copies of it and through shared memory."""
        return [
            i for i in self._walk([register], Instruction.copies.__get__, self.definitions, "operands") if not i.copies
        ]

    def origins(self, registers: Iterable[str], stops: Callable[[Instruction], bool]) -> list[Instruction]:
        """Instructions that computed the registers, through copies.

        Instructions behind one that ``stops`` are left out.
        """
        return self._walk(registers, lambda i: i.copies or not stops(i), self.definitions, "operands")

    def readers(self, registers: Iterable[str]) -> list[Instruction]:
        """The instructions that compute with a value, behind copies of it; conversions are among them."""
        return self._walk(registers, lambda i: i.copies and i.operation != "cvt", self.uses, "results")

    def reached(self, registers: Iterable[str], stops: Callable[[Instruction], bool]) -> list[Instruction]:
        """Every instruction that values derived from registers flow into; none behind one that ``stops``."""
        return self._walk(registers, lambda i: not stops(i), self.uses, "results")

    def _walk(
        self,
        registers: Iterable[str],
        passes: Callable[[Instruction], bool],
        edges: dict[str, list[Instruction]],
        onward: str,
    ) -> list[Instruction]:
        """Instructions met from registers along edges, continuing behind instructions that pass."""
        waiting, met, seen = list(registers), {}, set()
        while waiting:
            register = waiting.pop()
            if register in seen:
                continue
            seen.add(register)
            for instruction in edges.get(register, []):
                if id(instruction) in met:
                    continue
                met[id(instruction)] = instruction
                if passes(instruction):
                    waiting.extend(getattr(instruction, onward))
        return list(met.values())


def parse(ptx: str) -> Code:
    """Instructions of a PTX text. Directives, labels, comments and debugging sections are left out.

    An operation that the compiler writes in another way is given by its meaning: a flipped sign bit and a subtraction
    from zero as ``neg``, a fused product with 1 or -1 (additions of bfloat16 before compute capability 9.0) as ``add``
    or ``sub``.
    """
    text = _COMMENT.sub("", ptx.partition(".section")[0])
    instructions = []
    for line in re.split(r"[;\n]", text):
        statement = _LABEL.sub("", line).strip().lstrip("{").strip()
        statement = _PREDICATE.sub("", statement)
        matched = _STATEMENT.match(statement)
        if matched is not None:
            instructions.append(_instruction(matched[1], matched[2]))
    code = Code(tuple(instructions))
    return Code(tuple(_plainly(code, i) for i in instructions))


_SIGN_BITS = {"b16": 1 << 15, "b32": 1 << 31, "b64": 1 << 63}
_PACKED_SIGN_BITS = {"b32": 1 << 31 | 1 << 15, "b64": 1 << 63 | 1 << 31}


def _plainly(code: Code, i: Instruction) -> Instruction:
    """An instruction as what it computes; see ``parse``."""
    if i.operation == "xor":
        return _as_negation(code, i)
    if i.operation == "sub" and i.type and code.number(i.operands[0], i.type) == 0.0:
        return Instruction(i.opcode.replace("sub", "neg", 1), i.results, i.operands[1:])
    if i.operation == "fma" and i.type:
        return _as_addition(code, i)
    return i


def _as_negation(code: Code, i: Instruction) -> Instruction:
    form = i.opcode.rpartition(".")[2]
    for operand, other in (i.operands, i.operands[::-1]):
        bits = code.constant(operand)
        if bits is None or form not in _SIGN_BITS:
            continue
        flipped = int(bits, 0) & (1 << int(form[1:])) - 1
        if flipped in (_SIGN_BITS[form], _PACKED_SIGN_BITS.get(form)):
            return Instruction(f"neg.{form}", i.results, (other,))
    return i


def _as_addition(code: Code, i: Instruction) -> Instruction:
    for factor, other in (i.operands[:2], i.operands[1::-1]):
        value = code.number(factor, i.type)
        if value == 1.0:
            return Instruction(i.opcode.replace("fma", "add", 1), i.results, (other, i.operands[2]))
        if value == -1.0:
            return Instruction(i.opcode.replace("fma", "sub", 1), i.results, (i.operands[2], other))
    return i


_LAYOUTS = {"f16": ("<H", "<e", 16), "f32": ("<I", "<f", 32), "f64": ("<Q", "<d", 64)}
"""Bits as an integer, value, and width of each type, the first two as ``struct`` formats."""


def number(text: str, kind: str) -> float | None:
    """Value of a constant in PTX's notation, of a type such as ``f32`` or ``f16x2``; None if packed halves differ."""
    if text[:2] in ("0f", "0d"):
        return float(struct.unpack(">f" if text[1] == "f" else ">d", bytes.fromhex(text[2:]))[0])
    single = kind.removesuffix("x2")
    width = 16 if single == "bf16" else _LAYOUTS[single][2]
    bits, mask = int(text, 0), (1 << width) - 1
    if kind != single and bits & mask != bits >> width & mask:
        return None
    if single == "bf16":
        bits, mask, single = (bits & mask) << 16, (1 << 32) - 1, "f32"
    integer, floating, _ = _LAYOUTS[single]
    return float(struct.unpack(floating, struct.pack(integer, bits & mask))[0])


def _instruction(opcode: str, operands: str) -> Instruction:
    if opcode.startswith("call"):
        return Instruction(opcode, (), tuple(_TOKEN.findall(operands)))
    groups = [_TOKEN.findall(group) for group in re.split(r",(?![^{\[(]*[}\])])", operands)]
    if opcode.startswith(("st.shared", "stmatrix")):
        return Instruction(opcode, (SHARED,), tuple(t for group in groups[1:] for t in group))
    if opcode.startswith(_WITHOUT_RESULT):
        return Instruction(opcode, (), tuple(t for group in groups for t in group))
    if opcode.startswith(("ld.shared", "ldmatrix")):
        return Instruction(opcode, tuple(groups[0]), (SHARED,))
    return Instruction(opcode, tuple(groups[0]), tuple(t for group in groups[1:] for t in group))
