"""Messages between sites: a versioned binary schema, and what is refused on receipt.

A frame is four letters, a version, and a MessagePack array that msgspec checks against the types below. Nothing is
allocated for a message that its length does not already bound.
"""

import hashlib
import math

import msgspec
import numpy as np

from gaussip.arrays import Array
from gaussip.errors import GaussipError
from gaussip.exchange.base import Message

MAGIC, VERSION = b"gssp", 3
_HEAD = MAGIC + VERSION.to_bytes(2, "big")


class WireError(GaussipError, ValueError):
    """A message that is refused; the text says why."""


class _Frame(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    run: bytes  #: the first bytes of the description's digest
    sender: int  #: its index among the sites


class Part(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """One channel's array."""

    channel: str
    kind: str  #: of its numbers: "<f8", "<i8" or "|u1"
    shape: list[int]
    values: bytes


class Round(_Frame, tag="round", array_like=True, frozen=True, forbid_unknown_fields=True):
    """What a site sends in one exchange."""

    number: int
    parts: list[Part]


class Hello(_Frame, tag="hello", array_like=True, frozen=True, forbid_unknown_fields=True):
    """Who I am and what I run; ``answer`` says whether one is wanted."""

    description: str
    version: str
    answer: bool


class Ask(_Frame, tag="ask", array_like=True, frozen=True, forbid_unknown_fields=True):
    """Please send this exchange's message, and what followed, again."""

    number: int


class NotYet(_Frame, tag="not-yet", array_like=True, frozen=True, forbid_unknown_fields=True):
    """I have not come so far; my last exchange is this one."""

    number: int


class Gone(_Frame, tag="gone", array_like=True, frozen=True, forbid_unknown_fields=True):
    """I no longer have what I sent in this exchange."""

    number: int


class Done(_Frame, tag="done", array_like=True, frozen=True, forbid_unknown_fields=True):
    """I have everything that I need; ``knows`` says whether I know the same of you."""

    knows: bool


Frame = Round | Hello | Ask | NotYet | Gone | Done
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Frame)


def encode(frame: Frame) -> bytes:
    """A frame's bytes."""
    return _HEAD + _encoder.encode(frame)


def decode(data: bytes, run: bytes, limit: int, sender: int) -> Frame:
    """The frame in some bytes, refused with the reason where it is not one of this run and sender."""
    if len(data) > limit:
        raise WireError(f"it has more than the {limit} bytes that this run's messages can have")
    if data[:4] != MAGIC:
        raise WireError("it is not a message of gaussip's")
    version = int.from_bytes(data[4:6], "big")
    if version != VERSION:
        raise WireError(f"it has message version {version}; this site speaks version {VERSION}")
    try:
        frame: Frame = _decoder.decode(memoryview(data)[6:])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:  # of text that is none, too
        raise WireError(f"it cannot be read: {str(error)[:200]}") from error
    if frame.run != run and not isinstance(frame, Hello):
        raise WireError(f"it belongs to another run ({frame.run[: len(run)].hex()}, not {run.hex()})")
    if frame.sender != sender:
        raise WireError(f"it says that site number {frame.sender} sent it")
    return frame


def parts_of(message: Message) -> list[Part]:
    """A message's channels as they travel."""
    parts = []
    for channel, values in message.items():
        kind = _kind(values)
        parts.append(Part(channel, kind, list(values.shape), np.ascontiguousarray(values, dtype=kind).tobytes()))
    return parts


def message_of(parts: list[Part], like: Message) -> Message:
    """The message in some parts; rejected if channels, types or shapes differ from ``like``, or a number is NaN."""
    message: Message = {}
    if len(parts) != len(like):
        raise WireError(f"it has {len(parts)} channels, not {len(like)}")
    for part, (channel, due) in zip(parts, like.items(), strict=True):
        if part.channel != channel:
            raise WireError(f"it has a channel {part.channel[:20]!r} where {channel!r} is due")
        kind = np.dtype(_kind(due))
        size_fits = len(part.values) == kind.itemsize * math.prod(due.shape)
        if part.kind != _kind(due) or tuple(part.shape) != due.shape or not size_fits:
            raise WireError(
                f"its channel {channel!r} has type {part.kind[:4]!r} and shape {tuple(part.shape[:4])}, not "
                f"{_kind(due)!r} and {due.shape}"
            )
        values = np.frombuffer(part.values, dtype=kind).reshape(due.shape).astype(due.dtype)
        if kind.kind == "f" and not (np.isfinite(values) if channel == "mean" else values == values).all():
            raise WireError(f"its channel {channel!r} holds numbers that are not finite")
        message[channel] = values
    return message


def _kind(values: Array) -> str:
    """The type of an array's numbers, little-endian."""
    return str(values.dtype.newbyteorder("<").str)


def digest(data: bytes) -> str:
    """How a message is known in the audit log."""
    return hashlib.sha256(data).hexdigest()[:32]
