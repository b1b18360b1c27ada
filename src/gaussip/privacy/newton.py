"""What the model says of its own information: for steps to the end, and for standard errors.

A row's expected information is that of rows drawn from the mixture, labelled and observed as often as the sites' rows
are. It costs no privacy: only the mixture, which all know, goes into it. With noisy moments at theta the score of all
rows is known, and theta + (n I)^-1 score is where Newton's step leads.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.inference.information import concluded, scales, site_part
from gaussip.mixture.sampling import sample
from gaussip.mixture.theta import Theta, pack, unpack, vech
from gaussip.privacy.look import doubled
from gaussip.rows.chunks import of_array
from gaussip.rows.groups import Allowed

ROWS = 20_000  # that are drawn


class Drawing(NamedTuple):
    """How rows are drawn; shares are of the rows' weight, so that every drawn row counts alike."""

    seen: NDArray  #: (p,), the share of rows in which a feature is observed
    labelled: NDArray  #: (K,), the share of a component's rows that are labelled
    labels: NDArray  #: (K,), the number of a component's label
    allowed: Allowed | None
    covariance_type: str
    seed: int


def covariance_of_one_row(theta: Theta, drawing: Drawing) -> NDArray:
    """The inverse of a row's information expected under the mixture, (q, q) for the packed theta."""
    rng = np.random.default_rng(drawing.seed)
    x, component = sample(theta, ROWS, rng)
    x[rng.random(x.shape) >= drawing.seen] = np.nan
    labels = np.where(rng.random(ROWS) < drawing.labelled[component], drawing.labels[component], -1)
    there = ~np.isnan(x).all(axis=1)
    scale = scales(theta, float(ROWS))
    part = site_part(of_array(x[there], labels[there]), theta, scale, allowed=drawing.allowed, n_sites=1)
    part[: scale.size] = 0.0
    names = [f"column {j}" for j in range(theta.means.shape[1])]
    return concluded(part, scale, names, covariance_type=drawing.covariance_type).covariance * ROWS


def score_of(theta: Theta, factors: NDArray, zeroth: NDArray, first: NDArray, second: NDArray) -> NDArray:
    """The score (K, f) about the packed theta, from moments of whitened rows, the second about the unit matrix.

    factors : (K, p, p), lower triangular roots of the covariances; second : (K, p(p+1)/2), as `halved` has them
    """
    p = theta.means.shape[1]
    inverse = np.linalg.inv(factors)
    turned = np.swapaxes(inverse, -1, -2)
    squares = turned @ doubled(second, p) @ inverse
    i, j = np.triu_indices(p)
    return np.concatenate(
        [
            (zeroth / theta.weights)[:, None],
            (turned @ first[..., None])[..., 0],
            np.where(i == j, 0.5, 1.0) * vech(squares),
        ],
        axis=1,
    )


def noise_of(theta: Theta, deviations: tuple[float, float, float], kept: float) -> NDArray:
    """The covariance (q, q) of the score from noise of these deviations in the three moments."""
    K, p = theta.means.shape
    factors = np.linalg.cholesky(theta.covariances)
    sizes = (1, p, p * (p + 1) // 2)
    f = sum(sizes)
    units = np.concatenate([np.full(n, d) for n, d in zip(sizes, deviations, strict=True)])
    units[1 + p :] /= kept
    columns = []  # of every component, whose scores depend on its own moments alone
    for n, unit in enumerate(units):
        move = np.zeros((K, f))
        move[:, n] = unit
        columns.append(score_of(theta, factors, move[:, 0], move[:, 1 : 1 + p], move[:, 1 + p :]))
    own = np.stack(columns, axis=2)
    covariance = np.zeros((K * f, K * f))
    for k, part in enumerate(own @ np.swapaxes(own, -1, -2)):
        covariance[k * f : (k + 1) * f, k * f : (k + 1) * f] = part
    return covariance


def stepped(theta: Theta, of_one_row: NDArray, score: NDArray, rows: float) -> Theta:
    """Where Newton's step leads."""
    return unpack(pack(theta) + (of_one_row @ score.ravel() / rows).reshape(score.shape))
