"""What a site says of its own rows when it starts, in its own log. Nothing of it is sent."""

from gaussip.federation.folders import SiteFolder
from gaussip.inspection.concerns import Concern
from gaussip.inspection.own import own_concerns, own_units
from gaussip.node.logs import Logs
from gaussip.phases.private_fit import bounded, needs
from gaussip.phases.task import LocalData, Task
from gaussip.rows.cells import about_pairs
from gaussip.starts.facts import Facts

EVENT = "look at the rows"
MOST = 20  # events


def report_own(folder: SiteFolder, task: Task, local: LocalData, logs: Logs) -> None:
    """Log what may spoil a fit in the site's own rows, but for the features that it lacks by the description."""
    if task.privacy is not None:
        (weights,) = bounded(task, local, task.sites.index(folder.site)).weights
        logs.event("private run", needs=needs(task), own=f"{weights.sum():.0f} {task.privacy.counted}")
    d = folder.description
    lacks = d.sites[folder.site].lacks
    found = own_concerns(local.X, local.weights, d.features, folder.site)
    _log([concern for concern in found if concern.features[0] not in lacks], logs)


def report_facts(folder: SiteFolder, local: LocalData, facts: Facts, logs: Logs) -> None:
    """Log what the totals that all sites know say of the features, and of this site's units."""
    d = folder.description
    if d.reduce is not None:  # the totals are of components
        return
    if len(facts.apart):
        logs.event("features never observed together", why=about_pairs(facts.apart, d.features))
    if len(facts.seen):
        _log(own_units(local.X, local.weights, d.features, facts.seen, facts.mean, facts.variance), logs)


def _log(found: list[Concern], logs: Logs) -> None:
    for concern in found[:MOST]:
        why = f"{concern.name}: {concern.sentence}; {concern.remedy}"
        logs.event(EVENT, feature=concern.features[0], why=why)
    if len(found) > MOST:
        logs.event(EVENT, why=f"{len(found) - MOST} more warnings; gaussip check TABLE shows all")
