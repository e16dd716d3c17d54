"""Trains the default model from the corpus. The defaults are what the shipped model used.

    python3 tools/train/train.py --corpus PATH --seed 1 --out models/tinystories-linear

The directory at --out always holds the best averaged weights so far, by bits per byte on
the validation stories.
"""

from __future__ import annotations

import argparse
import copy
import math
import pathlib
import time

import torch
import torch.nn.functional as F

from data import Mixture, Stream, read_records
from evaluate import bits_per_byte
from model import Config, LanguageModel
from optimizer import make_optimizers
from store import save_model
from tokenizer import Tokenizer

OTHER_PROSE = ("storybooks-ccby.txt", "fairytales-pd.txt", "grimm-andersen-pd.txt",
               "oz-alice-cc0.txt")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    shape = Config()
    parser.add_argument("--vocab-size", type=int, default=shape.vocab_size)
    parser.add_argument("--hidden-size", type=int, default=shape.hidden_size)
    parser.add_argument("--layers", type=int, default=shape.num_hidden_layers)
    parser.add_argument("--intermediate-size", type=int, default=shape.intermediate_size)
    parser.add_argument("--feature-map", default=shape.feature_map)
    parser.add_argument("--decay", type=float, nargs="+", default=shape.decay,
                        help="one per head; their number is the number of heads")
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--length", type=int, default=512, help="tokens of a window")
    parser.add_argument("--learning-rate", type=float, default=4e-3)
    parser.add_argument("--warmup-steps", type=int, default=60)
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--other-share", type=float, default=0.5,
                        help="share of other prose at the start; falls to 0 linearly")
    parser.add_argument("--other-until", type=float, default=0.6,
                        help="the part of the run after which there are stories alone")
    parser.add_argument("--average-decay", type=float, default=0.98)
    parser.add_argument("--evaluate-every", type=int, default=100)
    parser.add_argument("--evaluate-records", type=int, default=256)
    return parser.parse_args()


def learning_rate(step: int, args: argparse.Namespace) -> float:
    """Linear warm-up, then linear to zero."""
    rise = (step + 1) / args.warmup_steps
    fall = (args.steps - step) / (args.steps - args.warmup_steps)
    return args.learning_rate * min(rise, fall)


def training_step(model: LanguageModel, optimizers: list[torch.optim.Optimizer],
                  inputs: torch.Tensor, targets: torch.Tensor, rate: float) -> float:
    """One update; returns the loss in nats per token."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(inputs)
    loss = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return loss.item()


@torch.no_grad()
def update_average(average: LanguageModel, model: LanguageModel, decay: float) -> None:
    for mean, value in zip(average.parameters(), model.parameters()):
        mean.lerp_(value, 1 - decay)


def main() -> None:
    args = parse_arguments()
    torch.manual_seed(args.seed)
    torch.set_num_threads(2)

    stories = read_records(args.corpus / "tinystories-train.txt")
    valid = read_records(args.corpus / "tinystories-valid.txt")
    tokenizer = Tokenizer.train(stories, args.vocab_size)
    stream = Stream(stories, tokenizer, args.length, args.seed)
    other = None
    if args.other_share > 0:
        prose = [text for name in OTHER_PROSE for text in read_records(args.corpus / name)]
        other = Stream(prose, tokenizer, args.length, args.seed + 1)
    mixture = Mixture(stream, other, args.seed + 2)

    config = Config(vocab_size=tokenizer.vocab_size, hidden_size=args.hidden_size,
                    num_hidden_layers=args.layers, num_heads=len(args.decay),
                    intermediate_size=args.intermediate_size, feature_map=args.feature_map,
                    decay=tuple(args.decay))
    model = LanguageModel(config, args.dropout)
    average = copy.deepcopy(model)
    optimizers = make_optimizers(model, args.weight_decay)
    print(vars(args))
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, "
          f"{stream.tokens_per_epoch:,} story tokens", flush=True)

    best, running, begin = math.inf, 0.0, time.time()
    for step in range(args.steps):
        share = args.other_share * max(0.0, 1 - step / (args.steps * args.other_until))
        inputs, targets = mixture.batch(args.batch_size, share)
        loss = training_step(model, optimizers, inputs, targets, learning_rate(step, args))
        running = loss if step == 0 else 0.95 * running + 0.05 * loss
        update_average(average, model, min(args.average_decay, step / (step + 10)))
        last = step + 1 == args.steps
        if last or (step + 1) % args.evaluate_every == 0:
            records = valid if last else valid[:: max(1, len(valid) // args.evaluate_records)]
            bits = bits_per_byte(average, tokenizer, records)
            seconds = time.time() - begin
            speed = (step + 1) * args.batch_size * args.length / seconds
            print(f"step {step + 1:5} loss {running:.3f} bpb {bits:.4f} {seconds:6.0f} s "
                  f"{speed:,.0f} tokens/s", flush=True)
            if bits < best or last:
                best = min(best, bits)
                save_model(args.out, average, tokenizer, args.length)


if __name__ == "__main__":
    main()
