"""Where a site is reached."""

import ipaddress
import re

from gaussip.errors import FederationError


def split_address(address: str) -> tuple[str, int]:
    """Host and port of ``host:port``, with an IPv6 address in brackets."""
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]+([.-][A-Za-z0-9-]+)*):(\d{1,5})", address)
    try:
        if match is None or not 0 < int(match[3]) < 65536:
            raise ValueError
        if match[1].startswith("["):
            ipaddress.IPv6Address(match[1].strip("[]"))
    except ValueError:
        raise FederationError(
            f"address {address!r} is not host:port, for instance hospital.example.org:7447"
        ) from None
    return match[1].strip("[]"), int(match[3])
