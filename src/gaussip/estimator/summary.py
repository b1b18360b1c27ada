"""A fitted mixture as a table: a component to a row, or to a column where it is printed."""

from typing import Any

import numpy as np

from gaussip.mixture.owners import component_names
from gaussip.rows.checks import feature_names
from gaussip.simulation.history import SITE
from gaussip.tabular import Table


def summary(mixture: Any) -> Table:
    """Each component's class, weight, and the mean and standard deviation of each feature."""
    classes, of_component = mixture.classes_.tolist(), mixture.class_of_component_
    deviations = np.sqrt(np.diagonal(mixture._theta().covariances, axis1=-2, axis2=-1))
    columns: dict[str, list[Any]] = {"component": component_names(classes, of_component)}
    if classes:
        columns["class"] = [None if c < 0 else classes[c] for c in of_component.tolist()]
    columns["weight"] = mixture.weights_.tolist()
    for j, name in enumerate(feature_names(mixture)):
        columns[f"mean {name}"] = mixture.means_[:, j].tolist()
        columns[f"sd {name}"] = deviations[:, j].tolist()
    return Table(columns, head=_head(mixture), formats={"weight": ".3f"}, turned=True)


def _head(mixture: Any) -> str:
    names, rows = mixture.sites_.tolist(), f"{mixture.site_mass_.sum():.10g} rows"
    if mixture.origin_ == SITE:
        where = f"all sites, of which {names[0]!r} has {rows}"
    else:
        where = rows if len(names) == 1 else f"{rows} at {len(names)} sites"
    algorithm = "em" if len(names) == 1 and mixture.origin_ != SITE else mixture.algorithm
    if mixture.privacy_ is not None:
        about = f"about {mixture.site_mass_.sum():.0f} rows at {len(names)} sites"
        return f"{algorithm}, {about}: {mixture.n_rounds_} rounds, {mixture.privacy_}"
    ended = "converged" if mixture.converged_ else "not converged"
    return (
        f"{algorithm}, {where}: {ended} after {mixture.n_rounds_} rounds, "
        f"log-likelihood {mixture.lower_bound_:.6g} per row"
    )
