"""What a round exchanges: this site's message out, the neighbours' messages in, combined."""

from gaussip.exchange.base import Exchange, Message
from gaussip.exchange.in_process import Stacked

__all__ = ["Exchange", "Message", "Stacked"]
