"""A right variant whose module takes seconds to import."""

import time

import torch

time.sleep(2.0)


def softmax(x):
    return torch.softmax(x, dim=-1)
