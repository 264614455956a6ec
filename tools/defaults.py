"""families.jsonl, the index of the families and what transformers declares: ``python -m tools.defaults [--write]``.

For every model type that a module of ``zoo/`` registers, or that it reads nested in another, the fields that are
read, with their other names and defaults in transformers' config class: what a class makes of other fields
(``__post_init__``) is the family's to know. Which fields are read is seen by building the model with every head, at its
defaults and at random configs, and the presets. Then the class that transformers' Auto classes make, if the family has
that head. Without ``--write`` it says whether the file is fresh. Both need transformers; where it is not installed
``--write`` adds the model types that are ``like`` another.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from tests.verify.random_configs import load as spaces
from tfcalc.catalog import names as presets
from tfcalc.catalog import preset
from tfcalc.configs import config as configs_config
from tfcalc.configs import family
from tfcalc.configs.config import FILE, Config
from tfcalc.configs.family import FAMILIES, Family
from tfcalc.configs.published import HFModel
from tfcalc.errors import TfcalcError
from tfcalc.workload import Workload

FOLDER = Path(family.__file__).parents[1] / "zoo"
DRAWS = 20
AUTO = (
    "FOR_SEQ_TO_SEQ_CAUSAL_LM_",
    "FOR_SPEECH_SEQ_2_SEQ_",
    "FOR_CAUSAL_LM_",
    "FOR_IMAGE_TEXT_TO_TEXT_",
    "FOR_MASKED_LM_",
    "FOR_IMAGE_CLASSIFICATION_",
    "FOR_PRETRAINING_",
    "",
)
"""The Auto classes, in the order in which they are asked; the last is AutoModel."""
RUNS = (Workload(), Workload(attention="causal"), Workload(phase="train"), Workload(phase="decode"))


def registered() -> dict[str, str]:
    """All model types that the modules of zoo/ register, with the module of each."""
    for path in sorted(FOLDER.glob("*.py")):
        import_module(f"tfcalc.zoo.{path.stem}")
    modules = {name: one.base.__module__.rpartition(".") for name, one in sorted(FAMILIES.items())}
    return {name: module for name, (package, _, module) in modules.items() if package == "tfcalc.zoo"}


@cache
def everything(model_type: str) -> Mapping[str, Any]:
    """All that transformers' config class declares, under every name that a family may ask by.

    But for objects (a type that allows a dict): nested configs have classes of their own.
    """
    from transformers import CONFIG_MAPPING

    if model_type not in CONFIG_MAPPING:
        return {}
    kind = CONFIG_MAPPING[model_type]
    fields = {one.name: _default(one) for one in dataclasses.fields(kind) if "dict" not in str(one.type)}
    constants = {name: value for name, value in vars(kind).items() if isinstance(value, int | str)}
    own = constants | fields
    pairs = (
        *aliases(model_type).items(),
        *(FAMILIES[model_type].own_aliases if model_type in FAMILIES else {}).items(),
    )
    return {other: own[name] for pair in pairs for other, name in (pair, pair[::-1]) if name in own} | own


def aliases(model_type: str) -> Mapping[str, str]:
    """Other names of fields, as transformers' config class declares them."""
    from transformers import CONFIG_MAPPING

    return CONFIG_MAPPING[model_type].attribute_map if model_type in CONFIG_MAPPING else {}


def architecture(model_type: str) -> str:
    """What the first of the Auto classes makes that knows the model type, and for whose head the family has one."""
    from transformers.models.auto import modeling_auto

    heads = tuple(FAMILIES[model_type].heads) if model_type in FAMILIES else ()
    for kind in AUTO:
        made = getattr(modeling_auto, f"MODEL_{kind}MAPPING_NAMES").get(model_type, ())
        if fits := [name for name in ([made] if isinstance(made, str) else made) if name.endswith(heads)]:
            return fits[0]
    return ""


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default


def asked() -> Mapping[str, set[str]]:
    """The fields that each family reads of its config, where all are there that transformers declares."""
    names: dict[str, set[str]] = defaultdict(set)
    look_up = Config._look_up

    def all_of(model_type: str) -> Mapping[str, Any]:
        made = architecture(model_type)
        return {"architecture": made, "aliases": aliases(model_type), "defaults": everything(model_type)}

    def watched(config: Config, name: str) -> Any:
        names[config.model_type].add(name)
        return look_up(config, name)

    with mock.patch.object(Config, "_look_up", watched), mock.patch.object(configs_config, "_line", all_of):
        for config in examples():
            model = HFModel(config)
            for run in RUNS:
                with suppress(TfcalcError):  # some have no defaults that fit a model, and some do not generate
                    model.tree(run)
    return names


def examples() -> Iterator[dict[str, Any]]:
    """Configs of every model type: with each of its heads, random ones, and the presets."""
    drawn = spaces()
    for model_type in registered():
        for head in _classes(FAMILIES[model_type]):
            yield {"model_type": model_type, "architectures": [head]}
        if draw := drawn.get(model_type):
            random = Random(model_type)
            yield from ({"model_type": model_type, **draw(random)} for _ in range(DRAWS))
    yield from (config for name in presets() if (config := preset(name).config))


def _classes(one: Family) -> Iterator[str]:
    """The names of its classes, one for each head."""
    stem = one.architecture.removesuffix(one.head_of(one.architecture))
    return (stem + head for head in one.heads)


def written() -> str:
    """The file as it should be."""
    names = asked()
    return "".join(f"{json.dumps(line)}\n" for line in _lines(names))


def _lines(names: Mapping[str, set[str]]) -> Iterator[dict[str, Any]]:
    modules = registered()
    for model_type in sorted({*modules, *names}):
        asked, other = names[model_type], aliases(model_type)
        pairs = {one: name for one, name in other.items() if asked & {one, name}}
        twice = {one for one, name in pairs.items() if name in asked}
        read = {name: value for name, value in everything(model_type).items() if name in asked - twice}
        made = architecture(model_type) if model_type in modules else ""
        facts = {"module": modules.get(model_type), "architecture": made, "aliases": pairs}
        known = {name: fact for name, fact in facts.items() if fact}
        if known or read:
            yield {"model_type": model_type, **known, "defaults": read}


def _with_types_like_others() -> tuple[str, list[str]]:
    """The file as it is, with the model types that it lacks and that are ``like`` another; and those that are not.

    Transformers declares nothing of them, so that it need not be asked.
    """
    lines = {json.loads(line)["model_type"]: line for line in FILE.read_text(encoding="utf-8").splitlines()}
    missing = {name: module for name, module in registered().items() if name not in lines}
    for name, module in missing.items():
        if FAMILIES[name].like:
            lines[name] = json.dumps({"model_type": name, "module": module, "defaults": {}})
    return "".join(f"{lines[name]}\n" for name in sorted(lines)), [name for name in missing if name not in lines]


def main(arguments: list[str]) -> int:
    """Write the file, or say whether it is as it should be; 1 where it is not, and 2 where nothing can be said."""
    if find_spec("transformers") is None:
        made, others = _with_types_like_others()
        if "--write" not in arguments or others:
            for name in others:
                print(f"{name} is like no other type, and has no line: say like=… where transformers lacks it")
            print("transformers is not installed: pip install transformers")
            return 2
        FILE.write_text(made, encoding="utf-8")
        print("model types that are like another are in it; of the others transformers is not here to be asked")
        return 0
    if "--write" in arguments:
        FILE.write_text(written(), encoding="utf-8")
        return 0
    if FILE.read_text(encoding="utf-8") == written():
        return 0
    print(f"{FILE.name} is not what transformers declares; run python -m tools.defaults --write")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
