"""Formats of a published checkpoint's weights, by its config.json: ``quantization_config`` and ``dtype``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tfcalc.errors import InvalidModel, nearest
from tfcalc.number_formats import BF16, NUMBERS
from tfcalc.printable import quoted
from tfcalc.serving.weight_formats import (
    LINEAR,
    PLAIN,
    WHOLE,
    Format,
    Piece,
    awq,
    bitsandbytes_4bit,
    file_type,
    format_named,
    fp8,
    gptq,
    grouped_integers,
    scaled,
    single,
)
from tfcalc.serving.weights import WeightStorage, checked

LARGEST = 1 << 20

Fields = Mapping[str, object]


def field(fields: Fields, name: str) -> Fields:
    """An object within; an empty one where there is none."""
    found = fields.get(name)
    if found is not None and not isinstance(found, Mapping):
        raise InvalidModel(f"{name} {quoted(found)} is not an object", "write it as the library does, in {}")
    return found or {}


def flag(fields: Fields, name: str) -> bool:
    """A bool; false where it is left out."""
    found = fields.get(name)
    if found is not None and not isinstance(found, bool):
        raise InvalidModel(f"{name} {quoted(found)} is neither true nor false", "write true or false")
    return bool(found)


def size(fields: Fields, name: str, default: int, known: Sequence[int] = ()) -> int:
    """A whole number from 1, or -1; one of ``known`` where they are given."""
    found = fields.get(name)
    if found is None:
        return default
    if type(found) is int and (found == -1 or 0 < found < LARGEST) and (not known or found in known):
        return found
    raise InvalidModel(
        f"{name} {quoted(found)} is not a supported size", f"write {' or '.join(map(str, known)) or default}"
    )


def word(fields: Fields, name: str, known: Sequence[str], default: str) -> str:
    """One of the known words."""
    found = fields.get(name)
    if found is None:
        return default
    if not isinstance(found, str) or found not in known:
        raise InvalidModel(f"{name} {quoted(found)} is not known", nearest(str(found)[:80], known))
    return found


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
    """Return whether a scale of the inputs is stored: 4-bit floats have one even if the rest is dynamic (``local``)."""
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


FIELD, METHOD = "quantization_config", "quant_method"
EXPERTS = "experts"
TEXT = "language_model"
"""The module that a ``text_config`` describes."""


def stated_format(model: object) -> WeightStorage | None:
    """Storage of the weights by a model's config; None where it does not say.

    A config without a ``quantization_config`` may still have a ``dtype``: then all weights are stored so. Raises
    InvalidModel for a method that is not known, or fields that fit none.
    """
    data = getattr(model, "data", None)
    if not isinstance(data, Mapping):
        return None
    dtype = stated_dtype(data)
    for scope, inside in ((data, ""), (data.get("text_config"), TEXT)):
        fields = scope.get(FIELD) if isinstance(scope, Mapping) else None
        if isinstance(scope, Mapping) and isinstance(fields, Mapping):
            recipe = _by_method({"expert_dtype": scope.get("expert_dtype"), **fields}, dtype or BF16.name)
            return recipe._replace(inside=recipe.inside or inside)
        if fields is not None:
            raise InvalidModel(
                f"{FIELD} {quoted(fields)} is not an object", 'write {"quant_method": "gptq", "bits": 4}'
            )
    return WeightStorage(PLAIN[dtype], dtype) if dtype else None


def stated_dtype(data: Fields) -> str | None:
    """The ``dtype`` (``torch_dtype`` before transformers 5) of a config, as tfcalc names it; None where it has none."""
    for scope in (data, data.get("text_config")):
        if not isinstance(scope, Mapping):
            continue
        given = scope.get("dtype") or scope.get("torch_dtype")
        if isinstance(given, str) and given != "auto":
            number = NUMBERS.get(given.removeprefix("torch."))
            if number is None or number.name not in PLAIN:
                raise InvalidModel(f"dtype {quoted(given)} is not known", "write float32, bfloat16 or float16")
            return number.name
    return None


def _by_method(fields: Fields, dtype: str) -> WeightStorage:
    method = fields.get(METHOD)
    if method is None and ("load_in_4bit" in fields or "load_in_8bit" in fields):
        method = "bitsandbytes"
    if not isinstance(method, str) or method.lower().replace("_", "-") not in METHODS:
        fact = f"{METHOD} {quoted(method)} is not known"
        raise InvalidModel(fact, nearest(str(method)[:80].lower().replace("_", "-"), METHODS))
    return METHODS[method.lower().replace("_", "-")](fields, dtype)


def _bitsandbytes(fields: Fields, dtype: str) -> WeightStorage:
    """Source: transformers, BitsAndBytesConfig; its default of ``bnb_4bit_quant_type`` is fp4."""
    keep = checked(fields.get("llm_int8_skip_modules"), "llm_int8_skip_modules")
    if not flag(fields, "load_in_4bit"):
        return WeightStorage(single("int8") if flag(fields, "load_in_8bit") else PLAIN[dtype], dtype, keep)
    kind = word(fields, "bnb_4bit_quant_type", ("nf4", "fp4"), "fp4")
    return WeightStorage(bitsandbytes_4bit(kind, double=flag(fields, "bnb_4bit_use_double_quant")), dtype, keep)


def _gptq(fields: Fields, dtype: str) -> WeightStorage:
    keep = checked(fields.get("modules_to_not_convert"), "modules_to_not_convert")
    return WeightStorage(gptq(size(fields, "bits", 4, (2, 3, 4, 8)), _group(fields)), dtype, keep)


def _awq(fields: Fields, dtype: str) -> WeightStorage:
    keep = checked(fields.get("modules_to_not_convert"), "modules_to_not_convert")
    bits = size(fields, "bits", size(fields, "w_bit", 4, (4, 8)), (4, 8))
    return WeightStorage(
        awq(bits, _group(fields, "q_group_size" if "q_group_size" in fields else "group_size")), dtype, keep
    )


def _auto_round(fields: Fields, dtype: str) -> WeightStorage:
    packing = str(fields.get("packing_format", "auto_round:auto_gptq"))
    return (_awq if "awq" in packing else _gptq)(fields, dtype)


def _fp8(fields: Fields, dtype: str) -> WeightStorage:
    """Source: transformers, FineGrainedFP8Config; vLLM, Fp8Config. DeepSeek-V4 keeps its experts in MXFP4 beside."""
    lists = ("modules_to_not_convert", "ignored_layers")
    keep = tuple(name for one in lists for name in checked(fields.get(one), one))
    block = fields.get("weight_block_size")
    static = fields.get("activation_scheme") == "static"
    others = ((EXPERTS,), single("mxfp4")) if fields.get("expert_dtype") == "fp4" else None
    if block is None:
        return WeightStorage(fp8(WHOLE, WHOLE, static=static), dtype, keep, "", (others,) if others else ())
    if not (isinstance(block, list) and len(block) == 2 and all(type(one) is int and one > 0 for one in block)):
        raise InvalidModel(f"weight_block_size {quoted(block)} is not a pair of sizes", "write [128, 128]")
    scale = 8 if word(fields, "scale_fmt", ("float", "ue8m0"), "float") == "ue8m0" else 32
    return WeightStorage(
        fp8(block[0], block[1], static=static, scale=scale), dtype, keep, "", (others,) if others else ()
    )


def _mxfp4(fields: Fields, dtype: str) -> WeightStorage:
    """Experts alone. Source: transformers, ``replace_with_mxfp4_linear``."""
    keep = checked(fields.get("modules_to_not_convert"), "modules_to_not_convert")
    return WeightStorage(single("mxfp4"), dtype, keep, EXPERTS)


def _rows(name: str, bits: int, source: str, scale: int) -> Callable[[Fields, str], WeightStorage]:
    def method(fields: Fields, dtype: str) -> WeightStorage:
        keep = checked(fields.get("modules_to_not_convert"), "modules_to_not_convert")
        return WeightStorage(scaled(name, bits, source, Piece("scale", scale, 1, WHOLE)), dtype, keep)

    return method


def _as_it_is(name: str) -> Callable[[Fields, str], WeightStorage]:
    def method(fields: Fields, dtype: str) -> WeightStorage:
        keep = checked(fields.get("modules_to_not_convert"), "modules_to_not_convert")
        return WeightStorage(single(name), dtype, keep)

    return method


def _quanto(fields: Fields, dtype: str) -> WeightStorage:
    """Source: optimum.quanto, QTensor: a scale for each row; below 8 bits a scale and a shift for each group of 128."""
    keep = checked(fields.get("modules_to_not_convert"), "modules_to_not_convert")
    kind = word(fields, "weights", ("int8", "float8", "int4", "int2"), "int8")
    if kind in ("int8", "float8"):
        return WeightStorage(scaled(f"quanto-{kind}", 8, "optimum.quanto", Piece("scale", 16, 1, WHOLE)), dtype, keep)
    return WeightStorage(_flat(f"quanto-{kind}", int(kind[3:]), 128), dtype, keep)


def _hqq(fields: Fields, dtype: str) -> WeightStorage:
    """Source: hqq.core.quantize, BaseQuantizeConfig: a 16-bit scale and zero for each group of the matrix."""
    given = field(field(fields, "quant_config"), "weight_quant_params")
    keep = checked(fields.get("skip_modules"), "skip_modules")
    bits = size(given, "nbits", 4, (1, 2, 4, 8))
    return WeightStorage(_flat(f"hqq-{bits}bit", bits, _group(given, default=64) or 64), dtype, keep)


def _flat(name: str, bits: int, group: int) -> Format:
    return scaled(
        name, bits, "groups of the matrix as one line", *(Piece(one, 16, run=group) for one in ("scale", "zero"))
    )


def _group(fields: Fields, name: str = "group_size", default: int = 128) -> int | None:
    """The size of a group of a row; -1 stands for the whole row."""
    found = size(fields, name, default)
    return WHOLE if found == -1 else found


def _compressed(fields: Fields, dtype: str) -> WeightStorage:
    return WeightStorage(*compressed_tensors(fields, dtype))


def _modelopt(fields: Fields, dtype: str) -> WeightStorage:
    return WeightStorage(*modelopt(fields, dtype))


def _gguf(fields: Fields, dtype: str) -> WeightStorage:
    """Read a file of llama.cpp's; the name that a model was asked for by says its type."""
    name = fields.get("file_type")
    known = file_type(name) if isinstance(name, str) else None
    if known is None:
        raise InvalidModel(f"{quoted(name)} is no file type of llama.cpp that is known", "write q4_k_m or q8_0")
    return WeightStorage(format_named(known), dtype)


METHODS: dict[str, Callable[[Fields, str], WeightStorage]] = {
    "bitsandbytes": _bitsandbytes,
    "gptq": _gptq,
    "awq": _awq,
    "auto-round": _auto_round,
    "fp8": _fp8,
    "fbgemm-fp8": _rows("fbgemm-fp8", 8, "transformers, FbgemmFp8Linear", 32),
    "eetq": _rows("eetq", 8, "transformers, EetqLinear", 16),
    "mxfp4": _mxfp4,
    "mxfp8": _as_it_is("mxfp8"),
    "nvfp4": _as_it_is("nvfp4"),
    "compressed-tensors": _compressed,
    "modelopt": _modelopt,
    "quanto": _quanto,
    "hqq": _hqq,
    "gguf": _gguf,
}
"""Readers of ``quantization_config``, by ``quant_method``."""
