"""Triton's autotuned kernels, found as they are launched, and made to run in one configuration."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from triton.runtime.autotuner import Autotuner

from softcheck.calling.operands import Around


@contextmanager
def watching(act: Callable[[Any, list[Any]], Any | None]) -> Iterator[None]:
    """Calls ``act`` with each autotuned kernel that is launched, and the configurations that it would choose from.

    These are the configurations that the kernel's own pruning leaves for the launch. If ``act`` returns one of them,
    the launch runs in it. If ``act`` returns None, the launch runs as usual.
    """
    original = Autotuner.run

    def run(tuner: Any, *args: Any, **options: Any) -> Any:
        # Pruning reads the launch's arguments from here.
        tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
        configs = tuner.configs
        chosen = act(tuner, list(tuner.prune_configs(options)) if len(configs) > 1 else list(configs))
        if chosen is None:
            return original(tuner, *args, **options)
        tuner.configs = [chosen]
        try:
            return original(tuner, *args, **options)
        finally:
            tuner.configs = configs

    Autotuner.run = run
    try:
        yield
    finally:
        Autotuner.run = original


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

    def called(function: Callable[..., Any], x: Any) -> Any:
        with watching(lambda _, configs: next((each for each in configs if str(each) == words), None)):
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
