"""Functions with one answer for each row, right and wrong."""

import torch

INF = float("inf")


def logsumexp(x):
    return torch.logsumexp(x.float(), -1)


def logsumexp_kept(x):
    return torch.logsumexp(x.float(), -1, keepdim=True)


def logsumexp_without_maximum(x):
    return torch.log(torch.exp(x.float()).sum(-1))


def logsumexp_in_base_two(x):
    return torch.logsumexp(x.float(), -1) * 1.4426950408889634


def logsumexp_of_all_but_one(x):
    return torch.logsumexp(x.float()[:, : max(1, x.shape[1] - 1)], -1)


def matrix(x):
    return torch.log_softmax(x.float(), -1)


def cross_entropy(logits, targets):
    return torch.nn.functional.cross_entropy(logits.float(), targets, reduction="none")


def into_output(logits, labels, out):
    out.copy_(torch.nn.functional.cross_entropy(logits.float(), labels, reduction="none"))


def cross_entropy_and_more(logits, target):
    lse = torch.logsumexp(logits.float(), -1)
    return lse - logits.float().gather(1, target[:, None])[:, 0], lse


def ignoring(logits, target, ignore_index=-100):
    return torch.nn.functional.cross_entropy(logits.float(), target, reduction="none", ignore_index=ignore_index)


def with_options(logits, target, ignore_index, label_smoothing, softcap=0.0):
    return torch.nn.functional.cross_entropy(
        logits.float(), target, reduction="none", ignore_index=ignore_index, label_smoothing=label_smoothing
    )


def counts_ignored_rows(logits, target, ignore_index=-100):
    shown = target.clamp(min=0)
    return torch.nn.functional.cross_entropy(logits.float(), shown, reduction="none")


def target_of_the_next_row(logits, target):
    return torch.nn.functional.cross_entropy(logits.float(), target.roll(1), reduction="none")


def last_column_is_never_the_target(logits, target):
    return torch.nn.functional.cross_entropy(
        logits.float(), target.clamp(max=max(0, logits.shape[1] - 2)), reduction="none"
    )


def smoothed(logits, target):
    return torch.nn.functional.cross_entropy(logits.float(), target, reduction="none", label_smoothing=1e-4)


def mean(logits, target):
    return torch.nn.functional.cross_entropy(logits.float(), target)


class WithoutTheTarget(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target):
        ctx.save_for_backward(logits, target)
        return torch.nn.functional.cross_entropy(logits.float(), target, reduction="none")

    @staticmethod
    def backward(ctx, grad):
        logits, _ = ctx.saved_tensors
        return (torch.softmax(logits.float(), -1) * grad[:, None]).to(logits.dtype), None


class OfOnes(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target):
        ctx.save_for_backward(logits, target)
        return torch.nn.functional.cross_entropy(logits.float(), target, reduction="none")

    @staticmethod
    def backward(ctx, grad):
        logits, target = ctx.saved_tensors
        p = torch.softmax(logits.float(), -1)
        p[torch.arange(len(p)), target] -= 1
        return p.to(logits.dtype), None


def with_smoothing(logits, target, label_smoothing=0.0):
    return torch.nn.functional.cross_entropy(logits.float(), target, reduction="none", label_smoothing=label_smoothing)


def smooths_by_hand(logits, target, smoothing):
    logits = logits.float()
    lse = torch.logsumexp(logits, -1)
    at_target = lse - logits.gather(1, target[:, None])[:, 0]
    return (1 - smoothing) * at_target + smoothing * (lse - logits.mean(-1))


def smooths_all_but_the_target(logits, target, label_smoothing=0.0):
    logits = logits.float()
    y = torch.log_softmax(logits, -1)
    at_target = y.gather(1, target[:, None])[:, 0]
    others = (y.sum(-1) - at_target) / max(1, logits.shape[1] - 1)
    return -(1 - label_smoothing) * at_target - label_smoothing * others
