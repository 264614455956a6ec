"""What trainers' own configs and defaults stand for: sets of options that go by a name (``--preset``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from tfcalc.dimensions import facet
from tfcalc.errors import UsageError
from tfcalc.footprint.plans import Training
from tfcalc.printable import quoted
from tfcalc.workload import Workload

DATA = Path(__file__).with_name("training_presets.toml")
ABOUT = ("source", "revision", "not_modelled")
"""Keys that say where it stands; the others are fields."""


class TrainingPreset(NamedTuple):
    """A trainer's own options: the fields that it sets, where it stands, and what of it is ``not_modelled``."""

    name: str
    options: Mapping[str, int | str | bool]
    source: str
    revision: str
    not_modelled: tuple[str, ...]

    @property
    def workload(self) -> Workload:
        """A training step of so many sequences, as long as they are made, or as by default."""
        return Workload(phase="train", **self._of(Workload))  # type: ignore[arg-type]  # fields by their names

    @property
    def training(self) -> Training:
        """How it trains."""
        return Training(preset=self.name, **self._of(Training))  # type: ignore[arg-type]

    def _of(self, kind: type) -> dict[str, int | str | bool]:
        own = {item.name for item in fields(kind)}
        return {name: value for name, value in self.options.items() if name in own}

    @property
    def flags(self) -> str:
        """``--batch 2 --checkpointing full``."""
        known = {item.name: facet(item) for kind in (Workload, Training) for item in fields(kind)}
        given = ((known[name], value) for name, value in self.options.items())
        words = (
            shown.flags[0].split("/")[0] + ("" if value is True else f" {value}") for shown, value in given if shown
        )
        return " ".join(words)


@lru_cache(maxsize=1)
def training_presets() -> Mapping[str, TrainingPreset]:
    """All of them, by name."""
    import tomllib  # few ask for one

    found = tomllib.loads(DATA.read_text(encoding="utf-8"))
    return {
        name: TrainingPreset(
            name,
            {key: value for key, value in entry.items() if key not in ABOUT},
            entry["source"],
            entry["revision"],
            tuple(entry["not_modelled"]),
        )
        for name, entry in found.items()
    }


def training_preset(name: str) -> TrainingPreset:
    """The options of a trainer's own config, by its name.

    Args:
        name: such as ``torchtune/full-single-device``.

    Returns:
        Its ``workload`` and its ``training``, to be given to :func:`tfcalc.memory`, perhaps ``replaced``.

    Raises:
        UsageError: for one that is not known, with those that are.

    >>> training_preset("torchtune/lora-single-device").training.lora
    8
    """
    known = training_presets()
    if name not in known:
        raise UsageError(f"preset {quoted(name)} is not known", f"choose {', '.join(known)}")
    return known[name]
