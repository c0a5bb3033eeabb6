"""The global random generators of Python and numpy: numbers may be drawn from them, but a new seed is put back.

Both are Mersenne twisters of 624 words (Matsumoto & Nishimura, ACM TOMACS 8, 1998). Drawing uses up the words and then
replaces all of them by the next 624. A state that doesn't follow from the state before was therefore set, not reached.
"""

import ctypes
import random
from typing import Any

import numpy as np

from softcheck.calling.settings import GlobalSetting

_global: Any = np.random
"""Functions on the global generator, of which numpy's types don't know all."""
_WORDS = 624
_TURNS = 4096
"""Replacements of all words that are taken for drawing: 2.5 million draws in one call."""


def _follows(before: np.ndarray, now: np.ndarray) -> bool:
    """True if drawing leads from one state's words to another's, both uint32 of shape [624]."""
    if np.array_equal(before, now):
        return True
    generator = np.random.MT19937()
    stepped = np.random.Generator(generator)
    generator.state = {"bit_generator": "MT19937", "state": {"key": before, "pos": _WORDS}}
    wanted = now.tobytes()
    for _ in range(_TURNS):
        stepped.bytes(4 * _WORDS)
        if ctypes.string_at(generator.ctypes.state_address, 4 * _WORDS) == wanted:
            return True
    return False


def _told(*, follows: bool) -> str:
    return "" if follows else "another one was set"


def _tell_python(before: Any, now: Any) -> str:
    if before == now:
        return ""
    first, second = (np.array(state[1][:_WORDS], dtype=np.uint32) for state in (before, now))
    return _told(follows=_follows(first, second))


def _read_numpy() -> tuple[Any, bytes]:
    """The generator, and the words of a Mersenne twister with the place among them, as they lie in memory."""
    generator = _global.get_bit_generator()
    # The public state is a copy within dictionaries, which takes a hundred times as long.
    raw = (
        ctypes.string_at(generator.ctypes.state_address, 4 * _WORDS + 4)
        if isinstance(generator, np.random.MT19937)
        else b""
    )
    return generator, raw


def _words(raw: bytes) -> np.ndarray:
    return np.frombuffer(raw, dtype=np.uint32)[:_WORDS]


def _tell_numpy(before: tuple[Any, bytes], now: tuple[Any, bytes]) -> str:
    if before[0] is not now[0]:
        return "another generator was set"
    return "" if before[1] == now[1] else _told(follows=_follows(_words(before[1]), _words(now[1])))


def _write_numpy(before: tuple[Any, bytes]) -> None:
    generator, raw = before
    if _global.get_bit_generator() is not generator:
        _global.set_bit_generator(generator)
    if raw:
        place = int(np.frombuffer(raw, dtype=np.int32)[_WORDS])
        _global.set_state(("MT19937", _words(raw), place))


SETTINGS = (
    GlobalSetting("the seed of Python's random numbers", random.getstate, random.setstate, _tell_python),
    GlobalSetting("the seed of numpy's random numbers", _read_numpy, _write_numpy, _tell_numpy),
)
