"""Telling how a fit goes on: the estimator's ``verbose``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gaussip.simulation.history import Progress

logger = logging.getLogger("gaussip")


@contextmanager
def telling(
    every: int, also: Callable[[Progress], None] | None = None
) -> Iterator[Callable[[Progress], None] | None]:
    """A watcher that logs every so many rounds to standard error, and passes each round on to another watcher."""
    if not every:
        yield also
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)

    told = -every

    def watch(now: Progress) -> None:
        nonlocal told
        if now.round <= told:  # another start
            told = -every
        if now.round // every > told // every:  # some rounds exchange without a look at the rows
            told = now.round
            logger.info(
                "round %d: log-likelihood %.6g, change %.2g, disagreement %.2g",
                now.round, now.log_likelihood, now.change, now.disagreement,
            )  # fmt: skip
        if also is not None:
            also(now)

    try:
        yield watch
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
