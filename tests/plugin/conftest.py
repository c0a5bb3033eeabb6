"""Modules that all runs of pytest inside these tests share: what such a run imports does not outlive it.

One server of worker processes serves all of them, and whoever draws a report finds the classes of rich that were there before.
"""

from importlib import import_module

import rich.console
import rich.table  # noqa: F401

import softcheck.run.forking  # noqa: F401
from softcheck.report.formats import FORMATS

for place in FORMATS.values():
    import_module(place.partition(":")[0])
