"""A fault at an operation on a file: killed, a torn write, a full disk, an error, a signal, the clock."""

from __future__ import annotations

import random
import signal

from tests.faults.conftest import Campaign
from tests.faults.running import Ended, Fault
from tests.faults.stand import Stand

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def test_a_fault_at_an_operation(campaign: Campaign, stand: Stand) -> None:
    """And the same command again, also killed, and on more threads, ends with an undisturbed run's bytes."""

    def stopped(rng: random.Random, words: tuple[str, ...], fault: Fault) -> Ended:
        at, number = rng.randint(1, len(stand.operations)), rng.choice(SIGNALS)
        where.append(f"{fault.name} {number.name if fault == Fault.SIGNAL else ''} at {at}")
        ended = stand.run(words, folder, fault, at, signal=number)
        if fault == Fault.SIGNAL:
            assert ended.code in (0, 128 + number), ended.err
        if fault in (Fault.SHORT, Fault.CLOCK):
            assert ended.code == 0, ended.err
        if not ended.killed and fault != Fault.ERROR:  # it may have been the removing that failed
            stand.nothing_is_left(folder)
        if ended.code == 0:
            (stand.has_all if fault == Fault.ERROR else stand.is_whole)(folder)
        return ended

    def attempt(rng: random.Random) -> str:
        nonlocal folder
        folder = stand.fresh()
        where.clear()
        try:
            fault = rng.choice([*Fault][1:])
            ended = stopped(rng, stand.command.words, fault)
            if ended.killed and rng.random() < 0.5 and not stand.is_done(folder):
                ended = stopped(rng, stand.command.second(folder), rng.choice([Fault.KILL, Fault.TORN]))
            if ended.code:
                stand.finish(folder, threads=rng.choice((1, 2)), stopped=fault == Fault.SIGNAL)
        except AssertionError as error:
            raise AssertionError(f"{', '.join(where)}: {error}") from None
        return fault.name.lower()

    folder, where = stand.folder, []
    campaign(attempt, attempts=2)
