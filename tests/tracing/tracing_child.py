"""Records variants under Triton's interpreter: (spec, dtype, bits, rows) to traced rows and notes."""

import numpy as np
import torch
from child_loop import serve

from oracles.formats import FORMATS
from softcheck.calling.call import place, to_bits
from softcheck.cases.case import PACKED
from softcheck.errors import NothingRunError, UninterpretableError
from softcheck.probes.poison import nan_filled
from softcheck.tracing.memory import Memory
from softcheck.tracing.record import record
from softcheck.tracing.recorder import recording
from softcheck.tracing.shadow import Wide
from softcheck.tracing.steps import errors
from softcheck.variants.registry import load


def traced(spec, dtype, bits, rows):
    try:
        return record(load(spec), bits, FORMATS[dtype], PACKED, rows)
    except (NothingRunError, UninterpretableError) as error:
        return str(error), ()


def outputs(spec, dtype, bits):
    """The bits of an output without and with a recording of every row."""
    fmt, function = FORMATS[dtype], load(spec).function
    view = place(bits, fmt, PACKED, torch.device("cpu")).view
    with nan_filled():
        plain = to_bits(function(view), fmt)
        with (
            recording(Memory(view, view.double().numpy(), set(range(len(bits))))) as recorder,
            np.errstate(all="ignore"),
        ):
            recorded = to_bits(function(view), fmt)
        again = to_bits(function(view), fmt)
    return plain, recorded, again, len(recorder.operations)


def errors_of(values, exact, dtype):
    with np.errstate(all="ignore"):
        return errors(values.astype(Wide), exact.astype(Wide), FORMATS[dtype]).astype(np.float64)


def answer(action, *request):
    return {"trace": traced, "outputs": outputs, "errors": errors_of}[action](*request)


if __name__ == "__main__":
    torch.set_num_threads(1)
    serve(answer)
