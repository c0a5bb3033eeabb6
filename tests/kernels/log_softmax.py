"""Functions that declare an operation of the tests' own, ``tests/operations/toy_operation.py``."""

import torch

from softcheck import variant


@variant(operation="toy_operation:LOG_SOFTMAX")
def right(x):
    return torch.log_softmax(x.float(), dim=-1).to(x.dtype)


@variant(operation="toy_operation:LOG_SOFTMAX")
def log_of_softmax(x):
    return torch.log(torch.softmax(x.float(), dim=-1)).to(x.dtype)


@variant(operation="toy_operation:LOG_SOFTMAX")
def off_by_its_neighbour(x):
    return right(x).roll(1, dims=-1)
