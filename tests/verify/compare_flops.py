"""``python -m tests.verify.compare_flops llama qwen2``: FLOPs of types at random small configs, by PyTorch's counter.

Forward and backward of a training step; with ``--recompute`` also with every layer checkpointed, of both kinds, with
``--decode`` also one token after a cache. It prints what differs; the same comparison is a test
(test_flops_against_transformers.py).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator, Mapping
from random import Random
from types import SimpleNamespace
from typing import Any

from tests.verify.compare import configs
from tfcalc.configs.published import HFModel
from tfcalc.errors import TfcalcError, Unavailable
from tfcalc.verify.flops import CountedFlops, ours, theirs
from tfcalc.workload import Workload

DRAWS = 6


READERS = ("EncoderModel", "Classification", "QuestionAnswering")
"""What classes are called that write nothing."""


def workloads(model: HFModel, random: Random, more: Collection[str] = ()) -> Iterator[Workload]:
    """A training step on a random small batch; ``more`` are ``decode`` and ``recompute``."""
    most = model.longest if isinstance(model.longest, int) else 40
    length, source = random.randint(5, min(most, 40)), random.randint(5, min(most, 40))
    if "audio_config" in model.data:
        length += 40  # room for the words that stand for sound
        length += 45 if "vision_config" in model.data else 0  # and for an image
    if model.architecture.endswith("ForSequenceClassification"):
        source = length  # classified is the vector at the place of the source's last word
    batch = random.randint(1, 4)
    run = Workload(batch_size=batch, seq_len=length, phase="train", convolutions="counter", kernel="eager")
    run = run.replaced(source_len=_whole(source, model.data)) if _has_two_stacks(model) else run
    yield run
    if "decode" in more and not any(kind in model.architecture for kind in READERS):
        yield run.replaced(phase="decode", cached=length)
    if "recompute" in more:
        for dropout in (True, False):
            for stops in (True, False):
                yield run.replaced(recompute="full", early_stop=stops, dropout=dropout)


def _whole(source: int, config: Mapping[str, Any]) -> int:
    """A source that an image can be, where it is one: of whole columns of patches that are merged."""
    vision = config.get("vision_config") or config
    if "patch_size" not in vision:
        return source
    from tfcalc.verify.images import fewest  # it imports torch

    column = fewest(SimpleNamespace(**vision))
    return column * -(-source // column)


def _has_two_stacks(model: HFModel) -> bool:
    forward = model.tree(Workload(source_len=7))
    return forward != model.tree(Workload(source_len=11))


def differences(
    config: dict[str, Any], more: Collection[str] = ()
) -> Iterator[tuple[Workload, CountedFlops, CountedFlops]]:
    """Workloads on which the counts differ: tfcalc's and PyTorch's."""
    model = HFModel(config)
    for run in workloads(model, Random(json.dumps(config)), more):
        counted, reference = ours(model, run), theirs(model, run)
        if counted != reference:
            yield run, counted, reference


def _line(config: dict[str, Any], run: Workload, counted: CountedFlops, reference: CountedFlops) -> str:
    forward, backward = counted.forward - reference.forward, counted.backward - reference.backward
    return f"  {run}: forward off by {forward:+}, backward by {backward:+}: {counted} {reference} {json.dumps(config)}"


def main(arguments: list[str]) -> int:
    """Print every difference; 1 if there is any."""
    more = [argument.removeprefix("--") for argument in arguments if argument.startswith("-")]
    wrong = 0
    for model_type in (argument for argument in arguments if not argument.startswith("-")):
        compared = 0
        said: list[str] = []
        for config in configs(model_type, DRAWS)[1:]:
            try:
                found = list(differences(config, more))
                compared += 1
            except Unavailable as error:
                said.append(f"  UNAVAILABLE {error} {json.dumps(config)}")
                continue
            except TfcalcError as error:
                said.append(f"  {error} {json.dumps(config)}")
                continue
            said += [_line(config, *one) for one in found]
        wrong += bool(said)
        print(f"{model_type}: {compared} configs compared, {'equal' if not said else f'{len(said)} remarks'}")
        for line in said[:3]:
            print(line[:1500])
    return 1 if wrong else 0


if __name__ == "__main__":
    from tests.verify.random_configs import load

    asked = sys.argv[1:]
    types = [argument for argument in asked if not argument.startswith("-")] or sorted(load())
    sys.exit(main([*types, *(argument for argument in asked if argument.startswith("-"))]))
