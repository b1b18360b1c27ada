"""Differential privacy in masked sums: what a site adds to its parts, and what that guarantees.

`Privacy` is what is asked for, `ask_private` the fit, `Guarantee` what it gives.
"""

from gaussip.privacy.fit import PrivateFit, ask_private
from gaussip.privacy.guarantee import Guarantee, Privacy
from gaussip.privacy.rows import BoundedRows

__all__ = ["BoundedRows", "Guarantee", "Privacy", "PrivateFit", "ask_private"]
