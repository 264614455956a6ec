"""``python -m tests.verify.saved llama gpt2 --attention sdpa --recipe bf16``: what autograd keeps, module by module.

Random small configs of each type run forward on tensors without data (``--draws 3``, ``--dropout off``, ``--recompute
reentrant``); it prints the bytes per module.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, NamedTuple

from tests.verify.compare import configs
from tests.verify.peaks import peaks
from tfcalc.verify.saved import Saved, saved
from tfcalc.verify.step import RECIPES, language_model, loss_of, step, without_data

MOST_DRAWS = 12
"""Random configs that are tried, until enough of them run."""


class Measured(NamedTuple):
    """Bytes kept for backward, by module, with all that is needed to count them again.

    With recomputation ``by_module`` is empty and the total is the tracker's, without the loss itself.
    """

    by_module: dict[str, int]
    total: int
    config: dict[str, Any]
    batch: int
    seq: int
    target: int | None
    kernels: dict[str, int]


def measured(
    model: str | Mapping[str, Any],
    seed: int = 0,
    *,
    architecture: str = "",
    attention: str = "eager",
    recipe: str = "fp32",
    recompute: str | None = None,
    dropout: bool = True,
    kernel: str = "auto",
    as_recorded: bool = False,
    data: bool = False,
) -> Measured:
    """One training step of a config, or of random config number ``seed`` of a type, on a random small batch.

    The class is the ``architecture``, or a language model; ``data`` runs it on real CPU tensors (models that look at
    their data; eager attention alone).
    """
    config = dict(model) if isinstance(model, Mapping) else _random_config(model, seed, architecture)
    random = Random(json.dumps(config) + str(seed))
    batch, seq, target = random.randint(2, 3), random.randint(9, 31) | 1, random.randint(5, 20) | 1
    asked = {"batch": batch, "seq": seq, "target": target, "attention": attention, "recipe": recipe}
    if data:
        return run_step(config, asked, recompute, dropout, kernel, as_recorded)
    with without_data():
        return run_step(config, asked, recompute, dropout, kernel, as_recorded)


def run_step(
    config: dict[str, Any],
    asked: dict[str, Any],
    recompute: str | None = None,
    dropout: bool = True,
    kernel: str = "auto",
    as_recorded: bool = False,
) -> Measured:
    """One step of this config as it is ``asked`` for."""
    model, inputs = step(config, **asked, recompute=recompute, dropout=dropout)
    target = asked["target"] if "decoder_input_ids" in inputs else None
    how: dict[str, Any] = {"recipe": asked["recipe"], "kernel": kernel, "as_recorded": as_recorded}
    if recompute:
        found = peaks(model, inputs, optimizer="none", **how)
        end = found.phases["fwd_end"]["Activation"] - found.loss_bytes
        kept = Saved({}, end, found.kernels)
    else:
        kept = saved(model, inputs, loss=loss_of(model), **how)
    del model
    gc.collect()
    config = {key: value for key, value in config.items() if key != "_experts_implementation"}
    seq = patches(inputs) or asked["seq"]
    return Measured(kept.by_module, kept.total, config, asked["batch"], seq, target, kept.kernels)


def patches(inputs: Mapping[str, Any]) -> int:
    """Those of each image, where a tower has been given images of any size; else 0."""
    if "pixel_position_ids" in inputs:
        return int(inputs["pixel_values"].shape[1])
    return int(inputs["grid_thw"][0].prod()) if "grid_thw" in inputs else 0


def _random_config(model_type: str, seed: int, architecture: str) -> dict[str, Any]:
    """The draw with this number, as the class that is asked for, or as a language model."""
    drawn = configs(model_type, seed + 1)[seed + 1]
    return drawn | {"architectures": [architecture or language_model(model_type)]}


def several(model_type: str, draws: int, first: int = 0, **asked: Any) -> Iterator[Measured | str]:
    """That many draws that run, from the ``first`` on, or why one does not."""
    ran = 0
    for seed in range(first, first + MOST_DRAWS):
        if ran == draws:
            return
        try:
            yield measured(model_type, seed, **asked)
            ran += 1
        except Exception as error:
            yield f"seed {seed}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"


def main(arguments: list[str]) -> int:
    """Print the bytes of each type; 1 if one did not run at all."""
    parser = argparse.ArgumentParser(prog="python -m tests.verify.saved", description=__doc__)
    parser.add_argument("types", nargs="+")
    parser.add_argument("--attention", default="eager", choices=["eager", "sdpa"])
    parser.add_argument("--kernel", default="auto", choices=["auto", "flash", "efficient", "math"])
    parser.add_argument("--recipe", default="fp32", choices=[*RECIPES])
    parser.add_argument("--recompute", choices=["reentrant", "nonreentrant"])
    parser.add_argument("--dropout", default="on", choices=["on", "off"])
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--data", action="store_true", help="real CPU tensors")
    given = vars(parser.parse_args(arguments))
    given["dropout"] = given["dropout"] == "on"
    silent = 0
    for model_type in given.pop("types"):
        results = list(several(model_type, **given))
        silent += not any(isinstance(one, Measured) for one in results)
        for one in results:
            print(f"{model_type}: {one}" if isinstance(one, str) else _said(one))
    return 1 if silent else 0


def _said(one: Measured) -> str:
    head = f"{json.dumps(one.config)} batch {one.batch} seq {one.seq} target {one.target} {one.kernels}"
    return "\n".join([head, *(f"  {name}: {size}" for name, size in one.by_module.items()), f"  total: {one.total}"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
