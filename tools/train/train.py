"""Trains the default model from the corpus. The defaults are what the shipped model used.

    python3 tools/train/train.py --corpus PATH --seed 1 --out models/tinystories-linear

The directory at --out always holds the best averaged weights so far, by bits per byte on
the validation stories.
"""

from __future__ import annotations

import argparse
import copy
import functools
import math
import pathlib
import time
from concurrent import futures

import torch
import torch.nn.functional as F

from data import Stream, read_records
from evaluate import bits_per_byte
from model import Config, LanguageModel, seed_dropout
from optimizer import make_optimizers
from store import save_model
from tokenizer import Tokenizer

Batch = tuple[torch.Tensor, torch.Tensor]  # inputs and targets, each [size, length]


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
    parser.add_argument("--steps", type=int, default=3956)
    parser.add_argument("--minutes", type=float, default=math.inf,
                        help="end in about this time: lowers --steps, as printed, when it must")
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--length", type=int, default=512, help="tokens of a window")
    parser.add_argument("--learning-rate", type=float, default=4e-3)
    parser.add_argument("--warmup-steps", type=int, default=100)
    parser.add_argument("--cooldown", type=float, default=0.4,
                        help="the last part of the run, in which the rate falls to 0 linearly")
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--average-decay", type=float, default=0.98)
    parser.add_argument("--evaluate-every", type=int, default=200)
    parser.add_argument("--evaluate-records", type=int, default=128)
    return parser.parse_args()


def learning_rate(step: int, args: argparse.Namespace) -> float:
    """Linear warm-up, constant, linear to zero.

    The constant part is what lets --minutes choose the end of a run while it is under way.
    """
    rise = (step + 1) / args.warmup_steps
    fall = (args.steps - step) / (args.steps * args.cooldown)
    return args.learning_rate * min(1.0, rise, fall)


class Deadline:
    """Lowers args.steps so that a run on a busy machine ends in time."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._last = self._begin = time.time()
        self._step_seconds = 0.0

    def before(self, step: int) -> None:
        """To be called before each step; does nothing once the cool-down has begun."""
        args, now = self._args, time.time()
        taken, self._last = now - self._last, now
        self._step_seconds += (taken - self._step_seconds) / min(step + 1, 200)
        if step < args.warmup_steps or step >= args.steps * (1 - args.cooldown):
            return
        left = args.minutes * 60 - (now - self._begin)
        affordable = step + left / self._step_seconds
        if affordable < args.steps and step >= affordable * (1 - args.cooldown):
            args.steps = int(affordable)
            print(f"step {step}: cooling down, --steps {args.steps}", flush=True)


def gradients(model: LanguageModel, batch: Batch,
              seed: tuple[int, ...]) -> tuple[float, tuple[torch.Tensor, ...]]:
    """The loss in nats per token, and its gradient for each parameter."""
    seed_dropout(*seed)
    inputs, targets = batch
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(inputs)
    loss = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())
    return loss.item(), torch.autograd.grad(loss, list(model.parameters()))


def training_step(model: LanguageModel, optimizers: list[torch.optim.Optimizer],
                  batches: list[Batch], rate: float, seed: tuple[int, ...],
                  pool: futures.Executor) -> float:
    """One update from the mean over `batches`, one thread each; returns the mean loss.

    Threads that meet once a step lose less to other programs than threads that meet in
    every operation, and the sums stay in one order, so that a run can be repeated.
    """
    seeds = [(*seed, i) for i in range(len(batches))]
    losses, parts = zip(*pool.map(functools.partial(gradients, model), batches, seeds))
    for parameter, *grads in zip(model.parameters(), *parts):
        parameter.grad = sum(grads) / len(grads)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
    return sum(losses) / len(losses)


@torch.no_grad()
def update_average(average: LanguageModel, model: LanguageModel, decay: float) -> None:
    for mean, value in zip(average.parameters(), model.parameters()):
        mean.lerp_(value, 1 - decay)


def main() -> None:
    args = parse_arguments()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    pool = futures.ThreadPoolExecutor(args.threads, initializer=torch.set_num_threads,
                                      initargs=(1,))

    stories = read_records(args.corpus / "tinystories-train.txt")
    valid = read_records(args.corpus / "tinystories-valid.txt")
    valid = valid[:: max(1, len(valid) // args.evaluate_records)]
    tokenizer = Tokenizer.train(stories, args.vocab_size)
    stream = Stream(stories, tokenizer, args.length, args.seed)

    config = Config(vocab_size=tokenizer.vocab_size, hidden_size=args.hidden_size,
                    num_hidden_layers=args.layers, num_heads=len(args.decay),
                    intermediate_size=args.intermediate_size, feature_map=args.feature_map,
                    decay=tuple(args.decay))
    model = LanguageModel(config, args.dropout)
    average = copy.deepcopy(model).eval()
    optimizers = make_optimizers(model, args.weight_decay)
    print(vars(args))
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, "
          f"{stream.tokens_per_epoch:,} story tokens", flush=True)

    deadline = Deadline(args)
    best, running, begin, step = math.inf, 0.0, time.time(), 0
    while step < args.steps:
        deadline.before(step)
        batches = [stream.batch(args.batch_size // args.threads) for _ in range(args.threads)]
        loss = training_step(model, optimizers, batches, learning_rate(step, args),
                             (args.seed, step), pool)
        running = loss if step == 0 else 0.95 * running + 0.05 * loss
        update_average(average, model, min(args.average_decay, step / (step + 10)))
        step += 1
        if step == args.steps or step % args.evaluate_every == 0:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                bits = bits_per_byte(average, tokenizer, valid)
            seconds = time.time() - begin
            speed = step * args.batch_size * args.length / seconds
            print(f"step {step:5} loss {running:.3f} bpb {bits:.4f} {seconds:6.0f} s "
                  f"{speed:,.0f} tokens/s", flush=True)
            if bits < best:
                best = bits
                save_model(args.out, average, tokenizer, args.length)


if __name__ == "__main__":
    main()
