"""Catalog of models: the preset, config.json or Hub id that a name means, and the model that it builds.

A name may be spelled as people type it: ``llama3-8b``, ``Llama 3 8B`` and ``meta-llama/Meta-Llama-3-8B-Instruct`` all
mean llama-3-8b. Names are compared by family, version and size, and only then by letters; one that is ambiguous
(``llama3``) is answered with a list.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfcalc.errors import Unavailable, UnknownModel
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted
from tfcalc.reader import CONFIG, BadConfig, is_place, parse, read

if TYPE_CHECKING:
    from tfcalc.configs.published import HFModel
    from tfcalc.zoo.transformer import Transformer


SAME_SIZES = frozenset({"instruct", "chat", "it", "pt", "sft", "dpo", "hf", "beta"})
"""Words for fine-tuning or conversion, which does not change sizes."""

MAKERS = frozenset({"meta", "nvidia", "ai21", "c4ai"})
"""First words that name the maker, which people leave out."""

BASE = "base"
"""Word that does not change sizes beside a number of parameters: gemma-7b-base is gemma-7b, but bert-base is a size."""

ALIASES = {
    "deepseek-v3.1": "deepseek-v3",
    "deepseek-r1-0528-qwen3-8b": "qwen3-8b",
    "llama-3.1-nemotron-70b": "llama-3.1-70b",
    "mistral-large-2411": "mistral-large-instruct-2407",
    "llama-4-scout": "llama-4-scout-17b-16e-instruct",
    "llama-4-maverick": "llama-4-maverick-17b-128e-instruct",
    "qwen3-next-80b": "qwen3-next-80b-a3b-thinking",
    "deepseek-r1-distill-llama-8b": "llama-3.1-8b",
    "deepseek-r1-distill-llama-70b": "llama-3.3-70b-instruct",
    "deepseek-r1-distill-qwen-7b": "qwen2.5-7b",
    "deepseek-r1-distill-qwen-14b": "qwen2.5-14b",
    "deepseek-r1-distill-qwen-32b": "qwen2.5-32b",
    "deepseek-r1-7b": "qwen2.5-7b",
    "deepseek-r1-14b": "qwen2.5-14b",
    "deepseek-r1-32b": "qwen2.5-32b",
    "deepseek-r1-70b": "llama-3.3-70b-instruct",
}
"""Models fine-tuned from another one, with its sizes, under a name of their own.

Source: model card of DeepSeek-R1, table of the distilled models (the one of 1.5B is left out: its head is not tied),
which ollama calls deepseek-r1:7b; of DeepSeek-V3.1 the config.json in ai-dynamo/aiconfigurator,
of Qwen3-Next, whose two have one topology, THUDM/slime, scripts/models/qwen3-next-80B-A3B.sh,
of Llama-3.1-Nemotron and Mistral-Large-2411 the sizes in Lightning-AI/litgpt.
"""

NAMES = 8192
"""Spellings that are remembered: of all presets and repositories, and of what is typed (a hundred words, say)."""
MOST = 6
"""Largest number of names in a list of alternatives."""

CLOSE = 0.75
"""Similarity (difflib's ratio) from which a family's name may be a misspelling of another."""

_SIZE = re.compile(r"[ae]?\d+(?:\.\d+)?(?:x\d+(?:\.\d+)?)?[bm]|\d+b\d", re.ASCII)
_VERSION = re.compile(r"[a-z]?\d+(?:\.\d+)*[a-z]?", re.ASCII)
_GLUED = re.compile(r"([a-z]{2,})(\d[\d.]*)", re.ASCII)
_IDLE = re.compile(r"v\d[\d.]*|\d{4}|0\d|1[0-2]|a\d+(?:\.\d+)?b", re.ASCII)
"""Word of a month or a revision, or of the parameters that are used per token."""
SAME_COUNT = 0.05
"""Relative difference below which a number of parameters is the one in a name, rounded."""
_UNITS = {"m": 1e6, "b": 1e9}


class NameParts(NamedTuple):
    """The parts of a name: ``Qwen2.5-7B-Instruct`` is family qwen, version 2.5, size 7b, and all its words.

    >>> parts("Qwen2.5-7B-Instruct")
    NameParts(family='qwen', version='2.5', size='7b', words=('qwen', '2.5', '7b', 'instruct'))
    """

    family: str
    version: str
    size: str
    words: tuple[str, ...]


def spelled(name: str) -> str:
    """Return a name in the presets' spelling: ``Llama 3_8B`` is ``llama-3-8b``."""
    return re.sub(r"[\s_:]+", "-", name.strip().lower().removesuffix(":latest"))


@lru_cache(NAMES)
def parts(name: str) -> NameParts:
    """Return family, version, size and all words of a name, each empty if it has none."""
    words: list[str] = []
    for word in _without_maker(spelled(name)):
        glued = _GLUED.fullmatch(word)
        words += glued.groups() if glued else [word]
    numbered = [word for word in words[1:] if word[-1:].isalnum() and any(character.isdigit() for character in word)]
    size = next((word for word in numbered if _SIZE.fullmatch(word)), "")
    first = numbered[0] if numbered else ""
    version = first if first != size and _VERSION.fullmatch(first) else ""
    return NameParts(words[0], version, size, tuple(words))


def resolve(name: str, repositories: Mapping[str, str]) -> str | None:
    """Return the preset that a name means unambiguously; None if there is none.

    Args:
        name: as typed: a preset's name in another spelling, the id of its repository in any case, or either with or
            without a suffix that never changes sizes.
        repositories: the id of each preset's repository, or "" if it has none.

    >>> resolve("Meta-Llama/meta-llama-3-8b-instruct", {"llama-3-8b": "meta-llama/Meta-Llama-3-8B"})
    'llama-3-8b'
    >>> resolve("someone/Meta-Llama-3-8B", {"llama-3-8b": "meta-llama/Meta-Llama-3-8B"}) is None
    True
    """
    owner, _, bare = name.strip().lower().rpartition("/")
    asked = spelled(bare)
    asked = ALIASES.get(asked, asked) if owner in ("", "deepseek-ai") else asked
    if asked in repositories and not owner:
        return asked
    candidates = [(preset, *id.lower().split("/")) for preset, id in repositories.items() if id]
    ours = [(preset, its) for preset, its_owner, its in candidates if owner in ("", its_owner)]
    if not owner or asked != spelled(bare):
        ours += [(preset, preset) for preset in repositories]
    for key in (_letters, _sizes):
        matches = [preset for preset, its in ours if key(its) == key(asked)]
        if matches:
            return min(matches, key=len)
    return None


def of_that_size(name: str, known: Iterable[ListedPreset]) -> str | None:
    """Return the preset that a name leaves out idle words of, and that is as large as it says; None unless it is one.

    Idle are words for fine-tuning, months of release, and numbers of parameters that are used per token.

    >>> of_that_size("qwen3-30b", [ListedPreset("qwen3-30b-a3b", "", 30_532_122_624, None, "", "")])
    'qwen3-30b-a3b'
    >>> of_that_size("phi-4-mini", [ListedPreset("phi-4", "", 14_659_507_200, None, "", "")]) is None
    True
    """
    asked = parts(name)
    words, count = {*asked.words} - SAME_SIZES, _parameters(asked.size)

    def fits(one: ListedPreset) -> bool:
        its = parts(one.name)
        if asked.family != its.family or not (asked.version == its.version or _IDLE.fullmatch(its.version)):
            return False
        named = not count or asked.size in its.words
        idle = {*its.words} - words - SAME_SIZES - {BASE}
        return (
            words <= {*its.words, asked.size}
            and all(_IDLE.fullmatch(word) or (count and _SIZE.fullmatch(word)) for word in idle)
            and (named or abs(one.total_params / count - 1) < SAME_COUNT)
        )

    alike = [one for one in known if fits(one)]
    found = [one for one in alike if asked.size in parts(one.name).words] or alike
    found = [one for one in found if not SAME_SIZES & {*parts(one.name).words}] or found
    return min((one.name for one in found), key=len) if len({one.total_params for one in found}) == 1 else None


def meant(name: str, known: Iterable[str]) -> list[str]:
    """Return the presets that an incomplete name may mean: those with all its words, and its version or one within it.

    >>> meant("llama3", ["llama-30b", "llama-3.1-8b", "llama-3-8b", "llama-2-7b"])
    ['llama-3-8b', 'llama-3.1-8b']
    """
    asked = parts(name.rpartition("/")[2])
    found = [(other, parts(other)) for other in known]
    return [other for other, its in sorted(found, key=_order) if _covers(asked, its)]


def alike(name: str, known: Iterable[str]) -> list[str]:
    """Return the presets nearest to a name: of the same or a similarly spelled family, then by version, size and words.

    >>> alike("lama-3-8b", ["llama-30b", "llama-3-8b", "gemma-2b"]), alike("zzz", ["llama-3-8b"])
    (['llama-3-8b'], [])
    """
    asked = parts(name.rpartition("/")[2])
    scored = [(_likeness(asked, its), other, its) for other in known if (its := parts(other))]
    best = max((score for score, _, _ in scored), default=_FAR)
    if best[0] < CLOSE:
        return []
    ties = [(other, its) for score, other, its in scored if score[:3] == best[:3]]
    if len(ties) > MOST:
        ties = [(other, its) for score, other, its in scored if score == best]
    return [other for other, _ in sorted(ties, key=_order)]


def listed(names: list[str]) -> str:
    """Join names to a list of at most ``MOST``, and the number of further ones.

    >>> listed(["a", "b"]), listed(list("abcdefgh"))
    ('a, b', 'a, b, c, d, e, f and 2 more')
    """
    left = len(names) - MOST
    return ", ".join(names[:MOST]) + (f" and {left} more" if left > 0 else "")


@lru_cache(NAMES)
def _letters(name: str) -> str:
    """Drop hyphens, except between two digits."""
    return re.sub(r"(?<!\d)-|-(?!\d)", "", spelled(name))


def _without_maker(name: str) -> list[str]:
    """Return the words of a name, without its maker's."""
    words = name.split("-")
    return words[1:] if words[0] in MAKERS and len(words) > 1 else words


@lru_cache(NAMES)
def _sizes(name: str) -> str:
    """Drop words that do not change sizes, and hyphens."""
    words = _without_maker(spelled(name))
    idle = SAME_SIZES | {BASE} if any(_SIZE.fullmatch(word) for word in words) else SAME_SIZES
    return _letters("-".join(word for word in words if word not in idle))


def _covers(asked: NameParts, its: NameParts) -> bool:
    words = {*asked.words} - {asked.version} - SAME_SIZES
    same_version = not asked.version or its.version == asked.version or its.version.startswith(f"{asked.version}.")
    return same_version and bool(words) and words <= {*its.words}


_Score = tuple[float, float, float, float]
_FAR: _Score = (0.0, 0.0, 0.0, 0.0)


def _likeness(asked: NameParts, its: NameParts) -> _Score:
    """Score the likeness of two names by family, version, size and common words; parts not asked for count as equal."""
    from difflib import SequenceMatcher

    family = 1.0 if asked.family == its.family else SequenceMatcher(None, asked.family, its.family).ratio()
    if family < CLOSE:
        return _FAR
    version = 1.0 if asked.version in ("", its.version) else 0.5 if _same_line(asked.version, its.version) else 0.0
    size = 1.0 if asked.size in ("", its.size) else 0.0
    common = len({*asked.words} & {*its.words}) / max(len(asked.words), len(its.words))
    return family, version, size, common


def _same_line(version: str, other: str) -> bool:
    return bool(version) and bool(other) and (version.startswith(f"{other}.") or other.startswith(f"{version}."))


def _order(named: tuple[str, NameParts]) -> tuple[tuple[float, ...], float, str]:
    """Sort key: version, then further words of a variant, then size, then name."""
    name, its = named
    version = tuple(float(number) for number in re.findall(r"\d+", its.version))
    variant = sum(word.isalpha() and word not in SAME_SIZES for word in its.words)
    return (*version, variant), _parameters(its.size), name


def _parameters(size: str) -> float:
    """Return the approximate number of parameters of a size: ``8x7b`` is 56e9."""
    numbers = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", size)]
    count = 1.0
    for number in numbers[:2] if "x" in size else numbers[:1]:
        count *= number
    return count * next((times for unit, times in _UNITS.items() if unit in size), 1.0) if numbers else 0.0


FOLDER = Path(__file__).parent / "models"
INDEX = FOLDER / "index.jsonl"
"""One line per preset, written by ``tools/presets.py``, so that listing presets builds no model."""
ASSUMED = "assumed"
"""Prefix of the source of a figure that no page states."""

FEW = 3
"""Largest number of names in "did you mean …?"; more are listed as nearest."""


class Preset(NamedTuple):
    """A published model, with its sizes and their ``source``.

    ``fields`` are those of the classic :class:`~tfcalc.Transformer`; for all other models ``config`` has those of its
    config.json. ``repository`` is the id of its checkpoint on the Hub, "" if none was published. ``sources`` of single
    figures, if they differ from ``source``, are a page, "recalled: …" (not seen by us) or "assumed: …".
    """

    name: str
    source: str
    repository: str
    sources: dict[str, str]
    fields: dict[str, Any]
    config: dict[str, object]

    @property
    def family(self) -> str:
        """Its model_type; the classic Transformer has none."""
        return str(self.config.get("model_type", "transformer"))

    @property
    def dtype(self) -> str:
        """The number format of its checkpoint, as a config.json spells it."""
        return str(self.config.get("dtype", "float32"))

    @property
    def dtype_note(self) -> str:
        """Note for answers that use the number format, if that is assumed; empty otherwise.

        >>> preset("gpt-3").dtype_note
        'dtype float16 assumed: no checkpoint was published'
        """
        where = self.sources["dtype"]
        return f"dtype {self.dtype} {where}" if where.startswith(ASSUMED) else ""

    def model(self, *, treat_as: str = "") -> Transformer | HFModel:
        """Build the model; ``treat_as`` is the ``model_type`` to read its config as, if not its own."""
        if self.config or treat_as:
            return from_config(self.config, name=self.name, treat_as=treat_as, dtype_note=self.dtype_note)
        from tfcalc.zoo.transformer import Transformer

        return Transformer(**self.fields)


class ListedPreset(NamedTuple):
    """A preset as it is listed: family (model_type), parameters, longest sequence, and number format.

    ``context`` is in tokens, ``dtype`` is how its checkpoint stores the weights, ``repository`` its id on the Hub.
    """

    name: str
    family: str
    total_params: int
    context: int | None
    dtype: str
    repository: str


@cache
def index() -> dict[str, ListedPreset]:
    """Return all presets by name, in alphabetical order."""
    lines = map(json.loads, INDEX.read_text(encoding="utf-8").splitlines())
    return {line["name"]: ListedPreset(**line) for line in lines}


def sizes() -> list[tuple[str, int, str]]:
    """Return name, parameters, and number format of all presets."""
    return [(one.name, one.total_params, one.dtype) for one in index().values()]


def names() -> list[str]:
    """Return the names of all presets, in alphabetical order."""
    return list(index())


def preset(name: str) -> Preset:
    """Return the preset of a name: its own in any spelling, its repository's id, or that of a variant of equal size.

    Raises UnknownModel with the names that may be meant.

    >>> preset("transformer-big").fields["d_model"], preset("Llama-3-70B-Instruct").name
    (1024, 'llama-3-70b')
    """
    found = _preset_of(name)
    if found is None:
        raise _unknown(name)
    data = json.loads((FOLDER / f"{found}.json").read_text(encoding="utf-8"))
    return Preset(
        found,
        data["source"],
        data.get("repository", ""),
        data["sources"],
        data.get("fields", {}),
        data.get("config", {}),
    )


def repositories() -> dict[str, str]:
    """Return the id of each preset's repository on the Hub, "" if it has none."""
    return {name: entry.repository for name, entry in index().items()}


def load(name: str, *, treat_as: str = "", offline: bool = False) -> Transformer | HFModel:
    """Load a model by name.

    Args:
        name: a preset (``tfcalc models`` lists them), the path of a config.json or of a directory with one, ``-`` for
            standard input, a path at a git revision (``HEAD~1:configs/model.json``), or the id of a repository on the
            Hub, or the address of its page there.
        treat_as: read its config as this ``model_type``, whatever it says.
        offline: never reach the network; only an id that is not in the local cache needs it.

    Returns:
        A model for every function of tfcalc.

    Raises:
        InvalidModel: the config fits no model; UnknownModel (an InvalidModel) for a name that is not known.
        Unavailable: the config of an id cannot be fetched, or the revision of a path not be reached.

    >>> load("transformer-base").d_model
    512
    """
    name = _named_by_url(name)
    if _preset_of(name):
        return preset(name).model(treat_as=treat_as)
    if stored := in_format(name):
        found, format = stored
        quantized = {**preset(found).config, "quantization_config": {"quant_method": "gguf", "file_type": format}}
        return from_config(quantized, name=found, treat_as=treat_as)
    path = is_path(name)
    return from_config(config_of(name, offline=offline), name="" if path else name, treat_as=treat_as)


def config_of(name: str, *, offline: bool = False) -> dict[str, object]:
    """Return the fields of a model's config.json, even of an unsupported family. Raises as :func:`load`."""
    from tfcalc.hub import fetch, is_id

    name = _named_by_url(name)
    if _preset_of(name) and (config := preset(name).config):
        return config
    if found := revision(name):
        return _at_revision(*found)
    if is_place(name):
        return read(name)
    if not is_id(name):
        raise _unknown(name)
    try:
        return fetch(name, offline=offline)
    except Unavailable as error:
        close = _near(name)
        same = f"{listed(close)} {'is a preset' if len(close) == 1 else 'are presets'}; " if close else ""
        raise Unavailable(error.message, same + error.hint) from None


def from_config(config: Mapping[str, object], *, name: str = "", treat_as: str = "", dtype_note: str = "") -> HFModel:
    """Build a model from the fields of a Hugging Face config.json.

    Args:
        config: the fields, as ``json.load`` returns them; ``model_type`` names the family.
        name: what answers call the model.
        treat_as: read the config as this ``model_type``, whatever it says.
        dtype_note: where ``dtype`` comes from, if the config does not give it.

    Returns:
        A model for every function of tfcalc.

    Raises:
        InvalidModel: the fields fit no model; UnknownModel (an InvalidModel) for an unknown ``model_type``.

    Source: the configuration and model classes of transformers, which parameters and FLOPs are tested against.
    """
    from tfcalc.configs.published import HFModel

    return HFModel(config, name=name, treated_as=treat_as, dtype_note=dtype_note)


def is_known(name: str) -> bool:
    """Return whether ``name`` looks like a model's for :func:`load`: a preset, a path, or an id of the Hub."""
    name = _named_by_url(name)
    return _preset_of(name) is not None or is_elsewhere(name) or in_format(name) is not None


def is_elsewhere(name: str) -> bool:
    """Return whether ``name`` is a path, or an id of the Hub."""
    from tfcalc.hub import is_id

    return is_path(name) or is_id(name)


URL = r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/(.+)"
"""Address of a page on the Hub."""
INSIDE = ("tree", "blob", "resolve", "raw", "discussions", "commits", "commit", "edit")
"""What follows a repository's name in the address of a page inside it."""


def id_of_url(text: str) -> str | None:
    """Return the repository that the address of a page on the Hub is of; None for any other text.

    >>> id_of_url("https://huggingface.co/Qwen/Qwen3-8B/blob/main/config.json"), id_of_url("hf.co/gpt2/")
    ('Qwen/Qwen3-8B', 'gpt2')
    >>> id_of_url("Qwen/Qwen3-8B"), id_of_url("https://huggingface.co/datasets/a/b")
    (None, None)
    """
    found = re.fullmatch(URL, text.strip(), re.IGNORECASE)
    if not found:
        return None
    owner, *others = re.split(r"[?#]", found[1])[0].strip("/").split("/")
    if not owner or owner in ("datasets", "spaces", "papers", "docs", "collections"):
        return None
    return f"{owner}/{others[0]}" if others and others[0] not in INSIDE else owner


def _named_by_url(name: str) -> str:
    """Return the name that the address of a page on the Hub means; other names as they are."""
    return (id_of_url(name) or name) if "." in name and "/" in name else name


def in_format(name: str) -> tuple[str, str] | None:
    """Split the name of a file or a tag of llama.cpp's into a preset and a format; None for any other name.

    ``qwen2.5:7b-instruct-q4_K_M`` is qwen2.5-7b in q4_k_m. Whoever asks about bytes refuses one that is not known.
    """
    found = re.fullmatch(GGUF, name.strip(), re.ASCII | re.IGNORECASE)
    base = _preset_of(found[1]) if found and not is_place(name) else None
    if base is None or found is None or not preset(base).config:
        return None
    return base, found[2].lower()


GGUF = r"(.+?)(?:[-.:_]gguf)?[-.:](i?q\d\w*|b?f16|fp16|f32)(?:\.gguf)?"
"""Name of a model with the type of a file: as ollama tags it, and repositories name files."""


def is_path(name: str) -> bool:
    """Return whether ``name`` is a file or a folder, possibly at a git revision, rather than a model's name."""
    return is_place(name) or revision(name) is not None


def revision(name: str) -> tuple[str, str] | None:
    """Split ``HEAD~1:configs/model.json`` into revision and path; None for other names, and for an existing file.

    A word alone is the path of a folder that is here, ``main:chat``, or at HEAD; any other may be a tag: ``llama3:8b``.
    """
    from tfcalc.revisions import at_ref

    if ":" not in name or os.path.exists(name):
        return None
    ref, path = name.split(":", 1)
    bare = ref.startswith(("HEAD", "@")) or (ref != "" and os.path.isdir(path))
    return at_ref(name, bare=bare)


def _at_revision(ref: str, path: str) -> dict[str, object]:
    """Read the config.json at a git revision: a file, or that of a folder."""
    from tfcalc.revisions import content, is_folder, renamed

    here = Path()
    raw = content(ref, path, here)
    if raw is None and is_folder(ref, path, here):
        path = f"{path.removesuffix('/')}/{CONFIG}"
        raw = content(ref, path, here)
    if raw is None:
        before = renamed(ref, path, here)
        remedy = f"it was renamed since; name {ref}:{before}" if before else "paths are relative to this folder"
        raise BadConfig(f"{ref} has no file {quoted(path)}", remedy)
    return parse(raw, f"{ref}:{path}")


def _preset_of(name: str) -> str | None:
    """Return the name of the preset that ``name`` means; None if there is none."""
    if not 0 < len(name) <= LONGEST or not name.isascii() or any(mark in name for mark in "\\\0"):
        return None
    own = spelled(name)
    if "/" not in own and (FOLDER / f"{own}.json").is_file():  # the common case, without reading the index
        return own
    if is_place(name):
        return None
    found = resolve(name, repositories())
    if found or "/" in name:
        return found
    others = (index()[preset]._replace(name=other) for other, preset in ALIASES.items())
    alike = of_that_size(spelled(name), [*index().values(), *others])
    return ALIASES.get(alike, alike) if alike else None


def _unknown(name: str) -> UnknownModel:
    """Return the error for an unknown name, with the names that may be meant."""
    from tfcalc.configs.config import model_types

    asked, short = name[:LONGEST], quoted(name)
    fine_tuned = [other for other, preset in ALIASES.items() if not preset.startswith(other)]
    several, known_type = meant(asked, [*repositories(), *fine_tuned]), spelled(asked).replace("-", "_")
    if len(several) > 1:
        unknown = UnknownModel(f"{short} is ambiguous: {listed(several)}", "tfcalc models lists all")
        unknown.near, unknown.several = True, several
        return unknown
    close = several or alike(asked, repositories())
    hints = [f"did you mean {' or '.join(close)}?" if len(close) <= FEW else f"nearest: {listed(close)}"] * bool(close)
    if known_type in model_types():
        hints.append(f"give a {known_type} config.json or its Hub id")
    if UNPUBLISHED.match(spelled(asked)):
        unknown = UnknownModel(f"the sizes of {short} are not published", OWN_SIZES)
        unknown.near = True
        return unknown
    hint = "; ".join(hints).replace("?;", "?") or "tfcalc models lists the presets; a path to a config.json works too"
    unknown = UnknownModel(f"model {short} is not known", hint)
    unknown.near = bool(hints)
    return unknown


UNPUBLISHED = re.compile(r"(chatgpt|gpt-?[45]|o[134](-|$)|claude|gemini|grok-?[34])")
"""How names of models begin that are served and whose configs nobody but their makers has."""
OWN_SIZES = "of sizes that you assume: tfcalc --kind decoder --layers 96 --d-model 12288 --heads 96"


def _near(id: str) -> list[str]:
    """Return the presets that an unknown repository's id may mean: the one of the same name, or the nearest."""
    name, known = id.partition("/")[2][:LONGEST], repositories()
    same = resolve(name, known)
    return [same] if same else meant(name, known) or alike(name, known)


LONGEST = 100
"""Longest name of a model, in characters."""
