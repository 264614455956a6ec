"""``python -m tests.verify.compare_memory TYPE… [--attention sdpa] [--recipe bf16]``: what autograd saves, and ours.

For random small configs of each type, as a language model or as the class of ``TYPE:CLASS``, it prints one line with
both totals and the error; with ``--modules`` module by module. Without types, all that are known. ``--write FILE`` runs
eager attention in fp32 and PyTorch's in bf16, and appends the worse error of each class that runs.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.verify.saved import Measured, several
from tfcalc import InvalidModel, Workload
from tfcalc.backends.program import program
from tfcalc.configs.config import model_types
from tfcalc.configs.published import HFModel
from tfcalc.tape.interpreter import Numerics
from tfcalc.verify.step import language_model
from tfcalc.workload import EITHER

FORMATS = {
    "fp32": Numerics("float32", traced=True),
    "bf16": Numerics("bfloat16", traced=True),
    "autocast": Numerics("float32", autocast="bfloat16", traced=True),
}
CASES = (("eager", "fp32"), ("sdpa", "bf16"))


class Counted(NamedTuple):
    """Bytes kept for backward as tfcalc has them: in all, by module, and where each kind of layer runs only once."""

    total: int
    by_module: Counter[str]
    once: int


def counted(one: Measured, attention: str, recipe: str, *, dropout: bool = True) -> Counted:
    """The same step on the tape. Raises InvalidModel."""
    chosen = next((name for name in ("flash", "efficient", "math") if name in one.kernels), "math")
    chosen = EITHER if chosen == "efficient" else chosen
    kernel = "eager" if attention == "eager" else chosen  # where a mask keeps flash from running, ours knows
    model = HFModel(one.config)
    run = Workload(
        phase="train",
        batch_size=one.batch,
        seq_len=one.target or one.seq,
        source_len=one.seq if one.target else None,
        kernel=kernel,
        dropout=dropout,
    )
    tree = model.tree(run)
    whole, once = (program(model, run, FORMATS[recipe], "auto", every_layer=every) for every in (True, False))
    for each in (whole, once):
        each.run_experts_by("batched_mm")  # as the referee runs them: the other kind needs data
    loss = whole(tree)
    by_module: Counter[str] = Counter()
    for kept in whole.tape.kept.values():
        by_module[kept.keeper] += kept.storage.bytes
    total = whole.tape.tracker.saved
    del loss
    once(tree)
    sizes = [kept.copies * kept.storage.size for kept in once.tape.kept.values()]
    return Counted(total, by_module, int(sum(sizes)))  # type: ignore[arg-type]  # ints


def built(name: str) -> tuple[str, str]:
    """The type, and the class that is built of it: ``bert:BertModel``; of ``bert`` alone the language model."""
    model_type, _, architecture = name.partition(":")
    return model_type, architecture or language_model(model_type)


def worst(name: str, attention: str, recipe: str, draws: int, *, by_module: bool = False) -> float | None:
    """The largest error of several draws, printed one by one; None where nothing runs, there or here.

    A model that looks at its data runs with some, by eager attention alone.
    """
    found = errors(name, attention, recipe, draws, by_module=by_module)
    if not found and attention == "eager":
        found = errors(name, attention, recipe, draws, by_module=by_module, data=True)
    return max(found, key=abs, default=None)


def errors(
    name: str,
    attention: str,
    recipe: str,
    draws: int,
    *,
    first: int = 0,
    by_module: bool = False,
    data: bool = False,
) -> list[float]:
    """The error of each draw that runs."""
    found: list[float] = []
    model_type, architecture = built(name)
    asked = {"architecture": architecture, "attention": attention, "recipe": recipe, "data": data}
    for one in several(model_type, draws, first, **asked):
        if isinstance(one, str):
            last = one
            continue
        try:
            ours = counted(one, attention, recipe)
        except InvalidModel as error:
            print(f"{name}: REFUSED {error}", flush=True)
            return []
        except Exception as error:
            print(f"{name}: BROKEN {type(error).__name__}: {str(error)[:100]}", flush=True)
            return []
        off = ours.total / one.total - 1
        found.append(off if ours.once == ours.total else float("inf"))
        print(f"{name}: {one.total} {ours.total} {off:+.4%} once {ours.once - ours.total:+d}", flush=True)
        if by_module:
            for which, sizes in (("theirs", one.by_module), ("ours", ours.by_module)):
                for module, size in sizes.items():
                    print(f"    {which} {module}: {size}")
    if not found:
        print(f"{name}: DOES NOT RUN {last}", flush=True)
    return found


def main(arguments: list[str]) -> int:
    """Compare each type; 1 if one differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.verify.compare_memory", description=__doc__)
    parser.add_argument("types", nargs="*")
    parser.add_argument("--attention", default="eager", choices=["eager", "sdpa"])
    parser.add_argument("--recipe", default="fp32", choices=[*FORMATS])
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--modules", action="store_true")
    parser.add_argument("--write", type=Path)
    given = parser.parse_args(arguments)
    types = given.types or model_types()
    if given.write:
        _write(types, given.write, given.draws)
        return 0
    found = [worst(name, given.attention, given.recipe, given.draws, by_module=given.modules) for name in types]
    return int(any(found) or None in found)


def _write(types: list[str], path: Path, draws: int) -> None:
    with path.open("a", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        for name in types:
            found = [worst(name, attention, recipe, draws) for attention, recipe in CASES]
            ran = [error for error in found if error is not None]
            if ran:
                error = max(ran, key=abs)
                out.writerow([*built(name), f"{error:.4f}" if not error or abs(error) >= 5e-5 else f"{error:.1e}"])
                file.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
