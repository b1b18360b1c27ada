"""A look at rows before a fit: what of them may spoil it, in a table of all sites or at one real site."""

from gaussip.inspection.concerns import Concern
from gaussip.inspection.table import Cells, TableCheck, check_table, warn_of_columns

__all__ = ["Cells", "Concern", "TableCheck", "check_table", "warn_of_columns"]
