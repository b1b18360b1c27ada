"""Choosing the number of components and the step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gaussip.selection.components import Selection, choose_components
from gaussip.selection.criteria import agreed_criteria

if TYPE_CHECKING:
    from gaussip.selection.shrinking import fit_shrinking
    from gaussip.selection.step import Step, choose_eta

__all__ = ["Selection", "Step", "agreed_criteria", "choose_components", "choose_eta", "fit_shrinking"]


def __getattr__(name: str) -> Any:
    # these need the estimator, which imports slowly
    if name in ("Step", "choose_eta"):
        from gaussip.selection import step

        return getattr(step, name)
    if name == "fit_shrinking":
        from gaussip.selection.shrinking import fit_shrinking

        return fit_shrinking
    raise AttributeError(f"module 'gaussip.selection' has no attribute {name!r}")
