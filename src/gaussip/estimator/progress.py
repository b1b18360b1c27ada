"""Logging the progress of a fit: the estimator's ``verbose``."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gaussip.simulation.history import Progress

logger = logging.getLogger("gaussip")


@contextmanager
def logging_progress(
    every: int, also: Callable[[Progress], None] | None = None
) -> Iterator[Callable[[Progress], None] | None]:
    """A watcher that logs to standard error every this many rounds, and calls another watcher in each round."""
    if not every:
        yield also
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)

    logged = -every

    def watch(now: Progress) -> None:
        nonlocal logged
        if now.round <= logged:  # another start
            logged = -every
        if now.round // every > logged // every:  # rounds that only exchange are not reported
            logged = now.round
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
