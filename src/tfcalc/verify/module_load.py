"""Find a class in a person's file and make one of it, in the process that :mod:`tfcalc.verify.module_worker` is."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class ModuleRefused(Exception):
    """The file, the class or its forward pass is of no use; the text says why, ``hint`` what would do."""

    def __init__(self, message: str, hint: str = "") -> None:
        self.hint = hint
        super().__init__(message)


def load(path: Path) -> Any:
    """The module of this file, run as ``python file.py`` would run it, but for its name.

    A file of a package is imported as a part of it, so that its relative imports work. Raises ModuleRefused.
    """
    names, folder = [path.stem], path.parent
    while os.path.isfile(folder / "__init__.py"):
        names, folder = [folder.name, *names], folder.parent
    sys.path.insert(0, str(folder))
    try:
        if len(names) > 1:
            return importlib.import_module(".".join(names))
        name = path.stem if path.stem not in sys.modules else f"{path.stem}_of_the_file"
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ModuleRefused(f"{path.name} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module
    except (Exception, SystemExit) as error:
        raise ModuleRefused(f"{path.name} cannot be imported: {in_a_line(error)}") from error


def found(module: Any, name: str, path: Path) -> type:
    """The class of this name, or the only one of the file where none is given. Raises ModuleRefused."""
    from difflib import get_close_matches

    own = [one for one in vars(module).values() if inspect.isclass(one) and one.__module__ == module.__name__]
    names = [one.__name__ for one in own]
    if not name:
        if len(own) == 1:
            return own[0]
        known = f"{path.name} has {'the classes ' + ', '.join(names) if own else 'no class'}"
        raise ModuleRefused(known, f"name one: --module {path.name}:{names[0]}" if own else "name a file with a class")
    one = getattr(module, name, None)
    if inspect.isclass(one):
        return one
    close = get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(names) or 'no class'}"
    raise ModuleRefused(f"{path.name} has no class {name!r}", hint)


def made(kind: type, positional: Sequence[object], named: Mapping[str, object]) -> Any:
    """One of this class. Raises ModuleRefused with what its constructor raised."""
    given = ", ".join([*map(repr, positional), *(f"{name}={value!r}" for name, value in named.items())])
    try:
        return kind(*positional, **named)
    except (Exception, SystemExit) as error:
        needed = f"its arguments: {signature(kind)}"
        raise ModuleRefused(f"{kind.__name__}({given}) raises {in_a_line(error)}", needed) from error


def signature(kind: type) -> str:
    """``(d_model, n_heads=8)``."""
    try:
        text = str(inspect.signature(kind))
    except (TypeError, ValueError):
        return "not known"
    return text.partition(" ->")[0]


def arguments(kind: type, positional: Sequence[object], named: Mapping[str, object]) -> dict[str, object]:
    """Arguments of the constructor by name, with its defaults, as far as these are numbers, text or None."""
    try:
        bound = inspect.signature(kind).bind(*positional, **named)
    except (TypeError, ValueError):
        return dict(named)
    bound.apply_defaults()
    return {
        name: value
        for name, value in bound.arguments.items()
        if value is None or isinstance(value, bool | int | float | str)
    }


def in_a_line(error: BaseException) -> str:
    """``RuntimeError: shapes do not match``, and the line of the person's file that raised it is left to them."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
