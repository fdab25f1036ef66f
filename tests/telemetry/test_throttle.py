from tokenweir.telemetry.throttle import Throttle


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        """Return the moment."""
        return self.now_s


def test_a_few_lines_pass_and_the_next_counts_the_rest() -> None:
    """Beyond the bound lines are left out, until the next window tells how many."""
    clock = Clock()
    throttle = Throttle(clock, most=2, window_s=10)

    assert [throttle.admit("a") for _ in range(5)] == [0, 0, None, None, None]
    clock.now_s += 9.9
    assert throttle.admit("a") is None
    clock.now_s += 0.2
    assert [throttle.admit("a") for _ in range(3)] == [4, 0, None]


def test_kinds_are_counted_apart() -> None:
    """A flood of one kind hides no other."""
    throttle = Throttle(Clock(), most=1)

    assert [throttle.admit(kind) for kind in "aabb"] == [0, None, 0, None]


def test_a_clock_that_is_set_back_begins_anew() -> None:
    """Nothing is silenced until a clock has caught up."""
    clock = Clock()
    throttle = Throttle(clock, most=1)
    throttle.admit("a")
    clock.now_s -= 500

    assert throttle.admit("a") == 0
