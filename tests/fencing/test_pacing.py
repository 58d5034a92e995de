"""The pause between two transactions follows the broker, in both directions."""

from ringfence.fencing.kafka.transaction_pause import LONGEST_S, Pause


def test_refusals_lengthen_the_pause_up_to_a_limit() -> None:
    pause = Pause()
    before = pause.seconds
    pause.learn(refused=True)
    assert pause.seconds > before
    for _ in range(100):
        pause.learn(refused=True)
    assert pause.seconds == LONGEST_S


def test_a_broker_that_keeps_up_is_not_waited_for() -> None:
    pause = Pause()
    for _ in range(1000):
        pause.learn(refused=False)
    assert pause.seconds == 0


def test_it_settles_near_the_time_that_the_broker_needs() -> None:
    pause, needed, refusals = Pause(), 0.0025, 0
    for _ in range(2000):
        refused = pause.seconds < needed
        refusals += refused
        pause.learn(refused)
    assert abs(pause.seconds - needed) < 0.001
    assert refusals < 2000 / 20


def test_nobody_waits_who_comes_later_anyway() -> None:
    pause = Pause()
    assert pause.remaining(since_commit=0.0) == pause.seconds
    assert pause.remaining(since_commit=1.0) == 0
