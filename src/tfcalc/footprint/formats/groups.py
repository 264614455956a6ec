"""Configs that give groups of modules a format each: compressed-tensors (vLLM's own), and NVIDIA's ModelOpt."""

from __future__ import annotations

from collections.abc import Mapping

from tfcalc.errors import InvalidModel
from tfcalc.footprint.formats.formats import LINEAR, WHOLE, Format, Piece, fp8, grouped_integers, scaled
from tfcalc.footprint.formats.module_names import checked
from tfcalc.footprint.formats.names import single
from tfcalc.footprint.formats.reading import Fields, field, size, word

Named = tuple[tuple[str, ...], Format]
Found = tuple[Format, str, tuple[str, ...], str, tuple[Named, ...]]
EVERY = ("Linear", "LinearBase")
"""Targets that are classes of modules: all linear maps."""

STRATEGIES = ("tensor", "channel", "group", "tensor_group", "block")
MOST_GROUPS = 64


def compressed_tensors(fields: Fields, dtype: str) -> Found:
    """The format of all linear maps, and those of the modules that a group's ``targets`` name; ``ignore`` stays.

    Source: compressed_tensors.quantization, QuantizationConfig, QuantizationScheme and QuantizationArgs.
    """
    given = field(fields, "config_groups").values()
    groups = [group for group in given if isinstance(group, Mapping)]
    keep = checked(fields.get("ignore"), "ignore")
    if not 0 < len(groups) == len(given) <= MOST_GROUPS:
        raise InvalidModel(
            "config_groups of compressed-tensors has no group", "copy it from the checkpoint's config.json"
        )
    everything: Format | None = None
    others: list[Named] = []
    for group in groups:
        found = _format(group)
        targets = checked(group.get("targets") or ["Linear"], "targets")
        if any(target in EVERY for target in targets):
            everything = everything or found
        else:
            others.append((targets, found))
    # without a group for all linear maps, those that no group names stay as they were
    return (everything or single(dtype)._replace(kinds=LINEAR), dtype, keep, "", tuple(others))


def _format(group: Fields) -> Format:
    given = field(group, "weights")
    bits = size(given, "num_bits", 8, (2, 3, 4, 8))
    kind = word(given, "type", ("int", "float"), "int")
    grouped = given.get("group_size") not in (None, -1)
    strategy = word(given, "strategy", STRATEGIES, "group" if grouped else "channel" if kind == "int" else "tensor")
    static = _static(group)
    if kind == "float":
        return _floats(given, bits, strategy, static)
    along = size(given, "group_size", 128) if strategy in ("group", "tensor_group") else WHOLE
    if bits == 8 and strategy in ("channel", "tensor"):
        # vLLM holds these scales in fp32, whatever the file has
        return single("w8a8") if strategy == "channel" else scaled("int8-tensor", 8, "vLLM", *_once("weight_scale"))
    symmetric = given.get("symmetric") is not False
    return grouped_integers(bits, along, zeros=not symmetric, indices=given.get("actorder") in ("group", "dynamic"))


def _floats(given: Fields, bits: int, strategy: str, static: bool) -> Format:
    along = size(given, "group_size", 16 if bits == 4 else 128)
    if bits == 4:
        if along == 32:
            return single("mxfp4")
        return _with_input(single("nvfp4"), static, "input_global_scale")
    if bits != 8:
        raise InvalidModel(f"floats of {bits} bits are not known", "num_bits is 4 or 8")
    if strategy == "block":
        block = given.get("block_structure")
        fits = isinstance(block, list) and len(block) == 2 and all(type(one) is int and one > 0 for one in block)
        return fp8(block[0], block[1]) if fits and isinstance(block, list) else fp8(128, 128)
    if strategy in ("group", "tensor_group"):
        return single("mxfp8") if along == 32 else fp8(1, along, static=static)
    return fp8(1 if strategy == "channel" else WHOLE, WHOLE, static=static)


def _static(group: Fields) -> bool:
    """Whether a scale of the inputs is stored: 4-bit floats have one even where the rest is dynamic (``local``)."""
    inputs = field(group, "input_activations")
    return bool(inputs) and inputs.get("dynamic") is not True


def modelopt(fields: Fields, dtype: str) -> Found:
    """NVFP4, FP8 or MXFP8, by ``quant_algo`` or, like compressed-tensors, by groups.

    Source: NVIDIA ModelOpt's hf_quant_config; vLLM, ModelOptNvFp4Config (``weight_scale_2``, ``input_scale``).
    """
    inner = {**field(fields, "quantization"), **fields}
    lists = ("ignore", "exclude_modules")
    keep = tuple(name for one in lists for name in checked(inner.get(one), one))
    if "config_groups" in fields:
        found, _, _, _, others = compressed_tensors({"config_groups": fields["config_groups"]}, dtype)
        return (found, dtype, keep, "", others)
    known = {
        "NVFP4": _with_input(single("nvfp4"), True, "input_scale"),
        "W4A16_NVFP4": single("nvfp4"),
        "FP8": fp8(WHOLE, WHOLE, static=True),
        "FP8_PB_WO": fp8(128, 128),
        "FP8_PER_CHANNEL_PER_TOKEN": fp8(1, WHOLE),
        "MXFP8": single("mxfp8"),
    }
    return (known[word(inner, "quant_algo", tuple(known), "NVFP4")], dtype, keep, "", ())


def _with_input(found: Format, static: bool, name: str) -> Format:
    return found._replace(pieces=(*found.pieces, *_once(name))) if static else found


def _once(name: str) -> tuple[Piece, ...]:
    return (Piece(name, 32, WHOLE, WHOLE),)
