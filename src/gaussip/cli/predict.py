"""gaussip predict."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gaussip.cli.console import Answer, Json, component_names
from gaussip.cli.options import Overwrite
from gaussip.errors import DataError
from gaussip.files import refuse_overwriting


def run(
    model: Annotated[Path, typer.Argument(help="A model written by gaussip fit.")],
    rows: Annotated[Path, typer.Argument(metavar="TABLE", help="CSV or Parquet with the model's features.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="CSV or Parquet to write; default: CSV on standard output.")
    ] = None,
    force: Overwrite = False,
    json: Json = False,
) -> Answer:
    """Predict each row's class (or component), with its probabilities and log-density.

    Example: `gaussip predict model.npz new-patients.csv --out predicted.csv`
    """
    import io

    import numpy as np
    import pyarrow as pa
    import pyarrow.csv

    from gaussip.estimator import NetworkGaussianMixture
    from gaussip.rows.tables import pick, read_table, write_table

    mixture = NetworkGaussianMixture.load(model)
    if out is not None:
        refuse_overwriting(out, force=force, inputs=[model, rows])
    features = [str(name) for name in getattr(mixture, "feature_names_in_", [])]
    given = read_table(rows)
    reduced = features and all(name.startswith("pc") and name[2:].isdigit() for name in features)
    if reduced and not set(features) & set(given.column_names):
        raise DataError(
            f"the model is of {len(features)} components, which {rows} does not have: reduce its rows first, with "
            f"gaussip reduce {rows} --basis BASIS --out FILE"
        )
    table = pick(given, features=features or given.column_names).X
    if table.num_columns != mixture.n_features_in_:
        raise DataError(f"the model has {mixture.n_features_in_} features, the table {table.num_columns} columns")
    X = table if features else np.column_stack([column.to_numpy() for column in table.columns])
    shares, densities = mixture._responsibilities(X)
    probabilities = mixture._of_outcomes(shares)
    best = probabilities.argmax(axis=1)
    outcomes = mixture._outcomes()
    names = [str(name) for name in outcomes] if len(mixture.classes_) else component_names(mixture)
    columns: dict[str, Any] = {"prediction": outcomes[best] if len(mixture.classes_) else np.array(names)[best]}
    columns |= {f"probability of {name}": probabilities[:, k] for k, name in enumerate(names)}
    columns["log-density"] = densities
    if out is not None:
        write_table(out, columns)
        counts = np.bincount(best, minlength=len(names))
        found = ", ".join(f"{count} {name}" for count, name in zip(counts, names, strict=True))
        text = f"{table.num_rows} rows: {found}; written to {out}"
    else:
        buffer = io.BytesIO()
        pa.csv.write_csv(pa.table(columns), buffer)
        text = buffer.getvalue().decode().rstrip()
    return Answer(
        [text], rows=table.num_rows, out=None if out is None else str(out), **({} if out else {"columns": columns})
    )
