"""Named tuples that are quick to define: the classes of :class:`typing.NamedTuple`, made without compiling any text.

typing compiles the text of each annotation, and of a constructor for each class: a tenth of a millisecond a class. A
command that starts within 75 milliseconds defines fifty of them, others a hundred and more.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # for type checkers it is the one that they know
    from typing import NamedTuple as NamedTuple
else:
    from collections import _tuplegetter, namedtuple  # what namedtuple itself reads a field by
    from types import FunctionType

    class _Tuple(tuple):
        """Common base of all named tuples: each has its ``_fields``, ``_field_defaults`` and constructor."""

        __slots__ = ()

        @classmethod
        def _make(cls, values):
            """Return a tuple of these values, one for each field."""
            return cls(*values)

        def _replace(self, /, **changed):
            """Return a copy in which these fields are changed."""
            copy = NEW(type(self), map(changed.pop, self._fields, self))
            if changed:
                raise TypeError(f"{type(self).__name__} has no {', '.join(changed)}")
            return copy

        def _asdict(self):
            """Return the values by the names of their fields."""
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self):
            named = (f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({', '.join(named)})"

        def __getnewargs__(self):  # of copies and of pickle
            return tuple(self)

    class _Definition(type):
        """Metaclass of NamedTuple alone: of a class that inherits from it, it makes a plain subclass of tuple."""

        def __new__(cls, name, bases, body):
            fields = _fields(body)
            defaults = {field: body.pop(field) for field in fields if field in body}
            if fields[len(fields) - len(defaults) :] != tuple(defaults):
                raise TypeError(f"{name} has a field without a default behind one that has a default")
            pattern = _constructor(len(fields))
            code = pattern.__code__.replace(co_varnames=("cls", *fields))
            made = FunctionType(code, pattern.__globals__, "__new__", tuple(defaults.values()))
            made.__qualname__ = f"{body['__qualname__']}.__new__"
            own = {field: _getter(place) for place, field in enumerate(fields)}
            own |= {"_fields": fields, "_field_defaults": defaults, "__match_args__": fields, "__new__": made}
            if taken := own.keys() & body.keys():
                raise TypeError(f"{name} defines {', '.join(sorted(taken))}, which a named tuple has by itself")
            with_tuple = tuple(_Tuple if base is NamedTuple else base for base in bases)
            return type.__new__(type, name, with_tuple, body | own | {"__slots__": ()})

    NamedTuple = type.__new__(_Definition, "NamedTuple", (), {"__doc__": "Tuple with named fields: typing.NamedTuple."})
    NEW = tuple.__new__

    @cache
    def _constructor(fields):
        """Return a constructor with this number of fields; each class gives them names and defaults of its own."""
        return namedtuple("Fields", [f"field{place}" for place in range(fields)]).__new__

    @cache
    def _getter(place):
        return _tuplegetter(place, f"Field {place}")

    def _fields(body):
        """Return the names that are annotated in the body of a class."""
        if "__annotations__" in body:
            return tuple(body["__annotations__"])
        import sys

        if sys.version_info < (3, 14):
            return ()
        from annotationlib import Format, call_annotate_function, get_annotate_from_class_namespace  # PEP 649

        annotate = get_annotate_from_class_namespace(body)
        return () if annotate is None else tuple(call_annotate_function(annotate, Format.FORWARDREF))
