"""What a run leaves in the site's folder for people, beside its model; and where that of earlier runs goes."""

import datetime as dt
from pathlib import Path
from typing import Any

from gaussip.errors import FileError, UncertaintyError
from gaussip.federation.folders import SiteFolder
from gaussip.files import write_json
from gaussip.inference import Uncertainty
from gaussip.inference.information import concluded
from gaussip.mixture.owners import Owners, component_names
from gaussip.node.local_data import sorted_classes
from gaussip.phases.program import Program
from gaussip.rows.basis import reduced_names
from gaussip.rows.table_files import write_table
from gaussip.selection import Selection

LEVEL = 0.95
SELECTION_FILE, INTERVALS_FILE = "selection.json", "intervals.csv"  # what a run may leave in the site's folder
EARLIER = "earlier"  #: where the results of earlier runs are


def put_aside(folder: SiteFolder) -> Path | None:
    """Move what an earlier run left for people into a folder of its own; where it then is."""
    paths = (folder.model, folder.basis, folder.path / SELECTION_FILE, folder.path / INTERVALS_FILE)
    part = folder.path / EARLIER / ".part"  # of which a crash may have left some
    old = [path for path in paths if path.exists()]
    if not old and not part.exists():
        return None
    try:
        part.mkdir(parents=True, exist_ok=True)
        for path in old:
            path.replace(part / path.name)
        ended = max((path.stat().st_mtime for path in part.iterdir()), default=part.stat().st_mtime)
        aside = part.with_name(f"{dt.datetime.fromtimestamp(ended, dt.UTC):%Y-%m-%dT%H%M%S}")
        while aside.exists():
            aside = aside.with_name(f"{aside.name}+")
        part.rename(aside)
    except OSError as error:
        raise FileError(f"cannot move the results of an earlier run to {part.parent}: {error.strerror}") from error
    return aside


def keep_selection(folder: SiteFolder, selection: Selection, largest: int) -> dict[str, Any]:
    """Write the number of components that all sites chose; what to report of it."""
    margin = selection.margin if len(selection.sound) > 1 else None
    chosen = {"components": selection.n_components, "criterion": selection.criterion, "margin": margin}
    last = selection.n_components == largest and len(selection.lines) > 1
    beware = "the last that was looked at: a larger at_most may be better" if last else None
    lines = [line._asdict() for line in selection.lines]
    write_json(folder.path / SELECTION_FILE, {**chosen, "ended": selection.ended, "lines": lines})
    degenerate = {str(line.n_components): line.degenerate for line in selection.lines if line.degenerate}
    return {**chosen, "beware": beware, **({"degenerate": degenerate} if degenerate else {})}


def keep_intervals(folder: SiteFolder, program: Program) -> str:
    """Write standard errors and 95% intervals, where the information allows them; what to report of it."""
    summed, path = program.results.get("information"), folder.path / INTERVALS_FILE
    if summed is None:
        return "no standard errors: the fit has not converged"
    if not summed.information.size:
        return "no standard errors: a site's information is too large a number; see `gaussip intervals --help`"
    d, theta, robust = folder.description, program.estimate(), program.task.intervals == "robust"
    K, p = theta.means.shape
    features = d.features if d.reduce is None else reduced_names(p)
    try:
        conclusion = concluded(
            summed.information, summed.scale, features, robust=robust, covariance_type=d.covariance_type
        )
    except UncertaintyError as error:
        return f"no standard errors: {error}"
    components = component_names(sorted_classes(d), (d.owners() or Owners(())).classes(K))
    write_table(path, Uncertainty(theta, *conclusion, robust, components, features).table(LEVEL).columns)
    return f"standard errors in {path.name}"
