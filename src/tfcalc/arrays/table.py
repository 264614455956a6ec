"""The answers of a sweep as labelled columns, which numpy, pandas, polars, pyarrow and DuckDB take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from tfcalc.errors import Unavailable
from tfcalc.render.as_frame import frame_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tfcalc.arrays.evaluation import RefusedPoints

    Array = NDArray[Any]

SHOWN = 60
"""Rows that a notebook shows."""
EXACT = 1 << 53
"""Bound of integers that floats represent exactly."""


class Table:
    """A row for each point: a column of each size, then the answers, all whole numbers.

    A point without an answer is masked (``numpy.ma``), null in Arrow, None in lists, and NaN in numpy's records.

    Attributes:
        of: the quantity.
        columns: the arrays by name: the sizes, then the answers.
        key: the name of the column of answers: ``total_params``, ``total_flops``, ``peak_bytes``, …
        units: of each column: ``params``, ``flops``, ``bytes``, ``tokens``, or "" where it is a plain count.
        valid: for each row, whether it has an answer.
        shape: that of the arrays that were swept, together.
        refused: why points have no answer: the error, the first such row, and how many there are.

    ``numpy.asarray(table)`` are records, which ``pandas.DataFrame`` takes. Where pyarrow is installed,
    ``polars.DataFrame(table)``, ``pyarrow.table(table)`` and DuckDB's ``FROM table`` take it as it is.
    """

    def __init__(
        self,
        of: str,
        key: str,
        units: Mapping[str, str],
        sizes: Mapping[str, Array],
        values: Array,
        valid: NDArray[np.bool_],
        shape: tuple[int, ...],
        refused: Sequence[RefusedPoints] = (),
    ) -> None:
        self.of, self.key, self.units = of, key, dict(units)
        self.valid, self.shape, self.refused = valid, shape, tuple(refused)
        answers = values if valid.all() else np.ma.MaskedArray(values, ~valid)
        self.columns: dict[str, Array] = {**sizes, key: answers}

    @property
    def unit(self) -> str:
        """Unit of the answers: ``params``, ``flops`` or ``bytes``."""
        return self.units[self.key]

    @property
    def values(self) -> Array:
        """The answers in the shape of the arrays that were swept."""
        return self.columns[self.key].reshape(self.shape)

    @property
    def rows(self) -> int:
        """Number of points."""
        return len(self.valid)

    def __getitem__(self, name: str) -> Array:
        """The column of this name."""
        return self.columns[name]

    def to_dict(self) -> dict[str, list[int | None]]:
        """Return each column as a list of Python's ints, None where there is no answer."""
        return {name: column.tolist() for name, column in self.columns.items()}

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Numpy's records, a field for each column; answers are floats with NaN where some are missing."""
        columns = {name: _filled(column) for name, column in self.columns.items()}
        records = np.empty(self.rows, [(name, column.dtype) for name, column in columns.items()])
        for name, column in columns.items():
            records[name] = column
        return records if dtype is None else records.astype(dtype)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Arrow stream, by pyarrow."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> Any:
        """A pyarrow.Table; the unit of a column is in the metadata of its field. Raises Unavailable without pyarrow.

        Whole numbers beyond 64 bits are decimals of 38 digits.
        """
        try:
            import pyarrow as arrow
        except ImportError:
            raise Unavailable("pyarrow is not installed", "pip install 'tfcalc[parquet]'") from None
        fields, arrays = [], []
        for name, column in self.columns.items():
            mask = np.ma.getmaskarray(column)
            wide = column.dtype == object
            kind = arrow.decimal128(38) if wide else arrow.int64()
            data = np.ma.getdata(column)
            arrays.append(arrow.array(data.tolist() if wide else data, kind, mask=mask if mask.any() else None))
            fields.append(arrow.field(name, kind, metadata={"unit": self.units[name]}))
        return arrow.table(arrays, schema=arrow.schema(fields))

    def to_frame(self, library: str = "") -> Any:
        """The columns as a ``DataFrame`` of pandas or polars, null where there is no answer."""
        return frame_of(self.to_dict(), library)

    def _repr_html_(self) -> str:
        columns = self.to_dict()
        head = "".join(f"<th>{name}</th>" for name in columns)
        rows = (
            "".join(f"<td>{'' if value is None else f'{value:,}'}</td>" for value in row)
            for row in islice(zip(*columns.values(), strict=True), SHOWN)
        )
        more = f"<p>{self.rows:,} rows</p>" if self.rows > SHOWN else ""
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"

    def __repr__(self) -> str:
        return f"Table({self.of}: {self.rows:,} rows of {', '.join(self.columns)})"


def _filled(column: Array) -> Array:
    """Without a mask: NaN where there is none."""
    if not np.ma.isMaskedArray(column):
        return column
    return np.ma.filled(column.astype(np.float64), np.nan)
