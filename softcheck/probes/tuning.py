"""Triton's autotuned kernels, found as they are launched, and made to run in one configuration."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from triton.runtime.autotuner import Autotuner

from softcheck.calling.operands import Around
from softcheck.toolchain.interpreter import tuned_by, wrapped


def watching(choose: Callable[[Any, list[Any]], Any | None]) -> AbstractContextManager[None]:
    """Returns a block in which autotuned kernels are launched in the configuration that is chosen, as ``tuned_by`` has it."""
    return wrapped({(Autotuner, "run"): tuned_by(choose)})


@contextmanager
def offered() -> Iterator[dict[str, None]]:
    """Notes the configurations that autotuned kernels would choose from, in words."""
    found: dict[str, None] = {}

    def note(_: Any, configs: list[Any]) -> None:
        found.update(dict.fromkeys(map(str, configs) if len(configs) > 1 else ()))

    with watching(note):
        yield found


def in_configuration(function: Callable[..., Any], words: str) -> Callable[..., Any]:
    """Returns the function with its autotuned kernels in the configuration of these words, where they offer it."""

    def choose(_: Any, configs: list[Any]) -> Any | None:
        return next((each for each in configs if str(each) == words), None)

    def called(function: Callable[..., Any], x: Any) -> Any:
        with watching(choose):
            return function(x)

    return Around(function, called)


@contextmanager
def untuned() -> Iterator[None]:
    """Makes autotuned kernels forget their tuning before their first launch in here, as if it were a first call."""
    seen: set[int] = set()

    def forget(tuner: Any, _: list[Any]) -> None:
        if id(tuner) not in seen:
            seen.add(id(tuner))
            tuner.cache.clear()

    with watching(forget):
        yield
