"""The axes that a function has, from its operation, its declaration, its parameters and the numbers in its source."""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import islice
from typing import Any

import numpy as np
import torch

from oracles.formats import FLOAT16, FORMATS, Format
from softcheck.calling.call import TORCH_DTYPES, Called
from softcheck.operations.operation import Parameter, value_in_words, without_layout
from softcheck.probes.base import Subject
from softcheck.probes.helpers import call_on, parameters_of
from softcheck.probes.histories.modes import ANY_ALGORITHM, COMPILED, GRAPH, REQUIRES_GRAD, STREAMS, in_mode, modes
from softcheck.probes.judged_gradients import judged_by
from softcheck.probes.operand_moves import (
    MASKS,
    OF_ALL_HEADS,
    OF_ONE_PROMPT,
    OF_QUERIES,
    SHARED,
    TOGETHER,
    layouts_of_operands,
)
from softcheck.probes.options import BESIDE, TEMPERATURE, VALUES, operand_calls, temperature_call
from softcheck.probes.same_bits import Repeated
from softcheck.probes.shape_plan import ROW_COUNTS, interleaved
from softcheck.probes.space import contents, own, strides
from softcheck.probes.space import output_gradients as og
from softcheck.probes.space.way import DECLARED, Way, WayAxis, named, names_of
from softcheck.probes.space.way import VALUES as NUMBERS
from softcheck.probes.tuning import in_configuration
from softcheck.variants.adapt import Adapted, operands_of
from softcheck.variants.source import Source, is_compiled_by_torch, launches_kernels, source_of

COLUMNS, ROWS, DIMS, LAYOUT, OFFSET, CONTENTS = "columns", "rows", "dims", "layout", "offset", "contents"
OTHERS, GRADIENT, ASKED, MODE, SETTINGS, BEFORE, AFTER, OUT = (
    *("other rows", "gradient", "asked", "mode", "settings", "before", "after", "out"),
)
OPERAND = "layout of "
"""Begins the name of the axis of an operand's layout."""
NONE = "none"
LIKE, DTYPE, VMAP, MODULE, CONFIGURATION, SHARED_MASK = (
    *("rows like", "dtype", "vmap", "module", "configuration", "shared mask"),
)
OWN = (DTYPE, VMAP, MODULE, *own.LAUNCH)
"""Axes of what nobody promises to take, and whose values have one meaning."""
OVER = " over "
"""Parts the number of dimensions from the place of the row among them, where that is not the last."""
_LAST_TWO = "-2;-1"
CALL = "call"
"""The axis of calls with a mask, or another operand, that the function's own call leaves out."""
_BESIDE_A_CALL = ("scale", TEMPERATURE, "softcap")
"""Options that such a call may give too."""
MASK_AND_CAUSAL = "a mask and a causal flag"
"""A call before: what it leaves behind, such as a mask that is kept and written into, another call may meet."""

MOST_DIMENSIONS = 5
"""Dimensions of the largest tensors, where they are declared."""
_PLAIN_COLUMNS, _COLUMNS = 129, (1, 2, 40, 65, 1120, 4100)
_IN_16_BITS = 33000
"""Columns on a GPU whose number needs all of 16 bits."""
_BEYOND_FLOAT16 = 66001
"""Columns of which as many equal terms have a sum that float16 does not hold."""
_MOST_LOGITS = 2**21
"""Logits of an operation for one row, of which a matrix of queries and keys has as many rows as columns."""
_ALIGNMENT = 16
"""Bytes of the widest load of one thread."""
_PLAIN_OF_HEADS, _COLUMNS_OF_HEADS = 40, (1, 2, 65, 130, 200)
_LONG, _LONG_ON_GPU = (1100,), (1100, 2050)
"""Keys of long heads with as many queries, each of which takes a second to judge without a GPU."""
_LONG_OF_ONE, _LONG_OF_ONE_ON_GPU = (1100, 4100), (1030, 1100, 2050, 4100, 8200, 16_400, 33_000)
"""Keys of heads with a single query, which many programs may share."""
_BEHIND_A_CACHE, _BEFORE_IT = 99, (3, 1, 6, 13, 21)
"""Keys of heads, and of these the keys before the first query: a chunk of a prompt behind a cache, whose length fills no tile."""
_PLAIN_ROWS, _ROWS, _MORE_ROWS = 3, (1, 2, 8, 17), 65
_ROWS_LIKE, _COLUMNS_LIKE = 7, 66
"""Of rows beside special ones: an even number, so that a row may be two equal halves."""
_OF_CONFIGURATIONS = (100, 1000)
_LARGE_OVER: tuple[dict[str, Any], ...] = (
    {DIMS: "1 over 0", COLUMNS: 66049},
    {DIMS: "2 over 0", ROWS: 65, COLUMNS: 1030},
)
"""Tensors that a wrapper may cut into parts to spare memory."""
_OF_MEAN, _FEW_OF_MEAN = (2, 129, 257, 300, 65, 1025, *ROW_COUNTS), (129, 65, 33, 17, 9, 5)
"""Rows of a mean or a sum: losses are added up in chunks, in partial sums or by programs of several rows each."""
_MOST_OF_MEAN, _MOST_OF_MEAN_ON_GPU = 1100, 70_000
_PLAIN_HEADS, _HEADS = 2, (1, 6)
_WIDEST, _WIDEST_INTERPRETED = 2**16 + 1, 2**14 + 1
_MOST_ELEMENTS, _MOST_ELEMENTS_OF_TORCH, _MOST_ELEMENTS_INTERPRETED = 2**21, 2**17, 2**16
_MOST_DERIVATIVES = 2**26
"""Derivatives of answers that a forward-mode derivative is compared with, half a GiB of them."""
_MOST_ROWS, _MOST_ROWS_INTERPRETED = 2051, 70
_TALL_ON_GPU, _TALL, _TALL_INTERPRETED = 4099, 1027, 259
_MOST_OWN, _MOST_OWN_QUERIES = 6, 4
"""Sizes of a variant's source that are levels of an axis."""
_MOST_QUERIES, _MOST_KEYS = 300, 600
_MOST_WINDOW, _COLDEST, _COLD = 200, 1e-3, 0.3
ALIKE, OF_ALL_KINDS = "alike", "of all kinds"
"""Contents of the rows beside the first: those of the first, or others in each."""
EARLIER = (
    *("wider rows", "narrower rows", "more rows", "another dtype", "another layout", "rows of NaN"),
    MASK_AND_CAUSAL,
    *("the same storage", "a failed allocation", "another option", "a backward", "refused memory for the answer"),
)
"""Calls before the one that is judged."""
LATER, LATER_CALLS = "three calls on other rows", 3
"""Calls after the one that is judged, by which a caller's answer must not change: memory for answers may take turns."""
HEADS: Mapping[str, tuple[str, ...]] = {
    "queries": ("1", "7", "128", "170"),
    "head_dim": ("32", "96", "128"),
    # A tile of a matrix product has 16 heads.
    "groups": ("2", "3", "17"),
    "value_dim": ("24", "80"),
}
"""Sizes of heads beside the declared ones."""
PACKED_OUT, SLICE, EXCHANGED, TOO_NARROW = "packed", "a slice of columns", "first two exchanged", "a column too few"
"""Memory for the answer: that of the last kind is refused, so that it stands before a call alone."""
_OF_VALUES = ("v.shape", "v.size", "value_dim", "v_head_dim", "head_dim_v")
"""Parts of code that reads the size of values, which may have another head dimension than keys."""
_OF_GROUPS = ("kv_head", "num_kv", "n_kv", "heads_kv", "gqa", "n_rep", "repeat_kv", "repeat_interleave", "group")
"""Parts of code that has query heads share heads of keys."""
_SILENT_MODES = ("no_grad", "inference")
_OF_SETTINGS = ("autocast", "set_default", ANY_ALGORITHM)
"""Parts of modes that change what torch's settings say, beside modes of gradients, threads and streams."""
_OF_ANY_SIZE = (CONTENTS, OTHERS, COLUMNS, ROWS)
"""Axes for whose values torch.compile makes one code."""
_NOT_COMPILED_FOR = (CONTENTS, OTHERS, ROWS, MODE, SETTINGS, VMAP, MODULE)
"""Axes for whose values Triton has one kernel."""
_REPLAYED = (GRAPH, STREAMS)
"""Modes that make several calls, on other values too, of which none carries a gradient."""
_OF_DEFAULTS = ("default_device", "default_dtype(torch.float64)")
"""Parts of modes that are tried where the source asks for defaults: another default dtype is tried in any case."""


@dataclass(frozen=True)
class WaySpace:
    """The circumstances that one variant's calls may have in one dtype."""

    subject: Subject
    carries_gradient: bool = False
    """True if an output carries a gradient where its input requires one."""
    has_own_backward: bool = False
    """True if that is of a backward that is not torch's."""
    has_answers_beside: bool = False
    """True if tensors beside the answer carry one too."""
    keeps_graph: bool = False
    """True if a plain call's backward can be called again, on a graph that is kept."""
    note: str | None = None
    """A remark where no gradient can be asked for."""
    taken_dimensions: int = 2
    """Dimensions of the largest tensors of ordinary rows for which the answer is right, whatever is declared."""
    configurations: tuple[str, ...] = ()
    """Configurations of autotuned kernels, in words."""
    source: Source = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", source_of(self.subject.variant.function))

    @cached_property
    def axes(self) -> tuple[WayAxis, ...]:
        """All axes with at least two values."""
        setting = self.subject.setting
        outs = (PACKED_OUT, *((SLICE,) if self._is_strided else ())) if self.out_parameter else ()
        outs += (EXCHANGED,) if SLICE in outs and self.most_dimensions > 2 else ()
        gradients = og.OF_ROWS if setting.operation.operand_gradients is None else og.OF_HEADS
        found = (
            WayAxis(COLUMNS, self._columns, is_core=True, refusal="met"),
            WayAxis(ROWS, self._rows, refusal="met"),
            WayAxis(CONTENTS, (*self.contents,), is_core=True, refusal="met"),
            WayAxis(OTHERS, (ALIKE, OF_ALL_KINDS), refusal="met"),
            WayAxis(DIMS, self._dims, is_core=True, is_promised=setting.declaration.dimensions > 2, refusal="alone"),
            WayAxis(LAYOUT, self._layouts, is_core=True, refusal="alone"),
            WayAxis(OFFSET, self._offsets, is_core=True, refusal="alone"),
            *(WayAxis(OPERAND + name, moves, is_core=True, refusal="met") for name, moves in self._operands().items()),
            *(WayAxis(name, values, is_core=True, is_promised=False) for name, values in self._options().items()),
            WayAxis(CALL, ("as usual", *names_of(self.calls.values())), is_core=True, is_promised=False),
            *(WayAxis(name, (DECLARED, *sizes), is_promised=False) for name, sizes in self._heads().items()),
            WayAxis(GRADIENT, (NONE, *(gradients if self.carries_gradient else ())), is_core=True, refusal="alone"),
            WayAxis(
                ASKED, tuple(each for each in self._asked if self.keeps_graph or each != og.TWICE), refusal="alone"
            ),
            WayAxis(MODE, names_of((NONE, *(mode for mode in self._modes if not _is_of_settings(mode))))),
            WayAxis(SETTINGS, names_of((NONE, *filter(_is_of_settings, self._modes)))),
            WayAxis(BEFORE, (NONE, *self._earlier())),
            WayAxis(AFTER, (NONE, LATER), is_dear=True),
            WayAxis(OUT, (NONE, *outs)),
            WayAxis(SHARED_MASK, (NONE, *(self._shared if self._has_masks else ())), is_promised=False),
            *(WayAxis(name, self._given(name), is_promised=False) for name in own.LAUNCH),
            WayAxis(DTYPE, (NONE, *([self.wider.name] if self.wider else [])), is_promised=False),
            WayAxis(
                VMAP,
                (NONE, *(own.VMAP if setting.has_rows_alone and self.source.mentions("vmap") else ())),
                is_promised=False,
            ),
            WayAxis(MODULE, names_of((NONE, *self.modules)), is_promised=False),
            WayAxis(CONFIGURATION, names_of((NONE, *self.configurations)), is_planned=False, refusal="alone"),
            WayAxis(LIKE, (NONE, *self._special_rows()), is_planned=False, refusal="met"),
        )
        free = _OF_ANY_SIZE if self.is_compiled_by_torch else _NOT_COMPILED_FOR
        return tuple(replace(axis, compiles=axis.name not in free) for axis in found if len(axis.values) > 1)

    @property
    def always(self) -> list[Way]:
        """Ways that are too dear, or too many, to meet others, and are made all the same."""
        is_tall = self._is_interpreted and self._tall is not None
        found = [
            *self._long_heads(),
            *self._rows_of_means(),
            *([{ROWS: _TALL_INTERPRETED, GRADIENT: og.VARYING}] if is_tall else []),
        ]
        found += [{ROWS: _ROWS_LIKE, COLUMNS: _COLUMNS_LIKE, LIKE: like} for like in self._special_rows()]
        of_kernels = [n for n in _OF_CONFIGURATIONS if self.subject.setting.takes(n)]
        found += [{COLUMNS: n, CONFIGURATION: each} for each in names_of(self.configurations) for n in of_kernels]
        has_dim = self.dim_parameter is not None and self.subject.setting.has_rows_alone
        found += [way for way in _LARGE_OVER if has_dim and self.subject.setting.takes(int(way[COLUMNS]))]
        return [Way(tuple((name, str(value)) for name, value in way.items())) for way in found]

    def _special_rows(self) -> list[str]:
        """Rows by which a wrapper may choose a shorter way for all."""
        setting = self.subject.setting
        is_asked = not setting.has_heads and setting.takes(_COLUMNS_LIKE) and not setting.has_row_calls
        places = (contents.AT_BOTH_ENDS, contents.THROUGHOUT)
        return [f"{kind} {where}" for where in places for kind in contents.LIKE] if is_asked else []

    def _rows_of_means(self) -> list[Mapping[str, object]]:
        """Rows of a mean or a sum, whose losses differ much: one that counts for too much or too little shows."""
        setting = self.subject.setting
        if not setting.has_row_calls:
            return []
        most = _MOST_OF_MEAN_ON_GPU if setting.on_gpu else _MOST_OF_MEAN
        own = (n for n in self.source.sizes_for(setting.fmt.itemsize) if 1 < n <= most)
        around = interleaved([(n + 1, n + n // 2 + 1, 2 * n, 3 * n - 1) for n in own])
        counts, few = (_FEW_OF_MEAN, 6) if self._is_interpreted else (_OF_MEAN, 4 * _MOST_OWN)
        chosen = dict.fromkeys((*counts, *islice((n for n in around if n <= most), few)))
        return [{ROWS: n, CONTENTS: "wide"} for n in chosen]

    def _long_heads(self) -> Iterator[Mapping[str, object]]:
        setting = self.subject.setting
        known, most = setting.operation.parameters, setting.declaration.promised_columns(setting.dtype) or math.inf
        if not setting.has_heads:
            return
        of_one = [n for n in (_LONG_OF_ONE_ON_GPU if setting.on_gpu else _LONG_OF_ONE) if n <= most]
        if known["queries"]:
            yield from ({COLUMNS: n, CONTENTS: contents.ADVERSARIAL} for n in of_one)
            return
        yield from ({COLUMNS: n} for n in (_LONG_ON_GPU if setting.on_gpu else _LONG) if n <= most)
        if not known["square"]:
            yield from ({COLUMNS: n, CONTENTS: contents.ADVERSARIAL, "queries": 1} for n in of_one)
        if known["causal"] and not known["square"] and most >= _BEHIND_A_CACHE:
            yield from ({COLUMNS: _BEHIND_A_CACHE, "queries": _BEHIND_A_CACHE - before} for before in _BEFORE_IT)

    @cached_property
    def is_compiled_by_torch(self) -> bool:
        """True if torch.compile compiles the function, or one that it calls."""
        return is_compiled_by_torch(self.subject.variant.function)

    @cached_property
    def most_dimensions(self) -> int:
        """Dimensions of the largest tensors that are tried."""
        setting = self.subject.setting
        most = max(self.taken_dimensions, setting.declaration.dimensions)
        return 2 if setting.has_heads or setting.has_row_calls else min(MOST_DIMENSIONS, most)

    @cached_property
    def contents(self) -> Mapping[str, str]:
        """Contents of rows by what ways call them."""
        return named(contents.names(self.source.numbers, self.subject.setting.fmt))

    @cached_property
    def _layouts(self) -> tuple[str, ...]:
        # A fourth dimension that is taken, and not declared, has no layouts of its own: they are many to meet.
        declared = max(3, self.subject.setting.declaration.dimensions)
        most = min(self.most_dimensions, declared)
        return strides.names(most, is_strided=self._is_strided, has_heads=self._has_heads)

    @cached_property
    def _offsets(self) -> tuple[str, ...]:
        """Offsets of elements: a tensor of packed rows is contiguous wherever it begins."""
        every = _ALIGNMENT // self.subject.setting.fmt.itemsize
        return tuple(str(n) for n in sorted({0, 1, every // 2}))

    @cached_property
    def dim_parameter(self) -> str | None:
        """The function's parameter for the dimension that is reduced, if it takes one."""
        if not self.subject.setting.has_matrices_alone:
            return None
        return next((name for name in own.OF_DIMENSION if name in self._parameters), None)

    @cached_property
    def wider(self) -> Format | None:
        """The next wider type that is declared, if the function takes one for the answer."""
        setting = self.subject.setting
        asked = ("float32", "float64") if setting.has_rows_alone and "dtype" in self._parameters else ()
        declared = (FORMATS[name] for name in asked if name in setting.declaration.dtypes)
        return next((each for each in declared if each.width > setting.fmt.width), None)

    @cached_property
    def modules(self) -> Mapping[str, torch.nn.Module]:
        """The module that the function is, as users change it."""
        function, fmt = self.subject.variant.function, self.subject.setting.fmt
        found = own.changed_modules(function, TORCH_DTYPES[fmt.name])
        bits = contents.ordinary_rows(_PLAIN_ROWS, self.columns_of(Way()), fmt)

        def answer(module: torch.nn.Module) -> Called:
            changed = own.replaced(function, lambda _: module)
            return call_on(replace(self.subject, variant=replace(self.subject.variant, function=changed)), bits)

        # Dropout, and noise that is added in training, give another answer each time.
        return {name: each for name, each in found.items() if Repeated(partial(answer, each)).repeats(fmt)}

    @cached_property
    def other_values(self) -> Mapping[str, Any]:
        """Other values of the function's own parameters, whatever they mean."""
        return own.other_values(own.own_function(self.subject.variant.function), self.subject.setting.dtype)

    @cached_property
    def _takes_masks(self) -> bool:
        return any(without_layout(name) in MASKS for name in operands_of(self.subject.variant.function))

    @cached_property
    def _has_masks(self) -> bool:
        """True if a call takes masks of rows, or may."""
        operation, function = self.subject.setting.operation, self.subject.variant.function
        if operation.arguments is None or operation.matrix is not None or not isinstance(function, Adapted):
            return False
        if MASKS.isdisjoint(operand.name for operand in operation.arguments.operands):
            return False
        return self._takes_masks or bool(self.calls) or not {"masked", "biased"}.isdisjoint(function.open_options)

    @property
    def _shared(self) -> tuple[str, ...]:
        """Ways to pass one mask for several rows; of softmax's masks all rows are queries, and a matrix has no batch."""
        if self._has_heads:
            return SHARED
        has_batch = self.most_dimensions > 2
        return tuple(w for w in SHARED if w != OF_QUERIES[0] and (has_batch or not w.startswith(OF_ALL_HEADS)))

    def launch_parameter(self, axis: str) -> str | None:
        """The function's parameter for one of the axes of how kernels are launched."""
        return next((name for name in own.LAUNCH[axis][0] if name in self._parameters), None)

    def _given(self, axis: str) -> tuple[str, ...]:
        return (NONE, *(map(str, own.LAUNCH[axis][1]) if self.launch_parameter(axis) else ()))

    @cached_property
    def out_parameter(self) -> str | None:
        """The function's parameter for the answer's memory, if it takes some and need not."""
        if not self.subject.setting.operation.answers_elements:
            return None
        taken = self._parameters
        return next((name for name in ("out", "output") if name in taken and taken[name].default is None), None)

    def varied_by(self, way: Way) -> list[str]:
        """Returns the function's parameters and the operation's that have other values than usual in a way."""
        given, function = dict(way.values), self.subject.variant.function
        taken = function.open_options if isinstance(function, Adapted) else {}
        taken |= {"scale": taken[TEMPERATURE]} if TEMPERATURE in taken and "scale" not in taken else {}
        found = [taken.get(name, name) for name in given if name in VALUES or name in HEADS or name == TEMPERATURE]
        found += [name for name, call in self.calls.items() if names_of([call])[0] == given.get(CALL)]
        found += [self.out_parameter] if OUT in given and self.out_parameter else []
        found += [*self.given_values(way)]
        return found + ([self.dim_parameter] if OVER in given.get(DIMS, "") and self.dim_parameter else [])

    def given_values(self, way: Way) -> dict[str, Any]:
        """Returns the values that a way gives for the function's own parameters, but for the dimension."""
        asked = {self.launch_parameter(axis) or axis: way.get(axis) for axis in own.LAUNCH if way.get(axis)}
        wider = {"dtype": TORCH_DTYPES[way.get(DTYPE)]} if way.get(DTYPE) else {}
        return {**{name: int(value) for name, value in asked.items()}, **wider}

    def mode_of(self, way: Way, axis: str = MODE) -> str:
        """Returns the mode of a way, or another axis of modes, as ``softcheck.probes.histories.modes`` names it."""
        return named(self._modes).get(way.get(axis), "")

    def called(self, function: Callable[[torch.Tensor], Any], way: Way) -> Callable[[torch.Tensor], Any]:
        """Returns the function as it is called in a way's mode and settings."""
        if way.get(CONFIGURATION):
            function = in_configuration(function, named(self.configurations)[way.get(CONFIGURATION)])
        return in_mode(in_mode(function, self.mode_of(way, SETTINGS)), self.mode_of(way))

    def in_settings(self, backward: Callable[[torch.Tensor], Any], way: Way) -> Callable[[torch.Tensor], Any]:
        """Returns a backward as it is called in a way's settings. Autocast is for the forward alone, as torch's manual has it."""
        settings = self.mode_of(way, SETTINGS)
        return backward if "autocast" in settings else in_mode(backward, settings)

    def columns_of(self, way: Way) -> int:
        """Returns the columns of a way."""
        return int(way.get(COLUMNS, self._columns[0]))

    def rows_of(self, way: Way) -> int:
        """Returns the rows of a way, but for dimensions before them."""
        return int(way.get(ROWS, self._rows[0]))

    def leading_of(self, way: Way) -> tuple[tuple[int, ...], int]:
        """Returns the sizes of the dimensions beside the row, and the row's place among them."""
        rows, (count, place) = self.rows_of(way), _dims_of(way.get(DIMS, "2"))
        if count == 1:
            return (), place
        if way.get(LAYOUT) == strides.ONE_OF_SEVERAL:
            return (rows, *(1,) * (count - 2)), place
        # One row is one in all dimensions.
        return (*((1, 1, 1) if rows == 1 else (2, 3, 2))[: count - 2], rows), place

    def excluded(self, way: Way) -> bool:
        """True if the values of a way can't stand together, or make too large a call."""
        given, known = dict(way.values), self._known
        dims, _ = _dims_of(given.get(DIMS, "2"))
        mode, layout, asked = given.get(MODE, ""), given.get(LAYOUT, strides.PACKED), given.get(ASKED, og.ONCE)
        gradient = bool(given.keys() & {GRADIENT, ASKED})
        settings = given.get(SETTINGS, "")
        sizes = given.keys() & {COLUMNS, ROWS, DIMS}
        # Each row of a kernel costs its time where Triton's interpreter runs it.
        is_tall = self._is_interpreted and given.get(ROWS) == str(_TALL_INTERPRETED)
        is_sized = len(sizes) > 1 or (COLUMNS in given and strides.weight(layout) > 1)
        # Gradients of elements that share memory add up, wherever a backward leaves them: those of rows that are one are judged together.
        is_shared = layout in strides.SHARED and not (
            layout == strides.EXPANDED and given.keys().isdisjoint({DIMS, ASKED}) and given.get(GRADIENT) == og.VARYING
        )
        is_replayed = self.mode_of(way) in _REPLAYED
        has_none = is_shared or is_replayed or any(word in mode for word in _SILENT_MODES) or OUT in given
        of_heads = self._has_heads and not given.keys().isdisjoint({LAYOUT, OFFSET})
        of_plain = {CONTENTS, OTHERS, GRADIENT, MODE, SETTINGS, DTYPE} if asked in og.OF_PLAIN_ROWS else set()
        of_plain |= {DIMS} if asked in og.OF_PLAIN_ROWS - og.OF_ANY_DIMENSION else set()
        return bool(
            (is_sized and self._is_large(way))
            or (gradient and (has_none or of_heads or mode == REQUIRES_GRAD))
            or not given.keys().isdisjoint(of_plain)
            # Rows of heads whose gradients are judged otherwise, or which a batch shares, are as many as these take.
            or (asked == og.SHARED_BIAS and not given.keys().isdisjoint({ROWS, GRADIENT}))
            or (is_tall and given != {ROWS: given[ROWS], GRADIENT: og.VARYING})
            or not strides.fits(layout, dims)
            or (not {OTHERS, SHARED_MASK}.isdisjoint(given) and self.rows_of(way) == 1)
            # An answer without numbers hides what else would be wrong: such contents meet nothing.
            or (self._hides(given, dims) and not given.keys() <= {CONTENTS, ROWS, DIMS, NUMBERS})
            # One row has no other rows.
            or (dims == 1 and not {ROWS, OTHERS, LAYOUT, VMAP}.isdisjoint(given))
            or (self.is_moved(way) and not {OFFSET, OUT, DTYPE}.isdisjoint(given))
            or (DTYPE in given and OUT in given)
            or (asked == og.FORWARD_MODE and self._derivatives(way) > _MOST_DERIVATIVES)
            or (VMAP in given and not {LAYOUT, OFFSET, OUT, GRADIENT, ASKED, SETTINGS}.isdisjoint(given))
            # Keys are equal in a batch of equal rows, of which others than these are one.
            or (
                given.get(OPERAND + TOGETHER) == OF_ONE_PROMPT
                and (
                    given.get(CONTENTS) != contents.EQUAL_ROWS or not {ROWS, OTHERS, GRADIENT, ASKED}.isdisjoint(given)
                )
            )
            or (is_replayed and not {SETTINGS, VMAP, OUT}.isdisjoint(given))
            or (SHARED_MASK in given and not self._has_shared(given))
            # One operand's own layout leaves the others packed: matrices that are all operands have no layout of the input then.
            or (
                not given.keys().isdisjoint({LAYOUT, OFFSET})
                and any(OPERAND in each for each in given)
                and self.subject.setting.has_matrices_alone
                and not self.subject.setting.has_rows_alone
            )
            # Nobody says where the first of fewer queries than keys stands, nor in which dtype an option's number is kept.
            or ("queries" in given and not known.get("causal") and ("causal" in given or "window" in given))
            or ("default_dtype" in settings and any(name in VALUES for name in given))
            # Nor whether a mean with class weights divides the squares by the weights or by the number of rows.
            or ({"weight", "z_loss"} <= given.keys() and given.get("reduction", known.get("reduction")) == "mean")
            or (
                CALL in given
                and (OUT in given or any(_is_optional(each) and each not in _BESIDE_A_CALL for each in given))
            )
            or (TEMPERATURE in given and "scale" in given)
            or (given.get(OUT, PACKED_OUT) != PACKED_OUT and OVER in given.get(DIMS, ""))
            or (given.get(OUT) == EXCHANGED and dims == 2)
            or (OPERAND + TOGETHER in given and any(OPERAND in each and TOGETHER not in each for each in given))
            # Each shape and layout is compiled for anew, which takes seconds.
            or ("torch.compile" in settings and bool(given.keys() & {COLUMNS, ROWS, DIMS, LAYOUT, OFFSET, BEFORE}))
        )

    def _hides(self, given: Mapping[str, str], dims: int) -> bool:
        """True if contents leave a call no number in its answer: those of the only row, or of a mean of all rows."""
        if self.subject.setting.has_row_calls:
            return given.get(CONTENTS) in contents.WITHOUT_A_MEAN
        return given.get(CONTENTS) in contents.WITHOUT_NUMBERS and 1 in (dims, int(given.get(ROWS, self._rows[0])))

    def is_moved(self, way: Way) -> bool:
        """True if the row is another dimension than the last of all operands, or of an answer for each row: these are moved in the call."""
        setting, over = self.subject.setting, way.get(DIMS).partition(OVER)[2]
        return bool(over) and (over == _LAST_TWO or not (setting.has_rows_alone and setting.operation.answers_elements))

    def _has_shared(self, given: Mapping[str, str]) -> bool:
        """True if a call has a mask that rows can share, in an operand of which nothing else is asked."""
        is_free = not any(OPERAND in each or each in (GRADIENT, ASKED, "causal", "window") for each in given)
        # Rows of a matrix have no batch.
        is_free &= (
            self._has_heads or _dims_of(given.get(DIMS, "2"))[0] > 2 or not given[SHARED_MASK].startswith(OF_ALL_HEADS)
        )
        return is_free and (self._takes_masks or not {"masked", "biased", CALL}.isdisjoint(given))

    @cached_property
    def calls(self) -> Mapping[str, str]:
        """Calls with an operand that the function's own call leaves out, by its parameter."""
        is_asked = self.subject.setting.operation.arguments is not None
        return operand_calls(self.subject.variant.function) if is_asked else {}

    @cached_property
    def _has_heads(self) -> bool:
        return self.subject.setting.has_heads

    def declared(self, given: Mapping[str, str]) -> dict[str, Parameter]:
        """Returns the parameters of an operation that options of a way stand for."""
        found: dict[str, Parameter] = {}
        for name, text in given.items():
            known = "scale" if name == TEMPERATURE else name
            if known in VALUES:
                value = next(each for each in self._values_of(known) if names_of([value_in_words(each)])[0] == text)
                found |= {**BESIDE.get(known, {}), known: value}
        own_mask = self._known.get("causal")
        return found | ({"causal": own_mask} if own_mask and "causal" in found else {})

    def _derivatives(self, way: Way) -> int:
        """Derivatives of each number of a row's answer by each of the row's, in all rows."""
        return math.prod(self.leading_of(way)[0]) * self.columns_of(way) ** 2

    def _is_large(self, way: Way) -> bool:
        # A plan asks for the same sizes over and over.
        return self._is_beyond(Way(tuple(each for each in way.values if each[0] in (COLUMNS, ROWS, DIMS, LAYOUT))))

    @cached_property
    def _is_beyond(self) -> Callable[[Way], bool]:
        setting = self.subject.setting
        of_torch = _MOST_ELEMENTS if setting.on_gpu else _MOST_ELEMENTS_OF_TORCH
        most = _MOST_ELEMENTS_INTERPRETED if self._is_interpreted else of_torch

        @cache
        def is_beyond(way: Way) -> bool:
            columns, weight = self.columns_of(way), strides.weight(way.get(LAYOUT, strides.PACKED))
            return math.prod(self.leading_of(way)[0]) * columns * setting.operation.per_logit(columns) * weight > most

        return is_beyond

    @cached_property
    def _is_interpreted(self) -> bool:
        """True if each program of a kernel, or each element of heads, costs much time without a GPU."""
        setting = self.subject.setting
        return not setting.on_gpu and (setting.has_heads or launches_kernels(self.subject.variant.function))

    @cached_property
    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        return parameters_of(own.own_function(self.subject.variant.function))

    @cached_property
    def _known(self) -> Mapping[str, Parameter]:
        return self.subject.setting.operation.parameters

    @property
    def _is_strided(self) -> bool:
        return "strided" in self.subject.setting.declaration.layouts

    def _own_sizes(self, most: int, count: int = _MOST_OWN) -> list[int]:
        """Sizes that the source names, and those just beyond; of many the latter alone, the smallest and the largest among them."""
        sizes = [n for n in self.source.sizes_for(self.subject.setting.fmt.itemsize) if 3 < n < most]
        if 2 * len(sizes) <= count:
            return [n + beyond for n in sizes for beyond in (0, 1)]
        places = np.unique(np.linspace(0, len(sizes) - 1, min(len(sizes), count)).round().astype(int))
        return [sizes[place] + 1 for place in places.tolist()]

    @cached_property
    def _columns(self) -> tuple[str, ...]:
        setting = self.subject.setting
        widest = _WIDEST_INTERPRETED if self._is_interpreted else _WIDEST
        plain, usual = (_PLAIN_OF_HEADS, _COLUMNS_OF_HEADS) if setting.has_heads else (_PLAIN_COLUMNS, _COLUMNS)
        usual = (*usual, *((_IN_16_BITS,) if setting.on_gpu and not setting.has_heads else ()))
        usual = (*usual, *((_BEYOND_FLOAT16,) if setting.fmt == FLOAT16 and not setting.has_heads else ()))
        # As many queries as keys make a number of scores that the source names.
        roots = (math.isqrt(n) + 1 for n in self.source.sizes if max(usual) < math.isqrt(n) < _MOST_KEYS)
        usual = (*usual, *(islice(roots, _MOST_OWN_QUERIES) if setting.has_heads else ()))
        taken = (n for n in dict.fromkeys((plain, *usual, *self._own_sizes(widest))) if setting.takes(n))
        return tuple(str(n) for n in taken if setting.operation.per_logit(n) * n < _MOST_LOGITS) or ("1",)

    @property
    def _tall(self) -> int | None:
        """Rows of a tall matrix whose gradient is asked for: a backward may take them in chunks."""
        setting = self.subject.setting
        if not self.carries_gradient or setting.has_row_calls or setting.has_heads:
            return None
        return _TALL_ON_GPU if setting.on_gpu else _TALL_INTERPRETED if self._is_interpreted else _TALL

    @cached_property
    def _rows(self) -> tuple[str, ...]:
        setting = self.subject.setting
        most = _MOST_ROWS_INTERPRETED if self._is_interpreted else _MOST_ROWS
        if setting.has_heads:
            return tuple(map(str, (_PLAIN_HEADS, *_HEADS)))
        # More rows than a tile has, each of which costs its time where Triton's interpreter runs it.
        usual = _ROWS if self._is_interpreted else (*_ROWS, _MORE_ROWS)
        counts = (_PLAIN_ROWS, *usual, *([self._tall] if self._tall else []), *self._own_sizes(most))
        if not setting.has_row_calls:
            counts = tuple(setting.fewer(n, self.columns_of(Way())) for n in counts)
        return tuple(map(str, dict.fromkeys(counts)))

    @cached_property
    def _dims(self) -> tuple[str, ...]:
        counts = [str(count) for count in range(2, self.most_dimensions + 1)]
        over = (
            []
            if self.dim_parameter is None
            else ["2 over 0", "3 over 0", "3 over 1", "3 over -2", "4 over 1", "4 over 2"]
        )
        setting = self.subject.setting
        over += ["1 over 0"] if over and setting.has_rows_alone and setting.operation.answers_elements else []
        over += [f"2{OVER}{_LAST_TWO}"] if over and setting.has_rows_alone and setting.operation.answers_rows else []
        return (*counts, *over)

    def _operands(self) -> dict[str, tuple[str, ...]]:
        setting, operation = self.subject.setting, self.subject.setting.operation
        if operation.arguments is None or operation.matrix is not None or not setting.takes(self.columns_of(Way())):
            return {}
        names = operands_of(self.subject.variant.function)
        found = layouts_of_operands(operation, names, is_strided=self._is_strided)
        return {name: (NONE, *moves) for name, moves in found.items()}

    def _options(self) -> dict[str, tuple[str, ...]]:
        function, operation = self.subject.variant.function, self.subject.setting.operation
        if not isinstance(function, Adapted):
            return {}
        found, given = {}, function.open_options
        # A temperature is 1 over a scale.
        for name in (each for each in VALUES if each in given or (each == "scale" and TEMPERATURE in given)):
            usual = operation.parameters[name]
            others = [value for value in self._values_of(name) if value != usual]
            found[name] = names_of((f"{value_in_words(usual) or 'none'} by default", *map(value_in_words, others)))
        return found | ({TEMPERATURE: found["scale"]} if temperature_call(function) and "scale" in found else {})

    def _values_of(self, option: str) -> list[Parameter]:
        """Returns values of an option: those of any function, and some that the source names, of a number of keys or a temperature."""
        own: list[float] = []
        if option == "window":
            own = [float(n) for n in self._own_sizes(_MOST_WINDOW, 2)]
        if option == "scale" and self.source.mentions(TEMPERATURE):
            own = [1 / n for n in self.source.numbers if _COLDEST <= n < _COLD][:1]
        return list(dict.fromkeys((*VALUES[option], *own)))

    def _heads(self) -> dict[str, tuple[str, ...]]:
        """Sizes of heads, where they are not declared; a scale that is declared belongs to the head dimension."""
        setting = self.subject.setting
        known, declared = setting.operation.parameters, setting.declaration.parameters
        if not setting.has_heads:
            return {}
        fixed = {"queries"} if known["queries"] or known["square"] else set()
        fixed |= {"head_dim"} if {"head_dim", "scale"} & set(declared) else set()
        # A kernel that knows nothing of shared heads would read beyond the keys.
        function = self.subject.variant.function
        taken = function.open_options if isinstance(function, Adapted) else {}
        is_open = not {"groups"} & (taken.keys() | declared.keys())
        fixed |= set() if is_open and any(map(self.source.mentions, _OF_GROUPS)) else {"groups"}
        fixed |= set() if any(map(self.source.mentions, _OF_VALUES)) else {"value_dim"}
        queries = map(str, self._own_sizes(_MOST_QUERIES, _MOST_OWN_QUERIES))
        sizes = {**HEADS, "queries": names_of((*HEADS["queries"], *queries))}
        return {name: each for name, each in sizes.items() if name not in fixed}

    @property
    def _asked(self) -> tuple[str, ...]:
        """Ways to ask for a gradient."""
        operation, function = self.subject.setting.operation, self.subject.variant.function
        if not self.carries_gradient:
            return (og.ONCE,)
        given = operands_of(function)
        beside = [og.ALL_ANSWERS] if self.has_answers_beside else []
        if operation.operand_gradients is not None:
            known = operation.parameters
            names = [*(each.name for each in operation.operands), *(["bias"] if known["biased"] else [])]
            names += ["sinks"] if math.isfinite(float(known["sink"])) else []
            shared = [og.SHARED_BIAS] if known["biased"] else []
            return (*og.ALWAYS_OF_HEADS, *og.alone(names), *shared, *og.ONE_TENSOR, *beside)
        beside += [og.AGAIN] if judged_by(operation).second is not None else []
        beside += [og.FORWARD_MODE] if self.source.mentions("jvp") else []
        beside += [og.BY_BIAS] if "bias" in given or "bias" in self.calls else []
        beside += [og.BY_SCALE] if isinstance(function, Adapted) and "scale" in function.open_options else []
        return (*og.ALWAYS, *beside)

    @cached_property
    def _modes(self) -> list[str]:
        setting = self.subject.setting
        known = modes(on_gpu=setting.on_gpu, dtype=setting.dtype, has_products=setting.has_products)
        left_out = () if self.source.mentions("get_default_") else _OF_DEFAULTS
        found = [mode for group in known for mode in group if not any(word in mode for word in left_out)]
        return [*found, *([COMPILED] if self.source.mentions("_compiling(") else [])]

    def _earlier(self) -> tuple[str, ...]:
        setting = self.subject.setting
        left_out = set() if len(setting.declaration.dtypes) > 1 else {"another dtype"}
        left_out |= set() if self._is_strided else {"another layout"}
        left_out |= set() if self.out_parameter else {"refused memory for the answer"}
        left_out |= set() if self.calls and "causal" in self._options() else {MASK_AND_CAUSAL}
        has_options = self.other_values or any(len(values) > 1 for values in self._options().values())
        left_out |= set() if has_options else {"another option"}
        left_out |= set() if self.carries_gradient else {"a backward"}
        return tuple(each for each in EARLIER if each not in left_out)


def _dims_of(value: str) -> tuple[int, int]:
    """Returns the number of dimensions, and the place of the row among them."""
    count, _, place = value.partition(OVER)
    return int(count), int(place) if place and place != _LAST_TWO else -1


def _is_of_settings(mode: str) -> bool:
    return mode == COMPILED or any(word in mode for word in _OF_SETTINGS)


def _is_optional(axis: str) -> bool:
    return axis in VALUES or axis in HEADS or axis == TEMPERATURE or axis.startswith(OPERAND)
