"""gaussip reduce."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gaussip.cli.console import Answer, Json, progress
from gaussip.errors import DataError, SettingError
from gaussip.files import refuse_overwriting


def run(
    tables: Annotated[
        list[Path], typer.Argument(metavar="TABLE...", help="CSV or Parquet. One table, or one for each site.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the reduced rows go (.csv or .parquet).")],
    basis: Annotated[
        Path, typer.Option(help="The basis (.npz): written with --keep, read without, to reduce other rows alike.")
    ],
    keep: Annotated[
        float | None, typer.Option(help="Components, or the share of the variance that they are to exceed.")
    ] = None,
    sites: Annotated[str | None, typer.Option(help="Column that names each row's site.")] = None,
    feature_columns: Annotated[
        str | None, typer.Option("--features", help="Feature columns, with commas; default: all columns of numbers.")
    ] = None,
    others: Annotated[
        str, typer.Option("--no-features", help="Columns of numbers that are no features (labels), with commas.")
    ] = "",
    standardise: Annotated[bool, typer.Option(help="Divide features by their standard deviations first.")] = False,
    network: Annotated[str, typer.Option(help="ring, star, circle, ...: over which sites agree.")] = "ring",
    force: Annotated[bool, typer.Option(help="Overwrite files that are there.")] = False,
    json: Json = False,
) -> Answer:
    """Principal components in place of features, agreed on by sites that exchange moments with their neighbours.

    Other columns (the site, labels, names) are kept beside the components pc1, pc2, ...

    Example: `gaussip reduce patients.parquet --sites hospital --keep 0.9 --basis basis.npz --out reduced.parquet`
    """
    import numpy as np
    import pyarrow as pa

    from gaussip.data.tables import numeric_columns, pick, read_sites, write_table
    from gaussip.preprocessing import NetworkPCA
    from gaussip.preprocessing.basis import load, reduced_names

    refuse_overwriting(out, force=force)
    joined, named_by_file = read_sites(tables, [] if sites is None else [sites])
    chosen = [name.strip() for name in feature_columns.split(",")] if feature_columns else None
    if keep is None:
        found, features = load(basis)
        if chosen is not None and chosen != features:
            raise SettingError(f"the basis is of the features {', '.join(features)}: leave --features out")
    else:
        refuse_overwriting(basis, force=force)
        left_out = {sites, *(name.strip() for name in others.split(","))}
        features = chosen or [name for name in numeric_columns(joined) if name not in left_out]
        if not features:
            raise DataError("the table has no columns of numbers; name the feature columns with --features")
    columns = pick(joined, features=features, sites=sites)
    X = np.column_stack([column.to_numpy() for column in columns.X.columns])
    told = {}
    if keep is not None:
        of_row = columns.sites if columns.sites is not None else named_by_file
        if of_row is None:
            raise SettingError("name the column of sites with --sites, or give one table for each site")
        pca = NetworkPCA(
            int(keep) if keep >= 1 and keep.is_integer() else keep, standardise=standardise, network=network
        )
        with progress(1000, percent=True) as advance:
            pca._watch = lambda part: advance("agreeing on a basis", int(1000 * part))
            pca.fit(X, sites=of_row)
        found = pca.basis_
        found.save(basis, features)
        told = {"exchanges": pca.n_exchanges_, "bytes": pca.bytes_}
    names = reduced_names(len(found.variances))
    reduced = found.reduced(X)
    beside = {name: joined[name] for name in joined.column_names if name not in features}
    clash = [name for name in names if name in beside]
    if clash:
        raise DataError(f"the table has a column {clash[0]!r} that is no feature; rename it")
    if named_by_file is not None:
        beside.setdefault("site", pa.array(named_by_file))
    write_table(out, beside | {name: reduced[:, k] for k, name in enumerate(names)})
    share = float(found.variances.sum() / found.total)
    text = (
        f"{len(X)} rows: {len(names)} components in place of {len(features)} features, {share:.1%} of the variance; "
        f"basis {found.digest()[:12]}"
    )
    files = f"rows written to {out}" + (f", the basis to {basis}" if keep is not None else "")
    return Answer(
        [text, files], rows=len(X), out=str(out), basis=str(basis), components=len(names), features=len(features),
        explained=share, digest=found.digest(), **told,
    )  # fmt: skip
