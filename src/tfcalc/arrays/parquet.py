"""A table as a Parquet file."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from tfcalc.errors import Unavailable

if TYPE_CHECKING:
    from tfcalc.arrays.table import Table


def parquet(table: Table) -> bytes:
    """The file's bytes; the unit of a column is in the metadata of its field. Raises Unavailable without pyarrow."""
    try:
        from pyarrow import parquet as files
    except ImportError:
        hint = "pip install 'tfcalc[parquet]', or give --format csv"
        raise Unavailable("pyarrow is not installed", hint) from None
    out = io.BytesIO()
    files.write_table(table.to_arrow(), out)
    return out.getvalue()
