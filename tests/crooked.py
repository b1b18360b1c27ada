"""gaussip with one site that does not follow the protocol: `python crooked.py DEED site run ...`."""

import sys

import numpy as np

from gaussip.exchange import wire
from gaussip.exchange.plan import Flood
from gaussip.exchange.receipts import chain_in
from gaussip.federation import certificates
from gaussip.node.durable import DurableExchange
from gaussip.phases.keys import KeysPhase, _content, _slot
from gaussip.phases.summing import NO_PART, SumsPhase


def of_phase(kind, change):
    """Change what a kind of phase sends."""
    honest = kind.outgoing

    def outgoing(self):
        side = honest(self)
        return side._replace(message=change(self, side.message)) if side.to else side

    kind.outgoing = outgoing


def foreign(phase, message, announced):
    """Pass on other announcements than those received."""
    stage = phase._sum.sends(phase._index, phase.memory)
    rows = message["sum"].copy()
    for place, origin in enumerate(stage.parts):
        if origin != phase._index:
            rows[place] = _slot(announced(phase, phase._names[origin], _content(rows[place])))
    return {**message, "sum": rows}


def own_key(phase, name, content):
    """Its own keys, under another's name."""
    phase._identity._site = name
    return phase._identity.announcement(phase._public, float("nan"))


def own_key_with_their_certificate(phase, name, content):
    """Its own keys in another's announcement, with a signature that is not that site's."""
    import msgspec

    from gaussip.federation.identity import _Announced, _Signed

    signed = msgspec.msgpack.decode(content, type=_Signed)
    inner = msgspec.msgpack.decode(signed.content, type=_Announced)
    forged = msgspec.msgpack.encode(msgspec.structs.replace(inner, public=phase._public))
    identity = phase._identity
    return msgspec.msgpack.encode(
        msgspec.structs.replace(signed, content=forged, signature=certificates.sign(identity._key, forged))
    )


def altered(phase, message):
    """Add one to the parts of others."""
    way = phase.memory.way
    stage = phase._sum(way).sends(phase._index, way)
    if phase.name != "fit" or not phase._flooded(way):
        return message
    others = np.array([origin != phase._index for origin in stage.parts], dtype=np.int64)
    return {**message, "sum": message["sum"] + others[:, None]}


def to_one(change):
    """Send the last of the receivers something else than the others."""
    running, send = [], DurableExchange._send
    for kind in (KeysPhase, SumsPhase):

        def remembering(self, outgoing=kind.outgoing):
            running[:] = [self]
            return outgoing(self)

        kind.outgoing = remembering

    def crookedly(self, data, to):
        frame = wire.decode(data, self._run, len(data), self._near.index)
        message = {part.channel: np.frombuffer(part.values, part.kind).reshape(part.shape) for part in frame.parts}
        other = change(running[0], message) if running and to else None
        if other is None:
            send(self, data, to)
            return
        changed = wire.encode(wire.Round(frame.run, frame.sender, frame.number, wire.parts_of(other)))
        for q in to:
            self._links.send(self._names[q], changed if q == to[-1] else data)

    DurableExchange._send = crookedly
    SumsPhase._confirm = lambda self, way, chain, total: None  # it goes on as if nothing were wrong


def another_part(phase, message):
    """Another part of its own, as well signed as the first."""
    if not isinstance(phase, SumsPhase) or phase.name != "fit" or phase.memory.way.stage:
        return None
    chain, part = phase.memory.chain, message["sum"][0] + 1
    signed = part if phase._sum(phase.memory.way).plan.kind == Flood.kind else NO_PART
    receipt = phase._receipts.own(chain.number + 1, chain_in(message["receipts"][0]), signed)
    return {"sum": part[None], "receipts": receipt[None]}


def another_total(phase, message):
    """Another total to one of those below it in a tree."""
    if not isinstance(phase, SumsPhase) or phase.name != "fit" or phase._flooded(phase.memory.way):
        return None
    down = not phase._sum(phase.memory.way).plan.adds(phase.memory.way.stage)
    return {**message, "sum": message["sum"] + (np.arange(message["sum"].shape[1]) == 0)} if down else None


DEEDS = {
    "swap-name": lambda: of_phase(KeysPhase, lambda phase, message: foreign(phase, message, own_key)),
    "swap-key": lambda: of_phase(
        KeysPhase, lambda phase, message: foreign(phase, message, own_key_with_their_certificate)
    ),
    "alter-part": lambda: of_phase(SumsPhase, altered),
    "two-parts": lambda: to_one(another_part),
    "two-totals": lambda: to_one(another_total),
}

if __name__ == "__main__":
    from gaussip.cli import main

    DEEDS[sys.argv.pop(1)]()
    main()
