"""A private fit at one site: every sum has noise, of which the site adds its share to its own part."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.exchange.questions import Replicated
from gaussip.mixture.owners import Owners
from gaussip.mixture.theta import Theta, width
from gaussip.phases.base import Context
from gaussip.phases.fit import Fitted
from gaussip.phases.summing import Computation
from gaussip.phases.task import LocalData, Task
from gaussip.privacy import BoundedRows, Guarantee, PrivateFit, ask_private
from gaussip.privacy.fit import Model, needed_for
from gaussip.privacy.look import NAMES
from gaussip.privacy.rows import refuse_heavy, refuse_narrow
from gaussip.privacy.start import TRIALS


class Private(NamedTuple):
    """What all sites know at the end."""

    weights: NDArray  #: in the units of the table
    means: NDArray
    covariances: NDArray
    rows: float  #: of all sites, with noise
    settled: bool
    changes: NDArray  #: (T,), the largest move of each round
    covariance: NDArray  #: (q, q) of the packed theta, noise included; (0, 0) where it is not known
    mus: NDArray  #: of each release
    sizes: NDArray  #: how many numbers each has
    names: NDArray  #: the place of each one's name in `NAMES`

    @classmethod
    def of(cls, found: PrivateFit) -> Private:
        """What a computation led to, as arrays and numbers."""
        names, mus, sizes = zip(*found.guarantee.releases, strict=True)
        covariance = np.zeros((0, 0)) if found.covariance is None else found.covariance
        return cls(
            *found.theta, found.rows, found.settled, np.array(found.changes), covariance,
            np.array(mus), np.array(sizes), np.array([NAMES.index(name) for name in names]),
        )  # fmt: skip

    @property
    def fitted(self) -> Fitted:
        """As the end of a fit."""
        rounds, nan = len(self.changes), float("nan")
        change = float(self.changes[-1])
        return Fitted(
            self.weights, self.means, self.covariances, bool(self.settled), rounds, rounds, nan, change, 0.0, 1.0, 0,
            float(self.rows),
        )  # fmt: skip

    def found(self, task: Task) -> PrivateFit:
        """As the computation gave it."""
        covariance = np.asarray(self.covariance) if np.size(self.covariance) else None
        theta = Theta(np.asarray(self.weights), np.asarray(self.means), np.asarray(self.covariances))
        changes = np.asarray(self.changes).tolist()
        return PrivateFit(theta, float(self.rows), changes, bool(self.settled), covariance, self.guarantee(task))

    def guarantee(self, task: Task) -> Guarantee:
        """What is guaranteed."""
        assert task.privacy is not None
        names = (NAMES[place] for place in self.names.tolist())
        releases = list(zip(names, self.mus.tolist(), self.sizes.tolist(), strict=True))
        return Guarantee.of(task.privacy, releases)


class PrivatePhase(Computation):
    """Everything between the keys and the end of a run."""

    name = "private"
    doing = "fitting with noise"

    @classmethod
    def begin(cls, context: Context, results: dict[str, Any]) -> PrivatePhase | None:
        """Where the fit is private."""
        task = context.task
        if task.privacy is None:
            return None
        return cls(context, results, _asked(task), bounded(task, context.local, context.index), most_words(task))


def _asked(task: Task) -> Replicated[Private]:
    assert task.privacy is not None
    return Private.of((yield from ask_private(task.privacy, model_of(task), len(task.sites))))


def model_of(task: Task) -> Model:
    """What is fitted, beside the rows."""
    assert task.features is not None
    return Model(
        task.n_components, task.features, task.owners or Owners(()), task.class_of_component, task.allowed,
        task.algorithm.covariance_type, task.reg_covar, task.unlabelled_weight, task.seed,
        task.start if isinstance(task.start, Theta) else None,
    )  # fmt: skip


def needs(task: Task) -> str:
    """What the sites need for a private fit, for people: before anything is sent."""
    assert task.privacy is not None
    needed = needed_for(task.privacy, model_of(task), len(task.sites))
    labelled = f", and {needed.labelled} of each class with a label" * (task.n_classes > 0)
    return f"at least {needed.rows} {task.privacy.counted} of all sites together{labelled}"


def bounded(task: Task, local: LocalData, index: int) -> BoundedRows:
    """The rows of one site within their bounds."""
    assert task.privacy is not None
    assert task.features is not None
    labels, weights = (None if part is None else [part] for part in (local.labels, local.weights))
    return BoundedRows.within(
        task.privacy.limits(task.features), [local.X], labels, weights, local.allowed(task), task.unlabelled_weight,
        np.array([index]),
    )  # fmt: skip


def refuse_unbounded(task: Task, local: LocalData, index: int) -> None:
    """Refuse rows, before anything is sent, that lie beyond the bounds or weigh too much."""
    if task.privacy is None:
        return
    assert task.features is not None
    limits = task.privacy.limits(task.features)
    refuse_narrow(limits, local.X, local.weights, task.features, task.sites[index], own=True)
    if local.weights is not None:
        refuse_heavy([local.weights])


def most_words(task: Task) -> int:
    """The words of the longest sum."""
    K, p = task.n_components, task.n_features
    return max(K * width(p), TRIALS * (K * (p + 1) + 1), 1 + 3 * p + task.n_classes)
