"""Methods as people write them: an algorithm, its step, and whether it may see the labels."""

import warnings
from typing import Any, NamedTuple

from gaussip import algorithms
from gaussip.errors import PooledTargetWarning, SettingError
from gaussip.mixture.theta import Theta
from gaussip.rows.rows import Rows
from gaussip.simulation.run import Run, simulate

SEMI = "semi-"


class Method(NamedTuple):
    """An algorithm with its step, and whether it may see the labels."""

    algorithm: str
    eta: float
    semi: bool

    @property
    def name(self) -> str:
        """As people write it: ``semi-MNEM``."""
        return SEMI * self.semi + algorithms.REGISTRY[self.algorithm].title

    @property
    def label(self) -> str:
        """The name with the step, if it has one: ``MNEM, eta = 0.01``."""
        return self.name + (f", eta = {self.eta:g}" if self.has_step else "")

    @property
    def has_step(self) -> bool:
        """Whether eta means anything to it."""
        return algorithms.has_step(self.algorithm)

    def run(self, start: Theta, rows: Rows, W: Any, **settings: Any) -> Run:
        """Simulate the method as it is used; every step of the paper's whole-sample EM is EM's.

        A collapse ends it quietly, and nothing is said of the network, which is compared.
        """
        chosen = algorithms.make(self.algorithm, self.eta, accelerate=self.algorithm != "em")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PooledTargetWarning)
            return simulate(chosen, start, rows, W, record_collapse=True, **settings)


def parse_method(text: str, eta: float) -> Method:
    """A method as written on the command line: ``mnem``, ``semi-mnem``, ``ngd=0.003``."""
    name, _, step = text.strip().lower().partition("=")
    try:
        chosen = float(step) if step else eta
    except ValueError:
        raise SettingError(f"{text!r}: after '=' stands the step eta, for instance ngd=0.003") from None
    algorithm = name.removeprefix(SEMI)
    made = algorithms.make(algorithm, chosen)  # refuses unknown names and impossible steps
    if step and not algorithms.has_step(algorithm):
        raise SettingError(f"{text!r}: {algorithm} has no step; write {name}")
    return Method(algorithm, made.eta, name.startswith(SEMI))
