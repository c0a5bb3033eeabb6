"""Variants that are right when they are looked at and wrong when they are timed: each would win a careless benchmark."""

import torch

_calls = []
_answers = {}
_streams = {}

HONEST_CALLS = 8


def skips_after_some_calls(x):
    """Hands out memory that it never writes once it has been called a few times."""
    _calls.append(1)
    return torch.softmax(x, dim=-1) if len(_calls) <= HONEST_CALLS else torch.empty_like(x)


def keeps_answers_by_pointer(x):
    """Answers from memory where it has seen an input at this address before."""
    if x.data_ptr() not in _answers:
        _answers[x.data_ptr()] = torch.softmax(x, dim=-1)
    return _answers[x.data_ptr()]


def works_on_another_stream(x):
    """Starts the work where the caller's stream does not wait for it."""
    stream = _streams.setdefault(x.device, torch.cuda.Stream(x.device))
    stream.wait_stream(torch.cuda.current_stream(x.device))
    output = torch.empty_like(x)
    with torch.cuda.stream(stream):
        output.copy_(torch.softmax(x, dim=-1))
    return output


def skips_last_row(x):
    """Leaves the last row of every call but the first to whatever the memory held."""
    _calls.append(1)
    output = torch.softmax(x, dim=-1)
    if len(_calls) > 1:
        output[-1] = 1.0 / x.shape[1]
    return output
