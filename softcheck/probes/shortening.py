"""The shortest history that still shows a fault, by leaving steps out and then making the others simpler.

After Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", IEEE TSE 28(2), 2002. A planned
history can't be given to hypothesis, which shrinks only inputs that it has drawn itself.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

Step = TypeVar("Step")


def shortened(
    steps: list[Step],
    *,
    fails: Callable[[Sequence[Step]], bool],
    simpler: Callable[[Step], Sequence[Step]],
    is_over: Callable[[], bool],
) -> list[Step] | None:
    """Returns fewer and simpler steps that fail, the last step among them; None if not even all steps fail again.

    Ends early, with the best so far, once ``is_over``.
    """
    count = 1
    while count < len(steps) and not is_over() and not fails(steps[-count:]):
        count *= 2
    if count >= len(steps) and not fails(steps):
        return None
    if is_over():
        return steps
    shortest = steps[-count:]
    place = 0
    while place < len(shortest) - 1 and not is_over():
        without = [*shortest[:place], *shortest[place + 1 :]]
        if fails(without):
            shortest = without
        else:
            place += 1
    for place in range(len(shortest)):
        candidates = list(simpler(shortest[place]))
        while candidates and not is_over():
            changed = [*shortest[:place], candidates.pop(0), *shortest[place + 1 :]]
            if fails(changed):
                shortest, candidates = changed, list(simpler(changed[place]))
    return shortest
