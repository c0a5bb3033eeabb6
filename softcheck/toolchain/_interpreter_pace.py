"""Ends interpreted launches that would take minutes: they are slow and do not hang.

The interpreter runs one program after the other. Where each reads a whole wide row, a launch takes minutes, which a GPU
would have done in milliseconds. From the programs that have run it is known how long all of them would take.
"""

import math
import time
from typing import Any

from softcheck.calling import launches
from softcheck.calling.unable import uninterpretable

MOST_SECONDS = 40.0
"""Seconds of the processor that a launch may be foretold to take. Calls are ended after 60 on the clock."""
SURE_AFTER = 4.0
"""Seconds after which a launch's programs foretell its end."""


def install(interpreter: Any) -> None:
    """Times the programs of each launch, where Triton's ``runtime.interpreter`` begins them."""
    builder = interpreter.InterpreterBuilder
    set_size, set_place = builder.set_grid_dim, builder.set_grid_idx

    def begin_launch(self: Any, *size: int) -> None:
        programs = math.prod(size)
        launches.note_programs(programs)
        self.softcheck_pace = _LaunchPace(programs)
        set_size(self, *size)

    def begin_program(self: Any, *place: int) -> None:
        self.softcheck_pace.begin_program()
        set_place(self, *place)

    builder.set_grid_dim, builder.set_grid_idx = begin_launch, begin_program


class _LaunchPace:
    def __init__(self, programs: int) -> None:
        self._programs, self._done = programs, -1
        self._begun = time.process_time()

    def begin_program(self) -> None:
        self._done += 1
        passed = time.process_time() - self._begun
        if passed > SURE_AFTER and (foretold := passed / self._done * self._programs) > MOST_SECONDS:
            raise uninterpretable(f"{self._programs} programs of one launch would take {foretold:.0f} s here")
