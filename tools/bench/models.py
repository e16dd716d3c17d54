"""Model directories of random weights, made once and kept."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import pathlib
import shutil

import programs


@dataclasses.dataclass(frozen=True)
class Model:
    """A model that is made by `fermata models make`, or lies in the source tree."""

    name: str
    family: str = ""
    size: str = "0.1b"
    shape: tuple[str, ...] = ()  # Flags that change the size's.
    path: pathlib.Path | None = None  # Of one that is there.


RWKV7 = Model("rwkv7-0.1b", "rwkv7")
RWKV7_LARGE = Model("rwkv7-0.4b", "rwkv7", "0.4b")
RWKV7_LARGEST = Model("rwkv7-1.5b", "rwkv7", "1.5b")
RETNET = Model("retnet-0.1b", "retnet")
LINEAR = Model("linear_attn-0.1b", "linear_attn")
SOFTMAX = Model("transformer-0.1b", "transformer")

# So small that ten thousand sessions and hundreds of requests a second fit.
SMALL = Model("rwkv7-small", "rwkv7", shape=(
    "--layers=2", "--hidden-size=64", "--vocab-size=512"))


def tiny(family: str) -> Model:
    """For --quick: large enough for matrices to be held in 8 bits, and no larger."""
    return Model(f"{family}-tiny", family, shape=(
        "--layers=2", "--hidden-size=256", "--vocab-size=2048"))


def embedded(source: pathlib.Path) -> Model:
    """The model that comes with the server."""
    path = source / "models" / "tinystories-linear"
    return Model(path.name, path=path)


class Directories:
    """Where models are; made when they are asked for first."""

    def __init__(self, root: pathlib.Path, binaries: programs.Programs) -> None:
        self._root = root
        self._programs = binaries

    def of(self, *models: Model) -> list[pathlib.Path]:
        """The directory of each, made side by side where they are not there."""
        # The largest first: they take longest.
        wanted = sorted(set(models), key=lambda model: model.size, reverse=True)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            made = dict(zip(wanted, pool.map(self._of, wanted)))
        return [made[model] for model in models]

    def _of(self, model: Model) -> pathlib.Path:
        if model.path is not None:
            return model.path
        directory = self._root / model.name
        if not directory.exists():
            self._root.mkdir(parents=True, exist_ok=True)
            unfinished = directory.with_name(f"{model.name}.unfinished")  # Names have dots.
            shutil.rmtree(unfinished, ignore_errors=True)
            self._programs.run(
                "fermata", "models", "make", str(unfinished), "--family", model.family,
                "--size", model.size, *model.shape)
            unfinished.rename(directory)
        return directory
