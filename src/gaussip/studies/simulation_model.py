"""The paper's simulation model (its section 4.1) and its starting values."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import SettingError
from gaussip.mixture.sampling import sample
from gaussip.mixture.theta import Theta
from gaussip.rows.checks import LARGEST
from gaussip.rows.sites import places_of_sites
from gaussip.settings import check_choice
from gaussip.studies import split

SPREADS = ("homogeneous", "heterogeneous", "dirichlet")


@dataclass(frozen=True)
class Setting:
    """One setting of the simulation study; the defaults are the paper's."""

    n_rows: int = 30_000  #: N
    n_sites: int = 20  #: M
    n_features: int = 6  #: p
    delta: float = 2.0  #: separation: mu_k = mu_(k-1) + delta * 1
    weights: tuple[float, ...] = (0.5, 0.3, 0.2)  #: alpha
    correlations: tuple[float, ...] = (0.5, 0.1, -0.1)  #: rho_k, Sigma_k[i, j] = rho_k^|i-j|
    spread: str = "heterogeneous"  #: how rows are dealt to sites, see `gaussip.studies.split`
    concentration: float = 0.5  #: of the Dirichlet spread: the smaller, the more sites differ
    size_ratio: float = 1.0  #: largest site over smallest, for unequal sites
    labelled: float | tuple[float, ...] = 0.0  #: r, the labelled fraction, of every site or of each

    def __post_init__(self) -> None:
        fractions = np.atleast_1d(self.labelled)
        check_choice("spread", self.spread, SPREADS)
        if not ((fractions >= 0) & (fractions <= 1)).all():
            raise SettingError(f"labelled={self.labelled} must lie in [0, 1]")
        if fractions.size not in (1, self.n_sites):
            raise SettingError(f"labelled gives {fractions.size} fractions for {self.n_sites} sites")
        if len(self.weights) != len(self.correlations) or abs(sum(self.weights) - 1) > 1e-8:
            raise SettingError("weights must sum to one, with one correlation for each")
        if self.n_sites < 1 or self.n_rows < self.n_sites * len(self.weights):
            raise SettingError(f"{self.n_rows} rows are too few for {self.n_sites} sites")
        if not self.size_ratio >= 1 or not self.concentration > 0:
            raise SettingError("size_ratio must be at least 1 and concentration positive")
        if not abs(self.delta) < LARGEST:
            raise SettingError(f"delta={self.delta:g} must be a finite number")

    @property
    def n_components(self) -> int:
        """K."""
        return len(self.weights)


class Dataset(NamedTuple):
    """Rows with everything that is known of them."""

    X: NDArray  #: (N, p)
    classes: NDArray  #: (N,), the component each row came from
    labels: NDArray  #: (N,), the same where it is shown, -1 elsewhere
    sites: NDArray  #: (N,), 0..M-1
    truth: Theta

    def by_site(self, values: NDArray) -> list[NDArray]:
        """Values of the rows (N, ...) as one array per site."""
        return [values[rows] for rows in places_of_sites(self.sites)]


def draw(setting: Setting, seed: int | np.random.SeedSequence) -> Dataset:
    """One data set of a setting: parameters, rows, sites and labels, from separate streams of the seed.

    Data sets that differ only in how rows are dealt or labelled hold the same rows.
    """
    model, rows, dealing, labelling = streams(seed, 4)
    truth = true_parameters(setting, model)
    X, classes = sample(truth, setting.n_rows, rows)
    sizes = split.sizes(setting.n_rows, setting.n_sites, setting.size_ratio)
    if setting.spread == "homogeneous":
        sites = split.homogeneous(sizes, dealing)
    elif setting.spread == "heterogeneous":
        sites = split.heterogeneous(classes, sizes, dealing)
    else:
        sites = split.dirichlet(classes, sizes, setting.concentration, dealing)
    labels = split.show_labels(classes, sites, setting.labelled, labelling)
    return Dataset(X, classes, labels, sites, truth)


def streams(seed: int | np.random.SeedSequence, n: int) -> list[np.random.Generator]:
    """Independent generators of a seed: the same ones however often they are asked for."""
    sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(int(seed))
    keys = [(*sequence.spawn_key, j) for j in range(n)]
    return [np.random.default_rng(np.random.SeedSequence(sequence.entropy, spawn_key=key)) for key in keys]


def true_parameters(setting: Setting, rng: np.random.Generator) -> Theta:
    """theta_0 of the paper, with mu_1 drawn from N(0, I)."""
    p = setting.n_features
    first = rng.standard_normal(p)
    steps = np.arange(setting.n_components)[:, None]
    lag = np.abs(np.subtract.outer(np.arange(p), np.arange(p)))
    return Theta(
        np.asarray(setting.weights),
        first + setting.delta * steps,
        np.stack([np.power(float(rho), lag) for rho in setting.correlations]),
    )


def paper_start(truth: Theta, noise: float, rng: np.random.Generator) -> Theta:
    """The start that reproduces the paper's curves: alpha = 1/K, Sigma = I, mu = truth + N(0, noise^2)."""
    K, p = truth.means.shape
    return Theta(
        np.full(K, 1 / K),
        truth.means + noise * rng.standard_normal((K, p)),
        np.broadcast_to(np.eye(p), (K, p, p)).copy(),
    )
