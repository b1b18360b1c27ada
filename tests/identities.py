"""Programs of sites that prove who they are, all in one process: what travels between them can be looked at."""

from __future__ import annotations

from gaussip.federation import certificates
from gaussip.federation.identity import SiteIdentity
from gaussip.phases.program import Program

RUN = bytes(range(32))


def identities(folder, names, authority=None):
    """The identity of each site, with a certificate of its own."""
    authority = authority or certificates.new_authority("trial")
    (folder / "authorities.pem").write_bytes(authority.certificate)
    made = []
    for name in names:
        own = certificates.new_certificate(authority, f"{name}.trial", None, 1)
        (folder / f"{name}.key").write_bytes(own.key)
        (folder / f"{name}.pem").write_bytes(own.certificate)
        made.append(identity(folder, name))
    return made


def identity(folder, name, run=RUN):
    paths = (folder / f"{name}.key", folder / f"{name}.pem", folder / "authorities.pem")
    return SiteIdentity(run, name, *paths, lambda site: f"{site}.trial")


class Always:
    """An identity whose announcement is the same each time: signatures are drawn at random."""

    def __init__(self, inner):
        self._inner, self._made, self.run, self.checked = inner, {}, inner.run, inner.checked

    def announcement(self, public, rows):
        return self._made.setdefault(public, self._inner.announcement(public, rows))


def programs_of(task, rows, proved, secrets=None):
    """One program for each site, begun."""
    secrets = secrets or [bytes([m + 1] * 32) for m in range(len(rows))]
    programs = [
        Program(task, m, local, None, proved[m], secret)
        for m, (local, secret) in enumerate(zip(rows, secrets, strict=True))
    ]
    for program in programs:
        program.start()
    return programs


def transcript(programs, watch=lambda programs, sides: None):
    """Run the programs; every message that each site received, exchange by exchange."""
    received = [[] for _ in programs]
    while not programs[0].over:
        sides = [program.outgoing() for program in programs]
        watch(programs, sides)
        for m, program in enumerate(programs):
            here = {q: sides[q].message for q in sides[m].due}
            for q, message in here.items():
                assert not (why := program.fault(q, message)), why
            received[m].append(here)
            program.absorb(here)
    return received
