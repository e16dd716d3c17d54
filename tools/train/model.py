"""The default model: linear attention with a fixed decay per head and the normaliser.

The layout of tensors and config is flash-linear-attention's `linear_attn`, extended by
`decay`, `use_short_conv`, `use_output_gate` and tied embeddings. The mixer exists in two
forms: chunkwise for training, and recurrent, which is the definition and what the server
decodes with. `python3 tools/train/model.py` checks that they agree.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_DENOMINATOR_EPS = 1e-10
Mix = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # q, k, v, decay -> heads' outputs


@dataclasses.dataclass
class Config:
    """The shape of a model; the names are those of config.json."""

    vocab_size: int = 2048
    hidden_size: int = 192
    num_hidden_layers: int = 4
    num_heads: int = 6
    intermediate_size: int = 512
    feature_map: str = "relu"
    decay: tuple[float, ...] = (0.8, 0.92, 0.97, 0.988, 0.995, 0.998)
    use_short_conv: bool = True
    conv_size: int = 4
    use_output_gate: bool = True
    norm_eps: float = 1e-6

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_heads


class RmsNorm(nn.Module):
    """x / rms(x) * weight over the last dimension, in float32.

    Under autocast the result is bfloat16, so that the products that share it do not each
    convert it again.
    """

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self._eps = eps

    def forward(self, x: Tensor) -> Tensor:
        x = x.float()
        x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self._eps) * self.weight
        return x.bfloat16() if torch.is_autocast_cpu_enabled() else x


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


class Attention(nn.Module):
    """The mixer of one layer. [batch, time, hidden] -> the same."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        size = config.hidden_size
        self._config = config
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (
            nn.Linear(size, size, bias=False) for _ in range(4))
        if config.use_output_gate:
            self.g_proj = nn.Linear(size, size, bias=False)
        if config.use_short_conv:
            self.q_conv1d, self.k_conv1d, self.v_conv1d = (
                ShortConv(size, config.conv_size) for _ in range(3))
        self.feature_map_q = feature_map(config.feature_map, config.head_dim)
        self.feature_map_k = feature_map(config.feature_map, config.head_dim)
        self.norm = RmsNorm(config.head_dim, config.norm_eps)
        self.register_buffer("decay", torch.tensor(config.decay), persistent=False)

    def forward(self, x: Tensor, mix: Mix = chunkwise) -> Tensor:
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        if self._config.use_short_conv:
            q, k, v = self.q_conv1d(q), self.k_conv1d(k), self.v_conv1d(v)
        q, k, v = (y.unflatten(-1, (self._config.num_heads, -1)).transpose(1, 2)
                   for y in (q, k, v))
        q = self.feature_map_q(q) * self._config.head_dim**-0.5
        heads = mix(q, self.feature_map_k(k), v, self.decay)
        out = self.norm(heads).transpose(1, 2).flatten(2)
        if self._config.use_output_gate:
            out = out * F.silu(self.g_proj(x).float())
        return self.o_proj(out)


class Mlp(nn.Module):
    """SwiGLU; the SiLU in float32, as torch's in bfloat16 is several times slower."""

    def __init__(self, size: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(size, inner, bias=False)
        self.up_proj = nn.Linear(size, inner, bias=False)
        self.down_proj = nn.Linear(inner, size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x).float()) * self.up_proj(x))


class Block(nn.Module):
    """Pre-norm residual block."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.attn_norm = RmsNorm(config.hidden_size, config.norm_eps)
        self.attn = Attention(config)
        self.mlp_norm = RmsNorm(config.hidden_size, config.norm_eps)
        self.mlp = Mlp(config.hidden_size, config.intermediate_size)

    def forward(self, x: Tensor, mix: Mix = chunkwise) -> Tensor:
        x = x + self.attn(self.attn_norm(x), mix)
        return x + self.mlp(self.mlp_norm(x))


class LanguageModel(nn.Module):
    """Token ids [batch, time] -> logits [batch, time, vocabulary], from a zero state."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.model = nn.Module()
        self.model.embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.model.layers = nn.ModuleList(
            Block(config) for _ in range(config.num_hidden_layers))
        self.model.norm = RmsNorm(config.hidden_size, config.norm_eps)
        self._initialise()

    def _initialise(self) -> None:
        nn.init.normal_(self.model.embeddings.weight, std=0.02)
        depth_scale = (2 * self.config.num_hidden_layers) ** -0.5
        for name, parameter in self.named_parameters():
            if name.endswith("_proj.weight"):
                std = parameter.shape[1] ** -0.5
                residual = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(parameter, std=std * depth_scale if residual else std)

    def forward(self, tokens: Tensor, mix: Mix = chunkwise) -> Tensor:
        x = self.model.embeddings(tokens)
        for layer in self.model.layers:
            x = layer(x, mix)
        return F.linear(self.model.norm(x), self.model.embeddings.weight)


def _check_forms_agree() -> None:
    torch.manual_seed(0)
    for kind in ("elu", "relu", "hedgehog", "t2r"):
        model = LanguageModel(Config(feature_map=kind, num_hidden_layers=2))
        for length in (1, 64, 200):
            tokens = torch.randint(model.config.vocab_size, (2, length))
            with torch.no_grad():
                expected = model(tokens, recurrent)
                error = (model(tokens) - expected).abs().max() / expected.abs().max()
            print(f"{kind:9} {length:4} tokens: largest relative difference {error:.1e}")
            assert error < 1e-4


if __name__ == "__main__":
    _check_forms_agree()
