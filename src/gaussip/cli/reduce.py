"""gaussip reduce."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gaussip.cli.console import Answer, Json, progress
from gaussip.cli.options import NaValues, Overwrite, Sites, Tables, option
from gaussip.errors import DataError, ModelFileError, SettingError
from gaussip.files import refuse_overwriting
from gaussip.settings import default

MOST = 0.9  # of all variance: a feature with more decides the components alone


def run(
    tables: Tables,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the reduced rows go (.csv or .parquet).")],
    basis: Annotated[
        Path, typer.Option(help="The basis (.npz): written with --keep, read without, to reduce other rows alike.")
    ],
    keep: Annotated[
        str | None, typer.Option(help="How many components (3), or the share of the variance they exceed (0.9).")
    ] = None,
    sites: Sites = None,
    feature_columns: Annotated[
        str | None, typer.Option("--features", help="Feature columns, with commas; default: all columns of numbers.")
    ] = None,
    others: Annotated[
        str, typer.Option("--no-features", help="Columns of numbers that are not features (labels), with commas.")
    ] = "",
    na_values: NaValues = "",
    standardise: Annotated[bool, typer.Option(help="Divide features by their standard deviations first.")] = False,
    network: Annotated[str, option("network", help="ring, star, circle, ...: over which sites agree.")] = default(
        "network"
    ),
    force: Overwrite = False,
    json: Json = False,
) -> Answer:
    """Principal components in place of features, of the rows of all sites, by sums over the sites.

    Other columns (the site, labels, names) are kept beside the components pc1, pc2, ...

    Example: `gaussip reduce patients.parquet --sites hospital --keep 0.9 --basis basis.npz --out reduced.parquet`
    """
    import numpy as np

    from gaussip.preprocessing import NetworkPCA
    from gaussip.rows.basis import load, reduced_names
    from gaussip.rows.missing_codes import Codes
    from gaussip.rows.table_files import table_kind, write_table
    from gaussip.rows.tables import listed, numeric_columns, pick, read_sites, without

    table_kind(out)
    if out.resolve() == basis.resolve():
        raise SettingError("--out and --basis name the same file")
    if keep is None:
        refuse_overwriting(out, force=force, inputs=[*tables, basis])
    else:
        refuse_overwriting(out, basis, force=force, inputs=tables)
    chosen = listed(feature_columns) if feature_columns else None
    if keep is None and (chosen or others or standardise or network != default("network")):
        raise SettingError(
            "without --keep rows are reduced by the basis as it is: leave --features, --no-features, --standardise "
            "and --network out"
        )
    with progress(1000, percent=True) as advance:
        advance("reading", 0)
        joined, named_by_file = read_sites(tables, [] if sites is None else [sites])
        left = without(joined, others)
        if keep is None:
            try:
                agreed, features = load(basis)
            except ModelFileError as error:
                error.remedy = (
                    "gaussip reduce writes one with --keep, and so does every site of a federation that reduces"
                )
                raise
            if not features:
                raise DataError(f"{basis} was made of an array, and does not name its features; use it from Python")
        else:
            features = chosen or [name for name in numeric_columns(left) if name != sites]
        if not features:
            raise DataError("the table has no columns of numbers; name the feature columns with --features")
        try:
            columns = pick(left, features=features, sites=sites, codes=Codes.of_text(na_values))
        except DataError as error:
            if error.column in left.column_names:
                error.remedy = f"{error.remedy}; leave out a column that is not a feature with --no-features"
            raise
        X = np.column_stack([column.to_numpy() for column in columns.X.columns])
        cost: dict[str, Any] = {}
        remark = []
        if keep is not None:
            of_row = columns.sites if columns.sites is not None else named_by_file
            pca = NetworkPCA(_number(keep), standardise=standardise, network=network)
            if of_row is None:
                raise SettingError("name the column of sites with --sites, or give one table for each site")
            pca._watch = lambda part: advance("agreeing on a basis", int(1000 * part))
            agreed = pca.fit(X, sites=of_row).basis_
            agreed.save(basis, features)
            cost = {"exchanges": pca.n_exchanges_, "bytes": pca.bytes_}
            remark = _remark(pca, features, standardise)
        reduced = agreed.reduced(X)
    names = reduced_names(len(agreed.variances))
    beside = {name: joined[name] for name in joined.column_names if name not in features}
    clash = [name for name in names if name in beside]
    if clash:
        raise DataError(f"the table has a column {clash[0]!r} that is not a feature; rename it")
    if named_by_file is not None:
        beside.setdefault("site", named_by_file)
    write_table(out, beside | {name: reduced[:, k] for k, name in enumerate(names)})
    share = float(agreed.variances.sum() / agreed.total)
    text = (
        f"{len(X)} rows: {len(names)} component{'s' * (len(names) > 1)} in place of {len(features)} features "
        f"({_some(features)}), {share:.1%} of the variance; basis {agreed.digest()[:12]}"
    )
    files = f"rows written to {out}" + (f", the basis to {basis}" if keep is not None else "")
    return Answer(
        [text, *remark, files], rows=len(X), out=str(out), basis=str(basis), components=len(names), features=features,
        explained=share, digest=agreed.digest(), remarks=remark, **cost,
    )  # fmt: skip


def _number(keep: str) -> float | int:
    try:
        return int(keep) if keep.strip().isdigit() else float(keep)
    except ValueError:
        raise SettingError(f"--keep {keep} is not a number; give for instance 3, or 0.9") from None


def _remark(pca: Any, features: list[str], standardise: bool) -> list[str]:
    """A word about a feature that decides the components alone."""
    variances = pca.covariance_.diagonal()
    j = int(variances.argmax())
    share = variances[j] / variances.sum()
    if standardise or len(features) == 1 or share < MOST:
        return []
    return [
        f"{features[j]!r} alone has {share:.1%} of the variance: if it is not a feature, "
        f"--no-features {features[j]}; if units differ, --standardise"
    ]


def _some(names: list[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
