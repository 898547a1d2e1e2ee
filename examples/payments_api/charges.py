"""What the payments provider knows: the charges for the shop's orders, the same ones on every machine.

An order is paid within a quarter of an hour, so perhaps on the next day; some cards are declined first and
charged a minute later. The charge for an order that was cancelled is refunded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta

from examples.shop.dice import Dice
from examples.shop.generator import DAY_SECONDS, SEED, epoch_day, order_id_of
from examples.shop.truth import deliveries_of

LONGEST_DELAY = 15 * 60
DECLINED = 4  # of 100 cards

_ID = re.compile(r"ch_(\d{4})(\d\d)(\d\d)(\d{8})_[12]")


@dataclass(frozen=True)
class Charge:
    """One attempt to take money; amounts are cents, times are seconds since 1970."""

    created: int
    id: str
    customer: str
    amount: int
    amount_refunded: int = 0
    currency: str = "usd"
    status: str = "succeeded"
    order_id: str = ""

    @property
    def position(self) -> tuple[int, str]:
        """Where the charge stands in a list: two of the same second have a fixed order, too."""
        return self.created, self.id

    def to_json(self) -> dict[str, object]:
        """Return the charge as the provider writes it."""
        return {
            "id": self.id,
            "object": "charge",
            "created": self.created,
            "customer": self.customer,
            "amount": self.amount,
            "amount_refunded": self.amount_refunded,
            "currency": self.currency,
            "status": self.status,
            "metadata": {"order_id": self.order_id} if self.order_id else {},
        }


@dataclass
class Charges:
    """All charges: those for the shop's orders, and those that were posted since the start."""

    orders_per_day: int
    customers: int = 500
    seed: int = SEED
    # Of 100 declined cards: these are not charged a minute later.
    unpaid: int = 0
    posted: list[Charge] = field(default_factory=list)
    _ordered: dict[int, list[Charge]] = field(default_factory=dict, repr=False)

    def newest_first(self, start: int, end: int, after: str = "") -> Iterator[Charge]:
        """Yield the charges created in [start, end), newest first, from the one that follows `after`."""
        before = self.find(after).position if after else (end, "")
        end = min(end, before[0] + 1)
        for day in range((end - 1) // DAY_SECONDS, start // DAY_SECONDS - 1, -1):
            for charge in sorted(self._of_day(day), key=lambda one: one.position, reverse=True):
                if charge.created >= start and charge.position < before:
                    yield charge

    def find(self, name: str) -> Charge:
        """Return the charge of that id; KeyError if there is none."""
        known = {charge.id: charge for charge in self.posted}
        if match := _ID.fullmatch(name):
            year, month, day, number = map(int, match.groups())
            try:
                ordered = epoch_day(date(year, month, day))
            except ValueError:  # no such day
                raise KeyError(name) from None
            if number < self.orders_per_day:
                known |= {charge.id: charge for charge in self._of_order(ordered, number)}
        return known[name]

    def post(self, created: int, customer: str, amount: int, currency: str, order: str = "") -> Charge:
        """Take money once more."""
        name = f"ch_posted_{len(self.posted) + 1:06d}"
        charge = Charge(created, name, customer, amount, currency=currency, order_id=order)
        self.posted.append(charge)
        return charge

    def _of_day(self, day: int) -> Iterator[Charge]:
        for ordered in (day - 1, day):
            if ordered not in self._ordered:
                numbers = range(self.orders_per_day)
                self._ordered[ordered] = [charge for number in numbers for charge in self._of_order(ordered, number)]
            yield from (charge for charge in self._ordered[ordered] if charge.created // DAY_SECONDS == day)
        yield from (charge for charge in self.posted if charge.created // DAY_SECONDS == day)

    def _of_order(self, day: int, number: int) -> Iterator[Charge]:
        dice = Dice(self.seed)
        deliveries = list(deliveries_of(dice, day, number, self.customers))
        newest = max(deliveries, key=lambda one: one.updated)
        order = order_id_of(date(1970, 1, 1) + timedelta(days=day), number)
        created = day * DAY_SECONDS + deliveries[0].updated + dice.roll("payment delay", LONGEST_DELAY, day, number)
        customer, attempt = f"cus_{newest.customer}", 1
        if dice.roll("card declined", 100, day, number) < DECLINED:
            yield Charge(created, f"ch_{order}_1", customer, newest.cents, status="failed", order_id=str(order))
            if dice.roll("card stays declined", 100, day, number) < self.unpaid:
                return
            created, attempt = created + 60, 2
        refunded = newest.cents if newest.status == "cancelled" else 0
        yield Charge(created, f"ch_{order}_{attempt}", customer, newest.cents, refunded, order_id=str(order))
