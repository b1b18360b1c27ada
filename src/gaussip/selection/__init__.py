"""Choosing the number of components, of all or of each class, and folds for cross-validation."""

from gaussip.selection.components import Selection, choose_components
from gaussip.selection.criteria import agreed_criteria
from gaussip.selection.folds import labelled_folds
from gaussip.selection.per_class import PerClass, choose_per_class

__all__ = ["PerClass", "Selection", "agreed_criteria", "choose_components", "choose_per_class", "labelled_folds"]
