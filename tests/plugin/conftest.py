"""One server of worker processes for all runs of pytest inside these tests: modules that such a run imports do not outlive it."""

import softcheck.run.forking  # noqa: F401
