"""Muon for the matrices inside the blocks, AdamW for everything else.

Muon replaces the momentum of a matrix by the nearest orthogonal matrix, so that every
direction of it learns at the same pace: the text is little and the steps are few.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor


def orthogonalise(matrix: Tensor, steps: int = 5) -> Tensor:
    """Brings the singular values near 1 by the quintic Newton-Schulz iteration.

    matrix: [..., rows, columns], a stack of matrices.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = matrix.shape[-2] > matrix.shape[-1]
    x = (matrix.transpose(-1, -2) if tall else matrix).bfloat16()
    x = x / (x.norm(dim=(-1, -2), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.transpose(-1, -2)
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.transpose(-1, -2) if tall else x).float()


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised; scaled so that an update has AdamW's usual size."""

    def __init__(self, parameters, weight_decay: float, momentum: float = 0.95) -> None:
        super().__init__(parameters, {"lr": 0.0, "weight_decay": weight_decay,
                                      "momentum": momentum})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    state["momentum"] = torch.zeros_like(parameter)
                state["momentum"].lerp_(parameter.grad, 1 - group["momentum"])
            by_shape = itertools.groupby(sorted(group["params"], key=_shape), key=_shape)
            for shape, parameters in by_shape:
                self._update(list(parameters), group, 0.2 * max(shape) ** 0.5)

    def _update(self, parameters: list[Tensor], group: dict, size: float) -> None:
        ahead = [p.grad.lerp(self.state[p]["momentum"], group["momentum"]) for p in parameters]
        directions = orthogonalise(torch.stack(ahead))
        for parameter, direction in zip(parameters, directions):
            parameter.mul_(1 - group["lr"] * group["weight_decay"])
            parameter.add_(direction, alpha=-group["lr"] * size)


def _shape(parameter: Tensor) -> tuple[int, ...]:
    return tuple(parameter.shape)


def make_optimizers(model: torch.nn.Module, weight_decay: float) -> list[torch.optim.Optimizer]:
    """Vectors (norms, convolutions, biases) are not decayed; embeddings and matrices are."""
    matrices, embeddings, vectors = [], [], []
    for name, parameter in model.named_parameters():
        if name.endswith("_proj.weight"):
            matrices.append(parameter)
        else:
            (embeddings if "embeddings" in name else vectors).append(parameter)
    adam = torch.optim.AdamW([{"params": embeddings, "weight_decay": weight_decay},
                              {"params": vectors, "weight_decay": 0.0}], betas=(0.9, 0.98))
    return [Muon(matrices, weight_decay), adam]
