"""models/index.jsonl, what a list of the presets says of each: ``python -m tools.presets [--write]``.

Their sizes are counted here, so that ``tfcalc models`` builds none of them. Without ``--write`` it says whether the
file is fresh, as a test does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from tfcalc.answers.params import params
from tfcalc.catalog import FOLDER, INDEX, ListedPreset, preset
from tfcalc.serving.quantization_config import stated_format


def listed() -> Iterator[ListedPreset]:
    """All presets as their files are, in alphabetical order."""
    for name in sorted(path.stem for path in FOLDER.glob("*.json")):
        one = preset(name)
        model = one.model()
        longest = model.longest if isinstance(model.longest, int) else None
        yield ListedPreset(name, one.family, params(model).total_params, longest, _format(model), one.repository)


def _format(model: object) -> str:
    """How the checkpoint stores the weights, without the sizes of groups: ``bf16``, ``fp8``, ``int4``."""
    recipe = stated_format(model)
    name = recipe.format.name.partition("-")[0] if recipe else "fp32"
    return "int4" if name == "int" else name


def text() -> str:
    """The file as it should be."""
    return "".join(json.dumps(one._asdict()) + "\n" for one in listed())


def main(arguments: list[str]) -> int:
    """Compare or write."""
    fresh = INDEX.exists() and text() == INDEX.read_text(encoding="utf-8")
    if "--write" in arguments:
        INDEX.write_text(text(), encoding="utf-8")
    elif not fresh:
        print(f"{INDEX.name} is not what the presets are: run python -m tools.presets --write")
    return 0 if fresh or "--write" in arguments else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
