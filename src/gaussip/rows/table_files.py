"""Tables on disk: CSV with commas, semicolons or tabs, and Parquet."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from gaussip.errors import DataError
from gaussip.files import whole

NULLS = ["", "NA", "N/A", "NaN", "nan", "NULL", "null"]
TEXTS = (".csv", ".tsv", ".txt")
LOOKED_AT = 2**16  # bytes of a text, to see how its columns are separated
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


def read_table(path: str | os.PathLike[str], names: Sequence[str] = ()) -> pa.Table:
    """A text (.csv, .tsv, .txt) or Parquet (.parquet, .pq) file.

    A text's columns are separated by commas, semicolons or tabs, whichever its header line has; with semicolons or
    tabs, numbers may have decimal commas. ``names`` are columns that hold names (sites, classes): in a text they are
    kept as they are written, so that 01 and 1 stay apart.
    """
    file = Path(path)
    if not file.is_file():
        raise DataError(f"there is no file {file}")
    kind = table_kind(path)
    try:
        table = _of_text(file, names) if kind in TEXTS else pa.parquet.read_table(file)
        columns = table.column_names
    except (UnicodeDecodeError, pa.ArrowException, OSError) as error:
        hint = ""
        if kind in TEXTS:
            hint = "; a CSV is UTF-8 text with a header line, and commas, semicolons or tabs between columns"
        raise DataError(f"{file} cannot be read: {error}{hint}") from error
    if any(pa.types.is_binary(column.type) for column in table.columns) and kind in TEXTS:
        raise DataError(f"{file} is not UTF-8 text; save it as UTF-8")
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        raise DataError(f"{file} has more than one column named {twice[0]!r}", column=twice[0])
    if table.num_rows == 0:
        raise DataError(f"{file} has no rows")
    return table


def _of_text(file: Path, names: Sequence[str]) -> pa.Table:
    with file.open("rb") as opened:
        lines = opened.read(LOOKED_AT).decode("utf-8", "replace").splitlines()
    between = _separator(lines[0] if lines else "")
    parse = pa.csv.ParseOptions(delimiter=between)
    as_written = {name: pa.string() for name in names}

    def read(decimal_point: str) -> pa.Table:
        convert = pa.csv.ConvertOptions(
            null_values=NULLS, strings_can_be_null=True, column_types=as_written, decimal_point=decimal_point
        )
        return pa.csv.read_csv(file, parse_options=parse, convert_options=convert)

    cells = [cell.strip().strip('"') for line in lines[1:] for cell in line.split(between)] if between != "," else []
    return read("," if any(DECIMAL_COMMA.fullmatch(cell) for cell in cells) else ".")


def _separator(header: str) -> str:
    """What stands between the columns of a header line: that which it has most of, outside quotes."""
    bare = re.sub(r'"[^"]*"', "", header)
    return max(",;\t", key=bare.count)  # a comma where there is none


def write_table(path: str | os.PathLike[str], columns: Mapping[str, Any]) -> None:
    """Columns as a text or Parquet file, whole or not at all."""
    table, kind = pa.table(dict(columns)), table_kind(path)
    with whole(path) as partial:
        if kind in TEXTS:
            between = "," if kind == ".csv" else "\t"
            pa.csv.write_csv(table, partial, pa.csv.WriteOptions(delimiter=between))
        else:
            pa.parquet.write_table(table, partial)


def table_kind(path: str | os.PathLike[str]) -> str:
    """The ending of a table's file, lower case; refused where it is not that of a table."""
    kind = Path(path).suffix.lower()
    if kind not in (*TEXTS, ".parquet", ".pq"):
        raise DataError(f"{path}: tables are .csv, .tsv or .parquet files, not {kind or 'files without an ending'}")
    return kind
