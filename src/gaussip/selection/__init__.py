"""Choosing the number of components by criteria that all sites agree on."""

from gaussip.selection.components import Selection, choose_components
from gaussip.selection.criteria import agreed_criteria

__all__ = ["Selection", "agreed_criteria", "choose_components"]
