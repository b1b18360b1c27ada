"""The claims a design may name; every file of this folder is loaded and adds its own."""

from importlib import import_module
from pkgutil import iter_modules

from gaussip.studies.claims.base import CLAIMS, Verdict, verdicts

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["CLAIMS", "Verdict", "verdicts"]
