"""A table as a Parquet file."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tfcalc.errors import Unavailable

if TYPE_CHECKING:
    from tfcalc.answers.plan_keys import LayoutColumn
    from tfcalc.arrays.table import Table


def parquet(table: Table) -> bytes:
    """The file's bytes; the unit of a column is in the metadata of its field. Raises Unavailable without pyarrow."""
    return _written(table.to_arrow, "--format csv")


def parquet_of(columns: Mapping[str, LayoutColumn]) -> bytes:
    """The file's bytes, of columns by name. Raises Unavailable without pyarrow."""

    def to_arrow() -> Any:
        import pyarrow as arrow

        arrays = [arrow.array(column.values) for column in columns.values()]
        fields = [
            arrow.field(name, array.type, metadata={"unit": column.unit})
            for (name, column), array in zip(columns.items(), arrays, strict=True)
        ]
        return arrow.table(arrays, schema=arrow.schema(fields))

    return _written(to_arrow, "-o FILE.csv")


def _written(to_arrow: Callable[[], Any], instead: str) -> bytes:
    try:
        from pyarrow import parquet as files
    except ImportError:
        raise Unavailable("pyarrow is not installed", f"pip install 'tfcalc[parquet]', or give {instead}") from None
    out = io.BytesIO()
    files.write_table(to_arrow(), out)
    return out.getvalue()
