"""The default model: linear attention with a fixed decay per head and the normaliser.

The layout of tensors and config is flash-linear-attention's `linear_attn`, extended by
`decay`, `use_short_conv`, `use_output_gate` and tied embeddings. The mixer exists in two
forms: chunkwise for training, and recurrent, which is the definition and what the server
decodes with. `python3 tools/train/model.py` checks that they agree.
"""

from __future__ import annotations

import dataclasses
import threading

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from linear_attention import Mix, ShortConv, chunkwise, feature_map, recurrent


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


_thread = threading.local()


def seed_dropout(*seed: int) -> None:
    """Fixes the masks that this thread draws from here on."""
    _thread.random = np.random.Generator(np.random.SFC64(seed))


class Dropout(nn.Module):
    """Dropout whose mask is drawn as bytes: torch's own took a tenth of a step on a CPU."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self._threshold = round(256 * rate)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self._threshold == 0:
            return x
        drawn = np.frombuffer(_thread.random.bytes(x.numel()), np.uint8).reshape(x.shape)
        kept = torch.from_numpy(drawn >= self._threshold)
        return x * kept * (256 / (256 - self._threshold))


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
    """Pre-norm residual block; dropout on what each half adds."""

    def __init__(self, config: Config, dropout: float) -> None:
        super().__init__()
        self.attn_norm = RmsNorm(config.hidden_size, config.norm_eps)
        self.attn = Attention(config)
        self.mlp_norm = RmsNorm(config.hidden_size, config.norm_eps)
        self.mlp = Mlp(config.hidden_size, config.intermediate_size)
        self._dropout = Dropout(dropout)

    def forward(self, x: Tensor, mix: Mix = chunkwise) -> Tensor:
        x = x + self._dropout(self.attn(self.attn_norm(x), mix))
        return x + self._dropout(self.mlp(self.mlp_norm(x)))


class LanguageModel(nn.Module):
    """Token ids [batch, time] -> logits [batch, time, vocabulary], from a zero state."""

    def __init__(self, config: Config, dropout: float = 0.0) -> None:
        super().__init__()
        self.config = config
        self.model = nn.Module()
        self.model.embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.model.layers = nn.ModuleList(
            Block(config, dropout) for _ in range(config.num_hidden_layers))
        self.model.norm = RmsNorm(config.hidden_size, config.norm_eps)
        self._dropout = Dropout(dropout)
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
        x = self._dropout(self.model.embeddings(tokens))
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
