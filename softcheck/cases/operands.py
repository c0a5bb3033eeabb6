"""Operands and parameters that a case names in place of those that an operation makes from the case's matrix."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracles.formats import Bits, Format, decode, encode
from softcheck.cases.bit_rows import format_rows, parse_rows
from softcheck.cases.recipe import Recipe
from softcheck.errors import UsageError
from softcheck.operations.operation import Named

Contents = tuple[str, ...] | Recipe
"""A matrix of the case's shape and dtype: the patterns of each row in hexadecimal, or a recipe."""

Shape = tuple[int, int]


class Operands(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Operands beside a case's matrix, each row's in the row's place. What is None is made from the matrix as ever."""

    target: tuple[int, ...] | None = None
    """The column of each row that is asked for, or the ``ignore_index`` among the parameters."""
    grad: Contents | None = None
    """The gradient of the output."""
    y: Contents | None = None
    """The output that a backward gets, whatever the matrix's own is."""
    behind: Contents | None = None
    """The values that a mask hides: they stand in the input where the case's matrix is -inf, and others are not looked at."""
    bias: Contents | None = None
    """The mask that is added, where it does not hide: the input is the case's matrix less this."""
    parameters: dict[str, float] = {}
    """Numbers that the operation depends on, such as ``{"scale": 0.125}``."""

    @property
    def matrices(self) -> dict[str, Contents]:
        """The named operands that have the matrix's shape, by name."""
        found = {name: getattr(self, name) for name in ("grad", "y", "behind", "bias")}
        return {name: contents for name, contents in found.items() if contents is not None}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the operands that are not made from the matrix."""
        return (*(["target"] if self.target is not None else []), *self.matrices)

    def bits(self, name: str, shape: Shape, fmt: Format) -> Bits:
        """The patterns of one of ``matrices``; the first rows where the shape has fewer than the case."""
        contents = self.matrices[name]
        rows, columns = shape
        return (
            contents.bits(rows, columns, fmt)
            if isinstance(contents, Recipe)
            else parse_rows(contents[:rows], columns, fmt)
        )

    def values(self, shape: Shape, fmt: Format) -> Named:
        """All that is named, as an operation takes it."""
        found: dict[str, NDArray[Any]] = {name: decode(self.bits(name, shape, fmt), fmt) for name in self.matrices}
        if self.target is not None:
            found["target"] = np.array(self.target[: shape[0]], dtype=np.int64)
        return found

    def told(self, shape: Shape, fmt: Format) -> bytes:
        """Bytes that are equal where all that is named is equal, whether as patterns or as recipes."""
        parts = [f"\n{sorted(self.parameters.items())} {self.target}".encode()]
        for name in self.matrices:
            patterns = np.ascontiguousarray(self.bits(name, shape, fmt), dtype=fmt.storage.newbyteorder("<"))
            parts.append(f"\n{name} ".encode() + patterns.tobytes())
        return b"".join(parts)

    def with_bits(self, matrices: Mapping[str, Bits], fmt: Format) -> Self:
        """The operands with some of their matrices replaced."""
        return msgspec.structs.replace(self, **{name: format_rows(bits, fmt) for name, bits in matrices.items()})

    def kept(self, shape: Shape, fmt: Format, *, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Self | None:
        """The operands of some rows and columns of a case of this shape; None if the column of a target is not among them."""
        found = self.with_bits(
            {name: self.bits(name, shape, fmt)[np.ix_(rows, columns)] for name in self.matrices}, fmt
        )
        if self.target is None:
            return found
        places = {int(column): place for place, column in enumerate(columns)}
        targets = [self.target[row] for row in rows]
        if any(target >= 0 and target not in places for target in targets):
            return None
        return msgspec.structs.replace(found, target=tuple(places.get(target, target) for target in targets))

    def check(self, values: NDArray[np.float64], fmt: Format, case_id: str) -> None:
        """Raises UsageError for operands that do not fit the values of a case's matrix, [rows, columns]."""
        shape = (values.shape[0], values.shape[1])
        if not self.names and not self.parameters:
            raise UsageError(f"case {case_id!r} has operands and names none; leave 'operands' out")
        for name, contents in self.matrices.items():
            if not isinstance(contents, Recipe) and len(contents) != shape[0]:
                raise UsageError(
                    f"case {case_id!r}: {name} holds {len(contents)} rows, but the case's shape says {shape[0]}"
                )
            found = decode(self.bits(name, shape, fmt), fmt)
            if name in ("grad", "bias") and not np.isfinite(found).all():
                raise UsageError(f"case {case_id!r}: {name} holds NaN or infinities; expected finite numbers")
            if name == "bias":
                self._check_bias(values, found, fmt, case_id)
        if self.target is not None:
            self._check_targets(self.target, shape, case_id)

    def _check_targets(self, targets: Sequence[int], shape: Shape, case_id: str) -> None:
        if len(targets) != shape[0]:
            raise UsageError(f"case {case_id!r} names {len(targets)} targets, but its shape says {shape[0]} rows")
        ignored = self.parameters.get("ignore_index")
        for row, target in enumerate(targets):
            if not 0 <= target < shape[1] and target != ignored:
                raise UsageError(
                    f"case {case_id!r}: the target of row {row} is {target}; expected a column from 0 to {shape[1] - 1}, or "
                    "the parameter ignore_index, which the case then names too"
                )

    def _check_bias(self, values: NDArray[np.float64], bias: NDArray[np.float64], fmt: Format, case_id: str) -> None:
        with np.errstate(invalid="ignore", over="ignore"):
            seen = values - bias
            rounded = decode(encode(seen, fmt), fmt)
            wrong = np.argwhere(np.isfinite(values) & ((rounded != seen) | (rounded + bias != values)))
        if len(wrong):
            row, column = wrong[0]
            raise UsageError(
                f"case {case_id!r}: {values[row, column]:g} less the bias {bias[row, column]:g} at ({row}, {column}) is no "
                f"{fmt.name}; expected a matrix that is the exact sum of an input and its bias"
            )
