"""From what a person types to a model: a preset, a config.json, or an id of the Hub."""

from __future__ import annotations

import json
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tfcalc.errors import Unavailable, UnknownModel

if TYPE_CHECKING:
    from tfcalc.configs.published import Published
    from tfcalc.families.transformer import Transformer

FOLDER = Path(__file__).parent / "models"


class Preset(NamedTuple):
    """A published model: where its sizes are printed, and the sizes.

    ``fields`` are those of the classic :class:`~tfcalc.Transformer`, or else ``config`` those of a config.json.
    """

    name: str
    source: str
    fields: dict[str, Any]
    config: dict[str, Any]

    @property
    def family(self) -> str:
        """Its model_type; the classic Transformer has none."""
        return str(self.config.get("model_type", "transformer"))

    def model(self) -> Transformer | Published:
        """The model with these sizes."""
        if self.config:
            return from_config(self.config, name=self.name)
        from tfcalc.families.transformer import Transformer

        return Transformer(**self.fields)


def names() -> list[str]:
    """The names of all presets, in alphabetical order."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def spelled(name: str) -> str:
    """A name as the presets spell theirs: ``Llama 3_8B`` is ``llama-3-8b``."""
    return name.strip().lower().replace(" ", "-").replace("_", "-")


def preset(name: str) -> Preset:
    """The preset of this name. Raises UnknownModel with the nearest names where there is none.

    >>> preset("transformer-big").fields["d_model"]
    1024
    """
    if not _is_preset(name):
        raise UnknownModel(f"model {name[:80]!r} is not known", _hint(name))
    path = FOLDER / f"{spelled(name)}.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    return Preset(path.stem, data["source"], data.get("fields", {}), data.get("config", {}))


def load(name: str, *, treat_as: str = "", offline: bool = False) -> Transformer | Published:
    """The model that is meant: a preset's name; a config.json, a directory that holds one, ``-``; an id of the Hub.

    ``treat_as`` names the family to read a config by, whatever ``model_type`` it has. Nothing reaches out but for an
    id, and not for that when ``offline``. Raises UnknownModel, InvalidModel for a config that fits no model, and
    Unavailable for an id that cannot be had.

    >>> load("transformer-base").d_model
    512
    """
    if _is_preset(name):
        found = preset(name)
        return from_config(found.config, name=found.name, treat_as=treat_as) if treat_as else found.model()
    from tfcalc.reader import is_place

    return from_config(config_of(name, offline=offline), name="" if is_place(name) else name, treat_as=treat_as)


def config_of(name: str, *, offline: bool = False) -> dict[str, Any]:
    """The fields of the config.json that is meant, whether a family of ours knows it or not. Raises as :func:`load`."""
    from tfcalc.hub import fetch, is_id
    from tfcalc.reader import is_place, read

    if _is_preset(name) and (config := preset(name).config):
        return config
    if is_place(name):
        return read(name)
    if not is_id(name):
        raise UnknownModel(f"model {name[:80]!r} is not known", _hint(name))
    try:
        return fetch(name, offline=offline)
    except Unavailable as error:
        close = _alike(spelled(name.partition("/")[2]).removesuffix("-hf"))
        same = f"{' and '.join(close)} {'is a preset' if len(close) == 1 else 'are presets'}; " if close else ""
        raise Unavailable(error.message, same + error.hint) from None


def from_config(config: dict[str, Any], *, name: str = "", treat_as: str = "") -> Published:
    """The model that these fields of a config.json describe. Raises InvalidModel, or UnknownModel for its family."""
    from tfcalc.configs.published import Published

    return Published(config, name=name, treated_as=treat_as)


def _is_preset(name: str) -> bool:
    plain = 0 < len(name) <= 100 and not any(mark in name for mark in "/\\\0")
    return plain and (FOLDER / f"{spelled(name)}.json").is_file()


def _hint(name: str) -> str:
    close = _alike(spelled(name))
    if close:
        return f"did you mean {' or '.join(close)}?"
    return "tfcalc models lists them; a path to a config.json will do as well"


def _alike(name: str) -> list[str]:
    """The presets that a name may mean: those that begin with it, or with all but its last words, or look like it.

    >>> _alike("gemma-3-27b"), _alike("gpt-2"), _alike("lama-3-8b")
    (['gemma-3-12b-it', 'gemma-3-270m', 'gemma-3-4b-it'], ['gpt2'], ['llama-3-8b'])
    """
    known, words = names(), name.split("-")
    bare = [preset for preset in known if preset.replace("-", "") == name.replace("-", "")]
    if bare:
        return bare
    for kept in range(len(words), min(len(words), 2) - 1, -1):
        begin = "-".join(words[:kept])
        if close := [preset for preset in known if preset == begin or preset.startswith(f"{begin}-")]:
            return close[:MOST]
        if kept == len(words) and (close := [preset for preset in known if preset.startswith(begin)]):
            return close[:MOST]
    return get_close_matches(name, known, n=1)


MOST = 3
"""Names that a hint gives."""
