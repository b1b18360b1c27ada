"""gaussip predict."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gaussip.cli.console import Answer, Json, component_names
from gaussip.cli.model_tables import read_for
from gaussip.cli.options import Named, NaValues, Overwrite
from gaussip.errors import DataError
from gaussip.files import refuse_overwriting


def run(
    model: Annotated[Path, typer.Argument(help="A model written by gaussip fit.")],
    rows: Annotated[Path, typer.Argument(metavar="TABLE", help="CSV, TSV or Parquet with the model's features.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="CSV, TSV or Parquet to write; default: CSV on standard output."),
    ] = None,
    na_values: NaValues = "",
    force: Overwrite = False,
    json: Json = False,
) -> Answer:
    """Predict each row's class (or component), with its probabilities and log-density.

    Rows may have missing cells. Columns that are not features (a patient's number) are kept in front.

    Example: `gaussip predict model.npz new-patients.csv --out predicted.csv`
    """
    import io

    import numpy as np
    import pyarrow as pa
    import pyarrow.csv

    from gaussip.estimator import NetworkGaussianMixture
    from gaussip.rows.table_files import write_table

    mixture = NetworkGaussianMixture.load(model)
    if out is not None:
        refuse_overwriting(out, force=force, inputs=[model, rows])
    table = read_for(mixture, [rows], Named(na_values=na_values))
    shares, densities = mixture._responsibilities(table.X)
    probabilities = mixture._of_outcomes(shares)
    best = probabilities.argmax(axis=1)
    outcomes = mixture._outcomes()
    names = [str(name) for name in outcomes] if len(mixture.classes_) else component_names(mixture)
    found: dict[str, Any] = {"prediction": outcomes[best] if len(mixture.classes_) else np.array(names)[best]}
    found |= {f"probability of {name}": probabilities[:, k] for k, name in enumerate(names)}
    found["log-density"] = densities
    clash = [name for name in found if name in table.others]
    if clash:
        raise DataError(f"{rows} already has a column {clash[0]!r}", column=clash[0], remedy="rename it")
    columns = table.others | found
    n_rows = len(best)
    if out is not None:
        write_table(out, columns)
        counts = np.bincount(best, minlength=len(names))
        counted = ", ".join(f"{count} {name}" for count, name in zip(counts, names, strict=True))
        text = f"{n_rows} rows: {counted}; written to {out}"
    else:
        buffer = io.BytesIO()
        pa.csv.write_csv(pa.table(columns), buffer)
        text = buffer.getvalue().decode().rstrip()
    listed = {name: column.to_pylist() for name, column in table.others.items()} | found
    return Answer([text], rows=n_rows, out=None if out is None else str(out), **({} if out else {"columns": listed}))
