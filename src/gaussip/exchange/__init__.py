"""What sites exchange: this site's message out, the neighbours' in; and sums of which nobody learns a part."""

from gaussip.exchange.base import Exchange, Message, Outgoing
from gaussip.exchange.in_process import Stacked

__all__ = ["Exchange", "Message", "Outgoing", "Stacked"]
