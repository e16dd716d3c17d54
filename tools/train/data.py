"""Records of the corpus, and the batches that training draws from them."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import numpy as np
import torch

from tokenizer import END_OF_TEXT, END_OF_TEXT_ID, Tokenizer

_SEPARATOR = f"\n{END_OF_TEXT}\n"


def read_records(path: pathlib.Path) -> list[str]:
    """The texts between the lines that hold only `<|endoftext|>`."""
    text = path.read_text("utf-8")
    return [record for record in text.split(_SEPARATOR) if record]


class Stream:
    """Records as one row of tokens in a new order each epoch, cut into windows.

    Each record is END_OF_TEXT and its tokens; the END_OF_TEXT that opens the next record is
    the one that closes this one. Half of the windows are moved back to where their record
    starts, because a fresh session starts there too; of those, one in four leaves out
    END_OF_TEXT, because a user's prompt has none.
    """

    def __init__(self, records: list[str], tokenizer: Tokenizer, length: int, seed: int) -> None:
        self._records = [np.array([END_OF_TEXT_ID, *tokenizer.encode(record)], np.int32)
                         for record in records]
        self._length = length
        self._random = np.random.default_rng(seed)
        self._windows = self._endless_windows()
        self.tokens_per_epoch = sum(map(len, self._records))

    def _endless_windows(self) -> Iterator[np.ndarray]:
        while True:
            order = self._random.permutation(len(self._records))
            row = np.concatenate([self._records[i] for i in order])
            starts = np.flatnonzero(row == END_OF_TEXT_ID)
            cuts = np.arange(self._random.integers(self._length), len(row), self._length)
            cuts = cuts[cuts + self._length < len(row)]
            for cut in self._random.permutation(cuts):
                chance = self._random.random()
                if chance < 0.5:
                    cut = starts[np.searchsorted(starts, cut, side="right") - 1]
                    cut += chance < 0.125
                yield row[cut : cut + self._length + 1]

    def batch(self, size: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The next windows: inputs and targets one further, each [size, length]."""
        tokens = torch.from_numpy(np.stack([next(self._windows) for _ in range(size)])).long()
        return tokens[:, :-1], tokens[:, 1:]
