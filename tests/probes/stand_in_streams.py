"""CUDA's streams and graphs on the CPU, for tests: operations of torch are noted when they are queued, and run again later."""

import contextlib

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Tape(TorchDispatchMode):
    """Operations in the order in which they were queued. They are run at once too, since torch wants their outputs."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, _types, arguments=(), options=None):
        output = function(*arguments, **(options or {}))
        self.calls.append((function, arguments, options or {}, output))
        return output

    def replay(self):
        """Runs all operations again."""
        for call in self.calls:
            again(*call)


def again(function, arguments, options, output):
    """Runs an operation again, and puts its result where the first one lies."""
    now = function(*arguments, **options)
    pairs = zip(now, output, strict=True) if isinstance(now, tuple | list) else [(now, output)]
    for new, old in pairs:
        if isinstance(new, torch.Tensor) and new.data_ptr() != old.data_ptr():
            old.copy_(new)


_queued = []
"""Streams on which something waits."""


class Stream:
    """A stream on which operations wait until another stream waits for it. Streams run in turn, an operation each."""

    def __init__(self, _device=None):
        self.tape = Tape()

    def wait_stream(self, _other):
        """Runs what all streams have queued."""
        tapes = [stream.tape.calls for stream in _queued]
        _queued.clear()
        for place in range(max(map(len, tapes), default=0)):
            for calls in tapes:
                if place < len(calls):
                    again(*calls[place])
        for calls in tapes:
            calls.clear()

    wait_event = wait_stream


@contextlib.contextmanager
def stream(chosen):
    """Queues what follows on a stream."""
    _queued.append(chosen)
    with chosen.tape:
        yield


class Event:
    """Nothing waits for it here."""

    def record(self):
        """Is over at once."""


def install(monkeypatch):
    """Lets these stand for torch.cuda's own."""
    main = Stream()
    names = {
        "Stream": Stream,
        "stream": stream,
        "Event": Event,
        "CUDAGraph": Tape,
        "graph": lambda graph: graph,
        "current_stream": lambda _device=None: main,
    }
    for name, stand_in in names.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
