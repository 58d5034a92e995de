"""The demo's books would notice a transfer that is lost, doubled, torn, or seen in parts."""

from typing import Any

import pytest

from tools.bank import Bank

Step = tuple[str, Any]


def account(number: int, before: int | None, after: int, transaction: int) -> Step:
    old = None if before is None else {"id": number, "balance": before}
    envelope = {"op": "c" if old is None else "u", "before": old, "after": {"id": number, "balance": after}}
    return "account", {**envelope, "source": {"txId": transaction}}


def transfer(number: int, payer: int, payee: int, amount: int, transaction: int) -> Step:
    row = {"id": number, "payer": payer, "payee": payee, "amount": amount}
    return "transfer", {"op": "c", "after": row, "source": {"txId": transaction}}


LOOK: Step = ("look", None)
OPENED = [account(1, None, 100, 5), account(2, None, 100, 5), LOOK]
FIRST = [account(1, 100, 90, 6), account(2, 100, 110, 6)]
SECOND = [account(1, 90, 70, 7), account(2, 110, 130, 7)]
ROWS = [transfer(1, 1, 2, 10, 6), transfer(2, 1, 2, 20, 7)]
RIGHT = [*OPENED, *FIRST, LOOK, *SECOND, LOOK, *ROWS]


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        (RIGHT, ""),
        ([*OPENED, FIRST[0], LOOK, FIRST[1], *SECOND, *ROWS], "half of a transfer"),
        ([*OPENED, *FIRST, *FIRST, *SECOND, *ROWS], "the change starts from"),
        ([*OPENED, *FIRST, *ROWS], "moved None"),
        ([*OPENED, *FIRST, SECOND[0], *ROWS], "has 1 updates"),
        ([*RIGHT, ROWS[0]], "transfer 1 was repeated"),
        (RIGHT[:-1], "1 transfers are missing"),
        ([*RIGHT, transfer(3, 1, 2, 5, 8)], "1 were never made"),
        ([*OPENED, FIRST[0], SECOND[0], FIRST[1], SECOND[1], *ROWS], "updates, which add up"),
        ([*RIGHT[:-1], transfer(2, 1, 2, 21, 7)], "instead of"),
    ],
)
def test_only_whole_transfers_each_once_are_right(steps: list[Step], problem: str) -> None:
    bank = Bank()
    for what, envelope in steps:
        if what == "look":
            bank.look()
        else:
            (bank.add_account if what == "account" else bank.add_transfer)(envelope)
    bank.finish([(1, 1, 2, 10), (2, 1, 2, 20)], {1: 70, 2: 130})
    assert bool(bank.problems) == bool(problem)
    assert problem in str(bank.problems)
