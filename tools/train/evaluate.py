"""Bits per byte of a model directory on a file of records, and samples from it.

    python3 tools/train/evaluate.py models/tinystories-linear --valid CORPUS/tinystories-valid.txt

The rule: each record is scored from a zero state. END_OF_TEXT is consumed first and not
scored; then every token of the record and one closing END_OF_TEXT are scored. The sum of
-log2 p over all records is divided by the size of the whole file in bytes, separator lines
included (and, printed beside it, by the bytes of the records' texts alone).
"""

from __future__ import annotations

import argparse
import math
import pathlib
import time

import torch
import torch.nn.functional as F

from data import read_records
from model import LanguageModel
from store import load_model
from tokenizer import END_OF_TEXT, END_OF_TEXT_ID, Tokenizer

_SEPARATOR_BYTES = len(f"\n{END_OF_TEXT}\n")
_PADDING = -100  # the target that cross_entropy leaves out


@torch.no_grad()
def total_bits(model: LanguageModel, sequences: list[list[int]], batch_size: int = 16) -> float:
    """Sum of -log2 p of every token after the first, each sequence from a zero state."""
    nats = 0.0
    by_length = sorted(sequences, key=len)  # rows of a batch are then of nearly one length
    for begin in range(0, len(by_length), batch_size):
        rows = by_length[begin : begin + batch_size]
        tokens = torch.zeros(len(rows), len(rows[-1]), dtype=torch.long)
        targets = torch.full_like(tokens, _PADDING)
        for i, row in enumerate(rows):
            tokens[i, : len(row)] = torch.tensor(row)
            targets[i, : len(row) - 1] = torch.tensor(row[1:])
        logits = model(tokens).float()
        nats += F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum",
                                ignore_index=_PADDING).item()
    return nats / math.log(2)


def framed(records: list[str], tokenizer: Tokenizer) -> list[list[int]]:
    """Each record's tokens between END_OF_TEXT before and after."""
    return [[END_OF_TEXT_ID, *tokenizer.encode(text), END_OF_TEXT_ID] for text in records]


def joined(sequences: list[list[int]], length: int) -> list[list[int]]:
    """Sequences put together until each has at least `length` tokens, the last one aside."""
    out = [[END_OF_TEXT_ID]]
    for sequence in sequences:
        if len(out[-1]) > length:
            out.append([END_OF_TEXT_ID])
        out[-1] += sequence[1:]  # the END_OF_TEXT before it is already there
    return out


def bits_per_byte(model: LanguageModel, tokenizer: Tokenizer, records: list[str]) -> float:
    """By the rule above; equals the whole file's if `records` are all of its records."""
    size = sum(len(text.encode("utf-8")) + _SEPARATOR_BYTES for text in records)
    return total_bits(model, framed(records, tokenizer)) / size


@torch.no_grad()
def sample(model: LanguageModel, tokenizer: Tokenizer, prompt: str, max_tokens: int,
           temperature: float, top_p: float, seed: int) -> str:
    """The prompt from a zero state, without END_OF_TEXT before it, and what follows."""
    generator = torch.Generator().manual_seed(seed)
    tokens = tokenizer.encode(prompt) or [END_OF_TEXT_ID]
    for _ in range(max_tokens):
        logits = model(torch.tensor([tokens]))[0, -1].float() / temperature
        values, order = logits.softmax(-1).sort(descending=True)
        values[values.cumsum(0) - values > top_p] = 0
        chosen = order[torch.multinomial(values, 1, generator=generator)].item()
        tokens.append(chosen)
        if chosen == END_OF_TEXT_ID:
            break
    return tokenizer.decode(tokens)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--valid", type=pathlib.Path)
    parser.add_argument("--join", type=int, default=0, metavar="TOKENS",
                        help="let the state run on through records, this many tokens at least")
    parser.add_argument("--prompt", help="write a story that begins so")
    parser.add_argument("--max-tokens", type=int, default=300)
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--top-p", type=float, default=0.95)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(2)
    model, tokenizer = load_model(args.model)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{parameters:,} parameters")
    if args.valid:
        begin = time.time()
        records = read_records(args.valid)
        sequences = framed(records, tokenizer)
        if args.join:
            sequences = joined(sequences, args.join)
        bits = total_bits(model, sequences, batch_size=1 if args.join else 16)
        scored = sum(len(row) - 1 for row in sequences)
        file_bytes = args.valid.stat().st_size
        text_bytes = sum(len(text.encode("utf-8")) for text in records)
        print(f"{len(records):,} records, {scored:,} tokens scored, {bits:,.0f} bits, "
              f"{time.time() - begin:.0f} s")
        print(f"{bits / file_bytes:.4f} bits per byte of the file ({file_bytes:,} bytes)")
        print(f"{bits / text_bytes:.4f} bits per byte of the texts alone ({text_bytes:,} bytes)")
        print(f"{bits / scored * math.log(2):.4f} nats per token")
    if args.prompt is not None:
        print(sample(model, tokenizer, args.prompt, args.max_tokens, args.temperature,
                     args.top_p, args.seed))


if __name__ == "__main__":
    main()
