"""The errors gaussip raises: what was wrong, where, and what to do about it.

All derive from `GaussipError`. Those about input are also `ValueError`s, as scikit-learn users expect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Namer = Callable[[str, str], str]  #: what a setting is called, alone or with a value ("" for none)


class Text(str):
    """A message that refers to settings, which a command line or a TOML file calls by other names.

    Parameters
    ----------
    template : with ``{name}`` for a setting and ``{name:value}`` for a setting with a value, both as Python has them;
        what ``values`` has is filled in
    """

    _template: str
    _values: dict[str, Any]

    def __new__(cls, template: str, **values: Any) -> Text:  # noqa: D102
        text = super().__new__(cls, template.format_map(_Names(values, in_python)))
        text._template, text._values = template, values
        return text

    def worded(self, name: Namer) -> str:
        """The message with settings as ``name`` calls them."""
        return self._template.format_map(_Names(self._values, name))

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)


class _Names(dict[str, Any]):
    """The values of a template; what is not among them is a setting."""

    def __init__(self, values: dict[str, Any], name: Namer) -> None:
        super().__init__({key: worded(value, name) for key, value in values.items()})
        self.name = name

    def __missing__(self, setting: str) -> _Reference:
        return _Reference(setting, self.name)


class _Reference(NamedTuple):
    """A setting in a template."""

    setting: str
    name: Namer

    def __format__(self, value: str) -> str:
        return self.name(self.setting, value)


def in_python(setting: str, value: str) -> str:
    """A setting as Python calls it."""
    return f"{setting}={value}" if value else setting


def worded(message: Any, name: Namer) -> Any:
    """A message or an error with settings as ``name`` calls them; anything else as it is."""
    return message.worded(name) if isinstance(message, Text | GaussipError) else message


class GaussipError(Exception):
    """Base of every error raised by gaussip.

    Parameters
    ----------
    text : what is wrong
    remedy : what to do about it, the end of the message
    setting : the setting it is about, by the estimator's name
    column, row : the column of a table, and the row, counted from 1
    site, label : the site and the class, by their names
    """

    exit_code = 2  #: of a command that ends with it
    setting: str | None = None
    spent: Any = None  #: what a private fit that failed has spent: a `gaussip.privacy.Guarantee`

    def __init__(
        self,
        text: str,
        *,
        remedy: str | None = None,
        setting: str | None = None,
        column: str | None = None,
        row: int | None = None,
        site: Any = None,
        label: Any = None,
    ) -> None:
        super().__init__(text)
        self.remedy = remedy
        self.setting = setting or self.setting
        self.column, self.row, self.site, self.label = column, row, site, label

    def __str__(self) -> str:
        return self.worded(in_python)

    def worded(self, name: Namer) -> str:
        """The message with settings as ``name`` calls them."""
        return "; ".join(worded(part, name) for part in (self.args[0], self.remedy) if part is not None)

    def fields(self) -> dict[str, Any]:
        """What the error is about, for programs."""
        known = {name: getattr(self, name) for name in ("setting", "column", "row", "site", "label")}
        return {name: value for name, value in known.items() if value is not None}


class SettingError(GaussipError, ValueError):
    """A parameter has a value that cannot work."""


class DataError(GaussipError, ValueError):
    """Rows, columns or row weights that cannot be used (missing cells, empty sites, too few rows)."""


class LabelError(GaussipError, ValueError):
    """Labels that do not fit the number of components."""


class NetworkError(GaussipError, ValueError):
    """A network over which the sites cannot work together."""

    setting = "network"


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


class TamperingError(GaussipError, RuntimeError):
    """Some site sent different things to different sites, or passed on what was not sent."""


class PausedError(GaussipError, RuntimeError):
    """A run that cannot go on now; nothing is lost, and the same command goes on later."""

    exit_code = 3


class DeviceError(GaussipError, RuntimeError):
    """The device asked for is not there."""

    setting = "device"


class CollapseError(GaussipError, ArithmeticError):
    """A component lost its weight or its covariance, at some site or in the rows of all sites.

    Or nothing but reg_covar kept its covariance from collapsing when the fit had ended: ``column`` is then the
    feature in which its rows are the same.

    Attributes
    ----------
    site : name of the site where it happened first; None where the mixture of all sites lost it
    component : int, the component, counted from 0; None at sites that do not know it
    round : int, the round, counted from 1
    cause : str, what went wrong there
    """

    def __init__(
        self,
        site: Any,
        component: int | None,
        round: int,
        cause: str,
        remedy: str,
        label: Any = None,
        column: str | None = None,
    ) -> None:
        which = "a component" if component is None else f"component {component}"
        which += "" if label is None else f", the class {label!r},"
        where = "" if site is None else f" at site {site!r}"
        text = f"{which} collapsed{where} in round {round}: {cause}"
        super().__init__(text, remedy=remedy, site=site, label=label, column=column)
        self.component = component
        self.round = round
        self.cause = cause


class PrivacyError(GaussipError, ValueError):
    """Something that a private fit does not give, or that would not be private."""


class UncertaintyError(GaussipError, ArithmeticError):
    """Standard errors that the rows cannot give, or that would take too much memory."""


class PooledTargetWarning(UserWarning):
    """The network keeps the fit from aiming at the pooled estimate."""


class DiagnosisWarning(UserWarning):
    """A fit that may not be trusted; `gaussip.findings.diagnose` says more."""


class PrivacyWarning(UserWarning):
    """A private fit whose guarantee means less than it seems."""


class MissingCellsWarning(UserWarning):
    """Rows or features that missing cells leave with too little, or numbers that look like codes for them."""


class SlowKernelWarning(UserWarning):
    """A faster way to compute is not available on this machine."""


class FewerAtATimeWarning(UserWarning):
    """The GPU's memory holds fewer replicates at a time than asked for; the numbers are the same."""


def some(names: Sequence[Any], most: int = 5) -> str:
    """The first of many names, for a message."""
    shown = ", ".join(repr(n.item() if hasattr(n, "item") else n) for n in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
