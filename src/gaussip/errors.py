"""The errors gaussip raises: what was wrong, where, and what to do about it.

All derive from `GaussipError`. Those about input are also `ValueError`s, as scikit-learn users expect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class GaussipError(Exception):
    """Base of every error raised by gaussip."""

    exit_code = 2  #: of a command that ends with it


class SettingError(GaussipError, ValueError):
    """A parameter has a value that cannot work."""


class DataError(GaussipError, ValueError):
    """Rows, columns or row weights that cannot be used (missing cells, empty sites, too few rows)."""


class LabelError(GaussipError, ValueError):
    """Labels that do not fit the number of components."""


class NetworkError(GaussipError, ValueError):
    """A network over which the sites cannot work together."""


class StartError(GaussipError, ValueError):
    """Starting values that are impossible, or that the data cannot give."""


class DesignError(GaussipError, ValueError):
    """A study's design that cannot be run, or a folder that holds another study's results."""


class FileError(GaussipError, ValueError):
    """A file that cannot be written: it exists, or its folder does not, or the disk refuses."""


class ModelFileError(GaussipError, ValueError):
    """A file that is not a gaussip model, or one this version cannot read."""


class FederationError(GaussipError, ValueError):
    """A description of a federation, or a site's folder, that cannot work."""


class CertificateError(GaussipError, ValueError):
    """A certificate, key or authority that the neighbours would refuse."""


class DisagreementError(GaussipError, RuntimeError):
    """Neighbours that do not run the same thing: another description or version; nobody knows whose is right."""

    exit_code = 3


class PausedError(GaussipError, RuntimeError):
    """A run that cannot go on now; nothing is lost, and the same command goes on later."""

    exit_code = 3


class DeviceError(GaussipError, RuntimeError):
    """The device asked for is not there."""


class CollapseError(GaussipError, ArithmeticError):
    """A component lost its weight or its covariance at some site.

    Attributes
    ----------
    site : name of the site where it happened first
    component : int, the component, counted from 0; None at other sites, which do not know it
    round : int, the round, counted from 1
    cause : str, what went wrong there
    """

    def __init__(self, site: object, component: int | None, round: int, cause: str, remedy: str) -> None:
        self.site = site
        self.component = component
        self.round = round
        self.cause = cause
        which = "a component" if component is None else f"component {component}"
        super().__init__(f"{which} collapsed at site {site!r} in round {round}: {cause}. {remedy}")


class UncertaintyError(GaussipError, ArithmeticError):
    """Standard errors that the rows cannot give, or that would take too much memory."""


class PooledTargetWarning(UserWarning):
    """The network keeps the fit from aiming at the pooled estimate."""


class DiagnosisWarning(UserWarning):
    """A fit that may not be trusted; `gaussip.findings.diagnose` says more."""


class SlowKernelWarning(UserWarning):
    """A faster way to compute is not available on this machine."""


class FewerAtATimeWarning(UserWarning):
    """The GPU's memory holds fewer replicates at a time than asked for; the numbers are the same."""


def some(names: Sequence[Any], most: int = 5) -> str:
    """The first of many names, for a message."""
    shown = ", ".join(repr(n.item() if hasattr(n, "item") else n) for n in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
