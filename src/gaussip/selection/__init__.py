"""Choosing the number of components by criteria that all sites agree on, and folds for cross-validation."""

from gaussip.selection.components import Selection, choose_components
from gaussip.selection.criteria import agreed_criteria
from gaussip.selection.folds import labelled_folds

__all__ = ["Selection", "agreed_criteria", "choose_components", "labelled_folds"]
