"""Small cases for the tests of corpora."""

import numpy as np

from oracles.formats import FORMATS, encode
from softcheck.cases.importing import case_from_bits


def case_of(values, dtype="float16", name=None, **fields):
    bits = encode(np.array(values, dtype=np.float64), FORMATS[dtype])
    return case_from_bits(bits, dtype, family="test", name=name, provenance="a test", **fields)
