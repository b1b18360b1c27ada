"""gaussip check."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from gaussip.cli import options
from gaussip.cli.console import Answer, Json, progress, table
from gaussip.files import refuse_overwriting

if TYPE_CHECKING:
    from gaussip.inspection import Cells, Concern, TableCheck

MOST_LINES = 60  # of the table of cells; of more only those of features with a warning


def run(
    tables: options.Tables,
    sites: options.Sites = None,
    labels: options.Labels = None,
    weights: options.Weights = None,
    feature_columns: options.Features = None,
    others: options.NoFeatures = "",
    na_values: options.NaValues = "",
    plot: Annotated[Path | None, options.drawn("where each feature lies at each site")] = None,
    force: options.Overwrite = False,
    json: Json = False,
) -> Answer:
    """Look at a table before a fit: missing cells, codes for them, heaps, constants, other units at a site.

    Without --sites the rows of one table are taken together. Rows of weight zero are left out.

    Exit codes: 0 looked at, whatever was found, 2 a table that cannot be read.

    Example: `gaussip check patients.csv --sites hospital --plot check.png`
    """
    import numpy as np

    from gaussip.inspection import check_table
    from gaussip.plots import draw_cells, paths_of, save

    if plot is not None:
        refuse_overwriting(*paths_of(plot), force=force, inputs=tables)
    named = options.Named(sites, labels, weights, feature_columns, others, na_values)
    columns, n_labelled = options.read_columns(tables, named, alone=True, warned=False)
    of_row = np.full(columns.X.num_rows, tables[0].stem) if columns.sites is None else columns.sites
    features = columns.X.num_columns
    with progress(features) as advance:
        seen = check_table(
            columns.X, columns.labels, sites=of_row, sample_weight=columns.weights,
            watch=lambda done: advance("looking at features", done),
        )  # fmt: skip
    files = [] if plot is None else [str(path) for path in save(draw_cells(seen), plot)]
    head = f"{seen.rows.sum()} rows at {len(seen.sites)} site{'s' * (len(seen.sites) > 1)}, {features} features"
    shown: list[Any] = [f"{head}, {n_labelled} labelled" if seen.classes else head, ""]
    shown += [_sites(seen), "", *_cells(seen)]
    for concern in seen.concerns:
        shown += [_heading(concern, seen), f"  {concern.sentence}", f"  {concern.remedy}", ""]
    shown += [_verdict(seen.concerns)]
    changed = _changed(named, seen)
    if changed != named:
        words = ["gaussip", "check", *map(str, tables), *changed.words()]
        shown.append(f"look again without them: {shlex.join(words)}")
    shown += [f"written: {', '.join(files)}"] if files else []
    return Answer(
        shown, rows=seen.rows, sites=seen.sites, features=seen.features, classes=seen.classes,
        labelled=seen.labelled, cells=[cells._asdict() for cells in seen.cells],
        concerns=[concern._asdict() for concern in seen.concerns], files=files,
    )  # fmt: skip


def _sites(seen: TableCheck) -> Any:
    """The rows of each site, and the labelled ones by class."""
    rows = [
        [str(site), str(n), *map(str, counts)]
        for site, n, counts in zip(seen.sites, seen.rows.tolist(), seen.labelled.tolist(), strict=True)
    ]
    return table(["site", "rows", *(f"labelled {name}" for name in seen.classes)], rows)


def _cells(seen: TableCheck) -> list[Any]:
    """The cells of each feature at each site; where there are many, of features with a warning."""
    odd = {name for concern in seen.concerns for name in concern.features}
    everything = len(seen.cells) <= MOST_LINES
    shown = [cells for cells in seen.cells if everything or cells.feature in odd][:MOST_LINES]
    found = seen.found_at
    lines = [[*_line(cells), ", ".join(found.get((cells.feature, cells.site), []))] for cells in shown]
    names = ["feature", "site", "missing", "values", "least", "median", "largest", "warning"]
    drawn = table(names, lines, texts=["site", "warning"])
    rest = len(seen.cells) - len(shown)
    more = f"{rest} more lines, of features without a warning or beyond {MOST_LINES}: --json and --plot have all"
    return [*([drawn, ""] if shown else []), *([more, ""] if rest else [])]


def _line(cells: Cells) -> list[str]:
    missing = f"{cells.missing / cells.rows:.1%}" if cells.missing else "0"
    numbers = (cells.least, cells.median, cells.largest)
    return [
        cells.feature, str(cells.site), missing, str(cells.distinct),
        *("" if value != value else f"{value:.5g}" for value in numbers),
    ]  # fmt: skip


def _heading(concern: Concern, seen: TableCheck) -> str:
    """What was found, of which features, and at which sites if not at all."""
    parts = [concern.name]
    if concern.features:
        parts.append(", ".join(concern.features[:4]) + ", ..." * (len(concern.features) > 4))
    some = 0 < len(concern.sites) < len(seen.sites)
    where = f" at {', '.join(map(str, concern.sites))}" if some else ""
    return ": ".join(parts) + where


def _verdict(concerns: list[Concern]) -> str:
    if not concerns:
        return "nothing was found"
    n, features = len(concerns), len({name for concern in concerns for name in concern.features})
    return f"{n} warning{'s' * (n > 1)}, of {features} feature{'s' * (features != 1)}"


def _changed(named: options.Named, seen: TableCheck) -> options.Named:
    """The columns without what no fit should have; the same where that needs a decision."""
    from gaussip.inspection.concerns import CODE

    codes = [
        f"{concern.features[0]}={value:.10g}"
        for concern in seen.concerns
        if concern.name == CODE and not concern.evidence["elsewhere"]
        for value in concern.evidence["codes"]
    ]
    useless = [name for concern in seen.concerns if concern.evidence.get("everywhere") for name in concern.features]
    named = named._replace(na_values=",".join(filter(None, [named.na_values, *codes])))
    rest = [name for name in seen.features if name not in useless]
    if not useless or not rest:
        return named
    if named.features:
        return named._replace(features=",".join(rest))
    return named._replace(no_features=",".join(filter(None, [named.no_features, *useless])))
