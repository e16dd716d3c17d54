"""Byte-level byte-pair encoding: training, encoding, decoding, tokenizer.json.

The file written here is the Hugging Face `tokenizers` layout (model BPE, ByteLevel
pre-tokenizer and decoder), so the server reads it as it reads any published one. All 256
bytes are in the vocabulary: every text has an encoding, and decoding gives it back.
"""

from __future__ import annotations

import collections
import functools
import heapq
import json
import pathlib
import re

END_OF_TEXT = "<|endoftext|>"
END_OF_TEXT_ID = 0

# GPT-2's pattern. Python's `re` has no \p{L} and \p{N}; the classes below are the same on
# ASCII, which is all that the training text holds, and close to it elsewhere.
_WORDS = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")


def _byte_characters() -> list[str]:
    """GPT-2's printable stand-in for each byte, which keeps tokenizer.json readable."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(256))
    return [chr(b) if b in printable else chr(256 + next(spare)) for b in range(256)]


_BYTE_TO_CHAR = _byte_characters()
_CHAR_TO_BYTE = {char: byte for byte, char in enumerate(_BYTE_TO_CHAR)}


def _spell(word: str) -> tuple[str, ...]:
    return tuple(_BYTE_TO_CHAR[byte] for byte in word.encode("utf-8"))


def _join(symbols: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    """Replaces every occurrence of `pair`, left to right."""
    out: list[str] = []
    i = 0
    while i < len(symbols):
        if symbols[i : i + 2] == pair:
            out.append(symbols[i] + symbols[i + 1])
            i += 2
        else:
            out.append(symbols[i])
            i += 1
    return tuple(out)


class Tokenizer:
    """A vocabulary with its merges in order of rank. Immutable once made."""

    def __init__(self, merges: list[tuple[str, str]]) -> None:
        self.merges = merges
        alphabet = sorted(_BYTE_TO_CHAR)
        tokens = [END_OF_TEXT, *alphabet, *(left + right for left, right in merges)]
        self.vocab = {token: index for index, token in enumerate(tokens)}
        self.tokens = tokens
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}
        self._encode_word = functools.lru_cache(maxsize=1 << 16)(self._encode_word_uncached)

    @property
    def vocab_size(self) -> int:
        return len(self.tokens)

    @classmethod
    def train(cls, texts: list[str], vocab_size: int) -> Tokenizer:
        """Learns merges, the most frequent pair first; ties go to the smaller pair."""
        counts = collections.Counter(word for text in texts for word in _WORDS.findall(text))
        words = [_spell(word) for word in counts]
        weights = list(counts.values())
        pair_counts: collections.Counter[tuple[str, str]] = collections.Counter()
        where: dict[tuple[str, str], set[int]] = collections.defaultdict(set)
        for index, symbols in enumerate(words):
            for pair in zip(symbols, symbols[1:]):
                pair_counts[pair] += weights[index]
                where[pair].add(index)
        # A heap with stale entries: an entry counts only if its number is still the true one.
        heap = [(-count, pair) for pair, count in pair_counts.items()]
        heapq.heapify(heap)
        merges: list[tuple[str, str]] = []
        while heap and 1 + 256 + len(merges) < vocab_size:
            negative, best = heapq.heappop(heap)
            if -negative != pair_counts[best] or negative == 0:
                continue
            merges.append(best)
            touched = set()
            for index in where.pop(best):
                old, new = words[index], _join(words[index], best)
                for pair in zip(old, old[1:]):
                    pair_counts[pair] -= weights[index]
                    touched.add(pair)
                for pair in zip(new, new[1:]):
                    pair_counts[pair] += weights[index]
                    where[pair].add(index)
                    touched.add(pair)
                words[index] = new
            for pair in touched:
                if pair_counts[pair] > 0:
                    heapq.heappush(heap, (-pair_counts[pair], pair))
        return cls(merges)

    def _encode_word_uncached(self, word: str) -> list[int]:
        symbols = _spell(word)
        while len(symbols) > 1:
            pair = min(zip(symbols, symbols[1:]), key=lambda p: self._ranks.get(p, 1 << 30))
            if pair not in self._ranks:
                break
            symbols = _join(symbols, pair)
        return [self.vocab[symbol] for symbol in symbols]

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`; a literal `<|endoftext|>` in it is not treated as special."""
        return [token for word in _WORDS.findall(text) for token in self._encode_word(word)]

    def decode(self, ids: list[int]) -> str:
        """Text of `ids`; END_OF_TEXT shows as itself, torn UTF-8 as U+FFFD."""
        data = bytearray()
        for token in ids:
            if token == END_OF_TEXT_ID:
                data += END_OF_TEXT.encode()
            else:
                data += bytes(_CHAR_TO_BYTE[char] for char in self.tokens[token])
        return data.decode("utf-8", errors="replace")

    def save(self, path: pathlib.Path) -> None:
        """Writes tokenizer.json."""
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                      "use_regex": True}
        special = {"id": END_OF_TEXT_ID, "content": END_OF_TEXT, "single_word": False,
                   "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        model = {"type": "BPE", "dropout": None, "unk_token": None,
                 "continuing_subword_prefix": None, "end_of_word_suffix": None,
                 "fuse_unk": False, "byte_fallback": False, "vocab": self.vocab,
                 "merges": [" ".join(pair) for pair in self.merges]}
        document = {"version": "1.0", "truncation": None, "padding": None,
                    "added_tokens": [special], "normalizer": None, "pre_tokenizer": byte_level,
                    "post_processor": None, "decoder": byte_level, "model": model}
        path.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", "utf-8")

    @classmethod
    def load(cls, path: pathlib.Path) -> Tokenizer:
        """Reads a tokenizer.json that `save` wrote."""
        document = json.loads(path.read_text("utf-8"))
        left_right = (merge.split(" ") for merge in document["model"]["merges"])
        tokenizer = cls([(left, right) for left, right in left_right])
        if tokenizer.vocab != document["model"]["vocab"]:
            raise ValueError(f"{path}: the vocabulary is not in the order this trainer writes")
        return tokenizer
