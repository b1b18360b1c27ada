"""The algorithms, one file each; every file of this folder is loaded and registers what it defines."""

from importlib import import_module
from pkgutil import iter_modules

from gaussip.algorithms.base import REGISTRY, Algorithm, Info, between_sites, one_round, register
from gaussip.algorithms.making import has_step, make
from gaussip.algorithms.site import Site

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["REGISTRY", "Algorithm", "Info", "Site", "between_sites", "has_step", "make", "one_round", "register"]
