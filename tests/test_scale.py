"""The same array function where arrays are too large: Dask on two processes, DuckDB, and columns for who reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfcalc

pytestmark = [pytest.mark.scale, pytest.mark.filterwarnings("ignore")]
BATCHES, LENGTHS = np.arange(1, 9), np.arange(1, 2001)


def peak_bytes(batch_size: Any, seq_len: Any) -> Any:
    """As in docs/scale.md."""
    step = tfcalc.Workload(phase="train")
    return tfcalc.sweep(tfcalc.load("llama-3-8b"), "memory", step, batch_size=batch_size, seq_len=seq_len).values


@pytest.fixture(scope="module")
def at_once() -> Any:
    return peak_bytes(BATCHES[:, None], LENGTHS[None, :])


def test_two_processes_of_dask_give_the_same_bytes(at_once: Any) -> None:
    import dask
    import dask.array as da
    from dask.distributed import Client, LocalCluster

    # Dask's profiler holds the frames that it looks at, and so tensors that are free: the tape counts references.
    dask.config.set({"distributed.worker.profile.enabled": False})
    local = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with local as cluster, Client(cluster) as client:
        asked = client.run(dask.config.get, "distributed.worker.profile.enabled")
        assert list(asked.values()) == [False, False]
        batch, length = (
            da.from_array(BATCHES[:, None], chunks=(3, 1)),
            da.from_array(LENGTHS[None, :], chunks=(1, 700)),
        )
        mapped = da.map_blocks(peak_bytes, batch, length, dtype=np.int64, chunks=((3, 3, 2), (700, 700, 600)))
        found = mapped.compute()
        assert len(client.scheduler_info()["workers"]) == 2
    assert found.dtype == at_once.dtype
    assert found.tobytes() == at_once.tobytes()


def test_a_function_of_arrow_columns_gives_the_same_in_duckdb(at_once: Any) -> None:
    import duckdb
    import pyarrow as pa

    db = duckdb.connect()
    db.create_function(
        "peak_bytes",
        lambda batch, length: pa.array(peak_bytes(batch.to_numpy(), length.to_numpy())),
        ["BIGINT", "BIGINT"],
        "BIGINT",
        type="arrow",
    )
    found = db.sql(
        "select peak_bytes(batch, length) from range(1, 9) t(batch), range(1, 2001) u(length) order by batch, length"
    ).fetchnumpy()
    (column,) = found.values()
    assert np.asarray(column, np.int64).tobytes() == at_once.ravel().tobytes()


def swept() -> Any:
    """Two points, of which one is no model: 513 does not divide by 8 heads."""
    return tfcalc.sweep(tfcalc.Transformer(), d_model=[512, 513])


def test_pandas_takes_the_columns() -> None:
    import pandas as pd

    frame = pd.DataFrame(np.asarray(swept()))
    assert list(frame.columns) == ["d_model", "total_params"]
    assert frame["total_params"][0] == 44_140_544
    assert frame["total_params"].isna().tolist() == [False, True]
    assert pd.DataFrame(swept().to_dict())["d_model"].tolist() == [512, 513]


def test_polars_pyarrow_and_duckdb_take_the_columns() -> None:
    import duckdb
    import polars as pl
    import pyarrow as pa

    assert pl.DataFrame(swept())["total_params"].to_list() == [44_140_544, None]
    table = pa.table(swept())
    assert table.to_pydict() == swept().to_dict()
    assert table.schema.field("total_params").metadata == {b"unit": b"params"}
    columns = swept()  # by its name in the query
    assert columns.rows == 2
    assert duckdb.sql("from columns where total_params is null").fetchall() == [(513, None)]


def test_numbers_beyond_64_bits_are_decimals() -> None:
    import pyarrow as pa

    run = tfcalc.Workload(batch_size=10**6)
    found = tfcalc.sweep(tfcalc.load("gpt2"), "flops", run, seq_len=[8, 10**9])
    assert [int(each) for each in pa.table(found).to_pydict()["total_flops"]] == found.values.tolist()


def test_a_parquet_file_has_the_columns_and_their_units(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from pyarrow import parquet

    from tfcalc.cli.main import main

    file = tmp_path / "cache.parquet"
    assert main(f"sweep gpt2 --of cache --context 16,32 --concurrency 1,2 -o {file}".split()) == 0
    table = parquet.read_table(file)
    # 12 layers, keys and values of 768 numbers of 2 bytes for each token: engines serve fp32 checkpoints in 16 bits
    assert table.column_names == ["context", "concurrency", "kv_cache_bytes"]
    assert table.schema.field("kv_cache_bytes").metadata == {b"unit": b"bytes"}
    tokens = [row["context"] * row["concurrency"] for row in table.to_pylist()]
    assert [row["kv_cache_bytes"] for row in table.to_pylist()] == [12 * 2 * 768 * each * 2 for each in tokens]
    assert capsys.readouterr().out == ""
