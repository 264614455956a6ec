"""``python -m tests.verify.compare_memory TYPE… [--attention sdpa] [--recipe bf16]``: what autograd keeps, and ours.

For random small configs of each type it prints one line with both totals and the error; with ``--modules`` module by
module. Without types, all that are known.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from typing import NamedTuple

from tests.verify.saved import Measured, several
from tfcalc import InvalidModel, Workload
from tfcalc.configs.family import modules
from tfcalc.configs.published import Published
from tfcalc.implementations.programs import program
from tfcalc.tape.operations import Numerics

FORMATS = {
    "fp32": Numerics("float32", traced=True),
    "bf16": Numerics("bfloat16", traced=True),
    "autocast": Numerics("float32", autocast="bfloat16", traced=True),
}


class Counted(NamedTuple):
    """Bytes kept for backward as tfcalc has them: in all, by module, and where each kind of layer runs only once."""

    total: int
    by_module: Counter[str]
    once: int


def counted(one: Measured, attention: str, recipe: str, *, dropout: bool = True) -> Counted:
    """The same step on the tape. Raises InvalidModel."""
    kernel = "eager" if attention == "eager" else next(iter(set(one.kernels) & {"flash", "efficient", "math"}), "math")
    model = Published(one.config)
    run = Workload(
        phase="train",
        batch_size=one.batch,
        seq_len=one.target or one.seq,
        source_len=one.seq if one.target else None,
        kernel=kernel,
        dropout=dropout,
    )
    whole = program(model, run, FORMATS[recipe], "transformers")
    loss = whole(model.tree(run))
    by_module: Counter[str] = Counter()
    for kept in whole.tape.kept.values():
        by_module[kept.path] += int(kept.storage.bytes)
    total = whole.tape.ledger.saved
    del loss
    once = program(model, run, FORMATS[recipe], "transformers", every_layer=False)
    once(model.tree(run))
    sizes = [kept.copies * kept.storage.size for kept in once.tape.kept.values()]
    return Counted(total, by_module, int(sum(sizes)))  # type: ignore[arg-type]  # ints


def main(arguments: list[str]) -> int:
    """Compare each type; 1 if one differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.verify.compare_memory", description=__doc__)
    parser.add_argument("types", nargs="*")
    parser.add_argument("--attention", default="eager", choices=["eager", "sdpa"])
    parser.add_argument("--recipe", default="fp32", choices=[*FORMATS])
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--modules", action="store_true")
    given = parser.parse_args(arguments)
    differ = 0
    for model_type in given.types or sorted(name for names in modules().values() for name in names):
        differ += not _compared(model_type, given)
    return 1 if differ else 0


def _compared(model_type: str, given: argparse.Namespace) -> bool:
    equal, ran = True, False
    for one in several(model_type, given.draws, attention=given.attention, recipe=given.recipe):
        if isinstance(one, str):
            last = one
            continue
        ran = True
        try:
            ours = counted(one, given.attention, given.recipe)
        except InvalidModel as error:
            print(f"{model_type}: REFUSED {error}")
            return False
        except Exception as error:
            print(f"{model_type}: BROKEN {type(error).__name__}: {str(error)[:100]}")
            return False
        off = ours.total / one.total - 1
        equal &= ours.total == one.total == ours.once
        print(f"{model_type}: {one.total} {ours.total} {off:+.4%} once {ours.once - ours.total:+d}", flush=True)
        if given.modules:
            for name, size in one.by_module.items():
                print(f"    theirs {name}: {size}")
            for name, size in ours.by_module.items():
                print(f"    ours {name}: {size}")
    if not ran:
        print(f"{model_type}: DOES NOT RUN {last}")
    return equal and ran


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
