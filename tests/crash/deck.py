"""Deals the faults like cards: each that suits is made once before any is made twice."""

from collections import Counter
from collections.abc import Sequence
from random import Random

from configurations import Configuration
from faults import Fault

# A fault that was dealt and missed comes up again after so many others.
_CARDS_BEFORE_A_MISSED_ONE = 3
# A run as long as this makes every fault, or it has failed.
MINUTES_FOR_ALL = 60


class Deck:
    def __init__(self, faults: Sequence[Fault], rng: Random) -> None:
        self._faults = list(faults)
        self._rng = rng
        self._cards: list[Fault] = []

    def deal(self, configuration: Configuration, count: int) -> list[Fault]:
        """The uppermost cards that suit. The others stay where they are, so that they come first
        in the next round that they suit. Empty if no fault suits."""
        if not any(fault.suits(configuration) for fault in self._faults):
            return []
        return [self._take_one(configuration) for _ in range(count)]

    def put_back(self, fault: Fault) -> None:
        """Takes back a card that was dealt, and not made."""
        self._cards.insert(_CARDS_BEFORE_A_MISSED_ONE, fault)

    def _take_one(self, configuration: Configuration) -> Fault:
        place = self._find(configuration)
        if place is None:
            again = list(self._faults)
            self._rng.shuffle(again)
            self._cards += again
            place = self._find(configuration)
        assert place is not None
        return self._cards.pop(place)

    def _find(self, configuration: Configuration) -> int | None:
        suiting = (i for i, fault in enumerate(self._cards) if fault.suits(configuration))
        return next(suiting, None)


def never_made(possible: set[str], made: Counter[str]) -> list[str]:
    return sorted(name for name in possible if not made[name])


def fail_if_never_made(never: list[str], minutes: float) -> list[str]:
    """What a run of so many minutes fails for."""
    if not never or minutes < MINUTES_FOR_ALL:
        return []
    return [f"{len(never)} faults were never made in {minutes:.0f} min"]
