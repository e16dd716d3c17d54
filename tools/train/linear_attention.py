"""What the mixer is made of: feature maps, the short convolution, and its two forms."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_DENOMINATOR_EPS = 1e-10
Mix = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # q, k, v, decay -> heads' outputs


class LearnedFeatureMap(nn.Module):
    """Features of a linear layer that all heads share: `hedgehog` or `t2r`."""

    def __init__(self, kind: str, head_dim: int) -> None:
        super().__init__()
        self._kind = kind
        self.layer = nn.Linear(head_dim, head_dim)
        nn.init.eye_(self.layer.weight)
        nn.init.zeros_(self.layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(x).float()
        if self._kind == "t2r":
            return x.relu()
        return torch.cat([2 * x, -2 * x], dim=-1).softmax(dim=-1)


class _Elementwise(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self._function = function

    def forward(self, x: Tensor) -> Tensor:
        return self._function(x)


def feature_map(kind: str, head_dim: int) -> nn.Module:
    """φ by the name that config.json gives it."""
    if kind == "elu":
        return _Elementwise(lambda x: F.elu(x.float()) + 1)
    if kind == "relu":
        return _Elementwise(lambda x: x.float().relu())
    if kind in ("hedgehog", "t2r"):
        return LearnedFeatureMap(kind, head_dim)
    raise ValueError(f"feature_map {kind} is not known here")


class _CausalConv(torch.autograd.Function):
    """Depthwise causal convolution of x [batch, time, size] with taps [taps, size].

    Written out with its gradient because that of conv1d took a fifth of a training step on
    a CPU, and that of padded slices no less.
    """

    @staticmethod
    def forward(ctx, x: Tensor, taps: Tensor) -> Tensor:
        ctx.save_for_backward(x, taps)
        newest, *older = reversed(taps)
        out = x * newest
        for lag, tap in enumerate(older, start=1):
            out[:, lag:].addcmul_(x[:, :-lag], tap)
        return out

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, taps = ctx.saved_tensors
        newest, *older = reversed(taps)
        grad_x = grad * newest
        grad_taps = [(grad * x).sum((0, 1))]
        for lag, tap in enumerate(older, start=1):
            grad_x[:, :-lag].addcmul_(grad[:, lag:], tap)
            grad_taps.append((grad[:, lag:] * x[:, :-lag]).sum((0, 1)))
        return grad_x, torch.stack(grad_taps[::-1])


class ShortConv(nn.Module):
    """Depthwise causal convolution without bias, then SiLU. [batch, time, size]."""

    def __init__(self, size: int, taps: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size, 1, taps))
        nn.init.ones_(self.weight.data[:, :, -1])  # starts as the identity

    def forward(self, x: Tensor) -> Tensor:
        return F.silu(_CausalConv.apply(x.float(), self.weight.squeeze(1).t()))


def recurrent(q: Tensor, k: Tensor, v: Tensor, decay: Tensor) -> Tensor:
    """The definition, one token after another. q, k, v: [batch, heads, time, dim]."""
    state = q.new_zeros(*q.shape[:2], q.shape[-1], v.shape[-1])
    normaliser = q.new_zeros(*q.shape[:2], q.shape[-1])
    gamma = decay.view(1, -1, 1)
    outputs = []
    for q_t, k_t, v_t in zip(q.unbind(2), k.unbind(2), v.unbind(2)):
        state = gamma.unsqueeze(-1) * state + k_t.unsqueeze(-1) * v_t.unsqueeze(-2)
        normaliser = gamma * normaliser + k_t
        numerator = torch.einsum("bhk,bhkv->bhv", q_t, state)
        denominator = (q_t * normaliser).sum(-1, keepdim=True)
        outputs.append(numerator / (denominator + _DENOMINATOR_EPS))
    return torch.stack(outputs, dim=2)


def chunkwise(q: Tensor, k: Tensor, v: Tensor, decay: Tensor, chunk: int = 64) -> Tensor:
    """The same values: a chunk at once as masked attention, the state between chunks.

    z is S for a value that is always one, so v gets a column of ones and one product yields
    the numerator and the denominator.
    """
    batch, heads, time, _ = q.shape
    pad = -time % chunk
    v = torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)
    q, k, v = (F.pad(x, (0, 0, 0, pad)).unflatten(2, (-1, chunk)) for x in (q, k, v))
    chunks = q.shape[2]

    log_decay = decay.log().view(heads, 1, 1)
    step = torch.arange(chunk)
    distance = (step[:, None] - step[None, :]).float()
    within = (distance * log_decay).exp().tril().unsqueeze(1)  # [heads, 1, chunk, chunk]
    out = ((q @ k.transpose(-1, -2)) * within) @ v

    if chunks > 1:
        to_end = ((chunk - 1 - step).view(1, chunk, 1) * log_decay).exp().unsqueeze(1)
        from_start = ((step + 1).view(1, chunk, 1) * log_decay).exp().unsqueeze(1)
        added = (k * to_end).transpose(-1, -2) @ v  # what each chunk adds to the state
        state, before = torch.zeros_like(added[:, :, 0]), []
        for i in range(chunks):
            before.append(state)
            state = state * decay.view(heads, 1, 1) ** chunk + added[:, :, i]
        out = out + (q * from_start) @ torch.stack(before, dim=2)

    out = out.flatten(2, 3)[:, :, :time].float()
    return out[..., :-1] / (out[..., -1:] + _DENOMINATOR_EPS)
