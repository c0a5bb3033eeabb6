"""Entry of the compiling process: ``python -m softcheck.variants._ahead_process FILE_DESCRIPTOR``."""

import sys
import warnings
from multiprocessing.connection import Connection

from softcheck.variants.ahead import serve

if __name__ == "__main__":
    # The variant's module has given its warnings where it runs.
    warnings.simplefilter("ignore")
    serve(Connection(int(sys.argv[1])))
