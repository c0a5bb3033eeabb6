"""The errors that softcheck raises on purpose. Each message says what was found, what was expected and what to do."""


class SoftcheckError(Exception):
    """Base of every error that ends a command with a message instead of a traceback."""

    exit_code = 2


class UsageError(SoftcheckError):
    """The request, a file or a configuration is wrong; exit code 2."""


class TooLittleMemoryError(UsageError):
    """Raised if there is no room for an input of the requested size; a smaller one may fit."""


class NothingRunError(SoftcheckError):
    """Raised if nothing was judged, so that nothing may be called right; exit code 3."""

    exit_code = 3


class WithoutKernelError(NothingRunError):
    """Raised if a call that should launch a Triton kernel launches none."""


class UninterpretableError(SoftcheckError):
    """Raised if a variant's call needs a GPU, so that here it shows nothing; the message names the need."""


class NotCalledError(UninterpretableError):
    """Raised if softcheck failed before it called a variant, so that this shows nothing about the variant."""


class TooManyRowsError(UninterpretableError):
    """Raised if a call has more rows than a function of one row is called with, so that it shows nothing."""


def near_matches(value: str, known: list[str], otherwise: str | None = None) -> str:
    """A hint naming known words close to ``value``; when none is close, what stands ``otherwise``, by default all of them."""
    import difflib

    close = difflib.get_close_matches(value, known, n=3, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(repr(c) for c in close) + "?"
    return "expected one of: " + ", ".join(sorted(known)) if otherwise is None else otherwise
