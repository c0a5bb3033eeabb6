"""Cross-entropies with options, right and wrong."""

import torch

F = torch.nn.functional


def weighted(logits, target, weight):
    return F.cross_entropy(logits.float(), target, weight=weight.float(), reduction="none")


def weighted_in_float32(logits, target, class_weights, label_smoothing):
    return F.cross_entropy(
        logits.float(), target, weight=class_weights.float(), reduction="none", label_smoothing=label_smoothing
    )


def weights_of_the_row(logits, target, weight):
    losses = F.cross_entropy(logits.float(), target, reduction="none")
    return losses * weight.float()[torch.arange(len(logits)) % len(weight)]


def weighted_twice(logits, target, weight):
    return weighted(logits, target, weight) * weight.float()[target]


def with_square(logits, target, lse_square_scale):
    lse = torch.logsumexp(logits.float(), -1)
    return F.cross_entropy(logits.float(), target, reduction="none") + lse_square_scale * lse * lse


def square_of_the_loss(logits, target, z_loss):
    losses = F.cross_entropy(logits.float(), target, reduction="none")
    return losses + z_loss * losses * losses


def square_without_gradient(logits, target, z_loss):
    lse = torch.logsumexp(logits.detach().float(), -1)
    return F.cross_entropy(logits.float(), target, reduction="none") + z_loss * lse * lse


def scaled(logits, target, logit_scale):
    return F.cross_entropy(logits.float() * logit_scale, target, reduction="none")


def scaled_and_capped(logits, target, temperature, softcap):
    shown = softcap * torch.tanh(logits.float() / temperature / softcap)
    return F.cross_entropy(shown, target, reduction="none")


def scale_without_gradient(logits, target, logit_scale):
    x = logits.float()
    return F.cross_entropy(x + (x * logit_scale - x).detach(), target, reduction="none")


def of_hidden_states(hidden, weight, target):
    return F.cross_entropy(hidden.float() @ weight.float().T, target, reduction="none")


def of_an_input(lin_weight, _input, labels):
    return F.cross_entropy(_input.float() @ lin_weight.float().T, labels, reduction="none")


def of_tiles_from_a_number(hidden, weight, target):
    x = hidden.float()
    top, total = torch.full((len(x),), -100.0), torch.zeros(len(x))
    for start in range(0, len(weight), 8):
        logits = x @ weight[start : start + 8].float().T
        largest = torch.maximum(top, logits.amax(-1))
        total = total * torch.exp(top - largest) + torch.exp(logits - largest[:, None]).sum(-1)
        top = largest
    return top + total.log() - (x * weight[target].float()).sum(-1)


def without_the_head_of_the_target(hidden_states, lm_head, target):
    x = hidden_states.float()
    return torch.logsumexp(x @ lm_head.float().T, -1) - (x * lm_head[0].float()).sum(-1)


def capped(logits, target, softcap):
    return F.cross_entropy(softcap * torch.tanh(logits.float() / softcap), target, reduction="none")


def capped_by_exponentials(logits, target, softcap):
    power = torch.exp(2 * logits.float() / softcap)
    return F.cross_entropy(softcap * (power - 1) / (power + 1), target, reduction="none")


def cap_without_gradient(logits, target, softcap):
    shown = softcap * torch.tanh(logits.float() / softcap)
    return F.cross_entropy(logits.float() + (shown - logits.float()).detach(), target, reduction="none")


def of_a_matrix(logits, target, reduction="mean", ignore_index=-100):
    return F.cross_entropy(logits.float(), target, reduction=reduction, ignore_index=ignore_index)


def weighted_mean(logits, target, weight):
    return F.cross_entropy(logits.float(), target, weight=weight.float())


def mean_over_ignored_rows_too(logits, target, ignore_index):
    return F.cross_entropy(logits.float(), target, reduction="none", ignore_index=ignore_index).mean()


def mean_by_number(logits, target, weight):
    return F.cross_entropy(logits.float(), target, weight=weight.float(), reduction="none").mean()


def nan_for_no_column(logits, target, ignore_index):
    is_column = (target >= 0) & (target < logits.shape[1])
    losses = F.cross_entropy(logits.float(), torch.where(is_column, target, -100), reduction="none")
    return torch.where(is_column | (target == ignore_index), losses, float("nan"))


def nan_by_a_factor(logits, target, ignore_index):
    is_wrong = ((target < 0) | (target >= logits.shape[1])) & (target != ignore_index)
    losses = F.cross_entropy(
        logits.float(), target.masked_fill(is_wrong, 0), reduction="none", ignore_index=ignore_index
    )
    return losses * torch.where(is_wrong, float("nan"), 1.0)


def zero_with_a_gradient(logits, target):
    is_column = (target >= 0) & (target < logits.shape[1])
    losses = F.cross_entropy(logits.float(), target.clamp(0, logits.shape[1] - 1), reduction="none")
    return losses - torch.where(is_column, 0.0, losses.detach())


def reads_no_column(logits, target):
    return F.cross_entropy(logits.float(), target % logits.shape[1], reduction="none")


@torch.no_grad()
def gradient_in_its_place(logits, target):
    losses = F.cross_entropy(logits.float(), target, reduction="none")
    gradient = torch.softmax(logits.float(), -1)
    ignored = target < 0
    gradient[torch.arange(len(logits)), target.clamp(min=0)] -= 1
    logits.copy_(gradient.masked_fill(ignored[:, None], 0.0))
    return losses


@torch.no_grad()
def mean_gradient_in_its_place(logits, target):
    loss = F.cross_entropy(logits.float(), target)
    gradient = torch.softmax(logits.float(), -1)
    gradient[torch.arange(len(logits)), target] -= 1
    logits.copy_(gradient / len(logits))
    return loss


@torch.no_grad()
def probabilities_in_its_place(logits, target):
    losses = F.cross_entropy(logits.float(), target, reduction="none")
    logits.copy_(torch.softmax(logits.float(), -1))
    return losses
