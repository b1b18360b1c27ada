"""The information that all rows hold about the estimate, summed over the sites: for standard errors.

The first sum is of the sites' estimates, so that all know their average and count in its units; the second is of the
information.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import UncertaintyError
from gaussip.exchange.codes import Veiled, Wide
from gaussip.exchange.questions import Ask, Replicated
from gaussip.inference.information import COUNTED, part_size, scales, site_part
from gaussip.mixture.theta import to_psi, to_theta, width
from gaussip.phases.base import Context
from gaussip.phases.summing import Computation, held_by
from gaussip.rows.chunks import of_array
from gaussip.rows.held import Held


class Summed(NamedTuple):
    """What the sites summed."""

    scale: NDArray  #: (K, f), the units of the information
    information: NDArray  #: of all rows; empty where a site could not compute its part


class InformationPhase(Computation):
    """The sums of one site."""

    name = "information"
    doing = "summing"

    @classmethod
    def begin(cls, context: Context, results: dict[str, Any]) -> InformationPhase | None:
        """Where standard errors are asked for and the fit has converged, the same at all sites."""
        if context.task.intervals == "none" or "fit" not in results or not results["fit"].converged:
            return None
        words = most_words(*results["fit"].theta.means.shape, robust=context.task.intervals == "robust")
        return cls(context, results, _ask_information(context, results), held_by(context), words)


def _ask_information(context: Context, results: dict[str, Any]) -> Replicated[Summed]:
    task, local, theta = context.task, context.local, results["fit"].theta
    robust, n_sites = task.intervals == "robust", len(task.sites)
    psi = yield Ask(lambda held: to_psi(theta).reshape(1, -1) / n_sites, Wide())
    middle = to_theta(psi.reshape(theta.means.shape[0], -1))
    scale = scales(middle, float(results["facts"].mass))

    def part(held: Held) -> NDArray:
        """The site's part, before a mark that is not zero where it has none: the others must not wait for it."""
        rows = of_array(local.X, local.labels, local.weights)
        try:
            found = site_part(
                rows, theta, scale, robust=robust, unlabelled_weight=task.unlabelled_weight,
                allowed=local.allowed(task), n_sites=n_sites,
            )  # fmt: skip
        except UncertaintyError:
            return np.append(np.zeros(part_size(*theta.means.shape, robust=robust)), 1.0)[None]
        return np.append(found, 0.0)[None]

    *information, failed = yield Ask(part, Veiled(COUNTED))
    return Summed(scale, np.array([] if failed else information))


def most_words(n_components: int, n_features: int, *, robust: bool) -> int:
    """The words of the longest question."""
    estimate = Wide().words(n_components * width(n_features))
    return max(estimate, 1 + part_size(n_components, n_features, robust=robust))
