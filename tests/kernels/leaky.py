"""Variants that change how the thread computes, in a call or after it, and right ones and wrong ones to run beside them."""

import ctypes
import weakref

import torch


def round_up():
    # FE_UPWARD on x86 and on Arm; each refuses the other's number.
    fesetround = ctypes.CDLL(None).fesetround
    assert fesetround(0x800) == 0 or fesetround(0x400000) == 0


def flushes(x):
    torch.set_flush_denormal(True)
    return torch.softmax(x, dim=-1)


def rounds_up(x):
    answer = torch.softmax(x, dim=-1)
    round_up()
    return answer


def flushes_and_raises(x):
    torch.set_flush_denormal(True)
    raise ValueError("the flag stays set")


def flushes_when_its_answer_is_dropped(x):
    answer = torch.softmax(x, dim=-1)
    weakref.finalize(answer, torch.set_flush_denormal, True)
    return answer


def flushes_while_it_computes(x):
    """Right on what needs no subnormals, and it cleans up."""
    torch.set_flush_denormal(True)
    try:
        return torch.softmax(x, dim=-1)
    finally:
        torch.set_flush_denormal(False)


def subnormal_at_masked(x):
    """Wrong: a logit of -inf gets 1e-40."""
    answer = torch.softmax(x, dim=-1)
    return torch.where(torch.isneginf(x), torch.tensor(1e-40), answer)


def subnormal_at_masked_and_flushes(x):
    answer = subnormal_at_masked(x)
    torch.set_flush_denormal(True)
    return answer


def innocent(x):
    return torch.softmax(x, dim=-1)
