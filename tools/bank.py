"""Checks the records of a bank's tables against the invariants of its books. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class _Changes:
    """The changes of one database transaction to balances, as far as its records have been read."""

    number: int
    records: int = 0
    by_account: Counter[int] = field(default_factory=Counter)


class Bank:
    """Takes Debezium envelopes of `accounts` and `transfers`, each topic's in its order.

    A transfer is one database transaction: two updates of `accounts` whose changes add up to zero, and one row of
    `transfers`. `problems` lists the first errors.
    """

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.looks = 0
        self.transfers = 0
        self._balances: dict[int, int] = {}
        self._opened = 0
        self._current: _Changes | None = None
        self._finished: dict[int, Counter[int]] = {}
        self._transfers: dict[int, tuple[int, Mapping[str, Any]]] = {}

    @property
    def accounts(self) -> int:
        return len(self._balances)

    def add_account(self, envelope: Mapping[str, Any]) -> None:
        """Handle a new account, or a changed balance."""
        after, before = envelope["after"], envelope["before"]
        account = after["id"]
        if envelope["op"] == "c":
            if account in self._balances:
                self._complain(f"account {account} was opened twice")
            self._opened += after["balance"]
        else:
            if before["balance"] != self._balances.get(account):
                self._complain(
                    f"account {account} had {self._balances.get(account)}, but the change starts from {before}"
                )
            self._count(envelope["source"]["txId"], account, after["balance"] - before["balance"])
        self._balances[account] = after["balance"]

    def add_transfer(self, envelope: Mapping[str, Any]) -> None:
        row = envelope["after"]
        self.transfers += 1
        if row["id"] in self._transfers:
            self._complain(f"transfer {row['id']} was repeated")
        self._transfers[row["id"]] = envelope["source"]["txId"], row

    def look(self) -> None:
        """Add up all accounts that are visible now, like a consumer."""
        self.looks += 1
        if (total := sum(self._balances.values())) != self._opened:
            self._complain(f"a consumer saw half of a transfer: all accounts had {total} instead of {self._opened}")

    def finish(self, rows: Iterable[tuple[int, int, int, int]], balances: Mapping[int, int]) -> None:
        """Compare with the database's own books at the end: transfers as (id, payer, payee, amount), and balances."""
        self._end()
        transfers = {number: each for number, *each in rows}
        lost, unknown = transfers.keys() - self._transfers.keys(), self._transfers.keys() - transfers.keys()
        if lost or unknown:
            self._complain(f"{len(lost)} transfers are missing, {len(unknown)} were never made")
        for number, (transaction, row) in self._transfers.items():
            fields = [row["payer"], row["payee"], row["amount"]]
            moved = self._finished.get(transaction)
            if number in transfers and fields != transfers[number]:
                self._complain(f"transfer {number} is {fields} instead of {transfers[number]}")
            if moved != Counter({row["payer"]: -row["amount"], row["payee"]: row["amount"]}):
                self._complain(f"transfer {number} of {fields} moved {None if moved is None else dict(moved)}")
        if self._balances != balances:
            self._complain("the balances at the end are not the database's")

    def _count(self, transaction: int, account: int, change: int) -> None:
        if self._current is None or self._current.number != transaction:
            self._end()
            self._current = _Changes(transaction)
        self._current.records += 1
        self._current.by_account[account] += change

    def _end(self) -> None:
        """Check that a transaction is complete when the next one begins."""
        done = self._current
        if done is None:
            return
        if done.records != 2 or done.by_account.total() != 0:
            self._complain(f"transaction {done.number} has {done.records} updates, which add up to {done.by_account}")
        if done.number in self._finished:
            self._complain(f"transaction {done.number} arrived in two parts, or twice")
        self._finished[done.number] = done.by_account
        self._current = None

    def _complain(self, text: str) -> None:
        if len(self.problems) < 20:
            self.problems.append(text)
