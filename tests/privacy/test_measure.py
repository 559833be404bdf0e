import numpy as np
import pytest
from scipy.stats import binomtest

from delome.privacy.measure import area, grouped_proportion, hits_at, mean_against, proportion


@pytest.mark.parametrize(("hits", "count"), [(0, 30), (7, 30), (30, 30)])
def test_shares_have_exact_intervals(hits, count):
    found = proportion(hits, count, 0.1)
    expected = binomtest(hits, count).proportion_ci(0.99, "exact")
    assert (found.value, found.count) == (hits / count, count)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.leaks == (expected.low > 0.1)
    assert proportion(0, 0, 0.5) is None


def test_what_is_alike_counts_once():
    hits = np.repeat([True, False, True], [5, 5, 10])
    found = grouped_proportion(hits, np.repeat([4, 1, 0], [5, 5, 10]), 0.5)
    assert found.count == round(20**2 / (25 + 25 + 100))
    apart = grouped_proportion(hits, np.arange(20), 0.5)
    assert apart.count == 20 and apart.high - apart.low < found.high - found.low
    assert grouped_proportion(hits[:0], np.arange(0), 0.5) is None


def test_the_area_is_the_share_of_pairs_in_order():
    rng = np.random.default_rng(0)
    members, others = rng.integers(6, size=40) + 1.0, rng.integers(6, size=30) + 0.0
    pairs = [(m > o) + (m == o) / 2 for m in members for o in others]
    found = area(members, others)
    assert found.value == pytest.approx(np.mean(pairs))
    assert found.control == 0.5
    assert area(members[:1], others) is None


def test_the_interval_of_the_area_is_as_wide_as_repeated_experiments_are_apart():
    rng = np.random.default_rng(1)
    drawn = [area(rng.standard_normal(80) + 0.5, rng.standard_normal(60)) for _ in range(400)]
    deviation = np.std([each.value for each in drawn])
    width = np.mean([each.high - each.low for each in drawn])
    assert width == pytest.approx(2 * 2.576 * deviation, rel=0.1)


def test_intervals_of_means_hold_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(2)
    hold = 0
    for _ in range(200):
        values, others = 0.1 * rng.standard_normal((2, 60)) + [[0.43], [0.4]]
        found = mean_against(values, others, np.arange(60), rng)
        hold += found.low - found.control <= 0.03 <= found.high - found.control
    assert hold >= 190  # of 200, at 99 %
    assert mean_against(np.empty(0), np.empty(0), np.empty(0, int), rng) is None


def test_intervals_end_where_values_do():
    rng = np.random.default_rng(4)
    near, apart = np.array([1.0] * 30), np.array([1.0] * 20 + [0.0] * 10)
    above = mean_against(near, apart, np.arange(30), rng)
    assert above.high == 1.0 and above.low < 1.0
    below = mean_against(np.zeros(30), 1 - near + (1 - apart) / 9, np.arange(30), rng)
    assert below.low == 0.0
    assert mean_against(np.zeros(30), 1 - near + (1 - apart) / 9, np.arange(30), rng, least=-1.0).low < 0
    assert mean_against(near, near, np.arange(30), rng).saturated and not above.saturated


def test_groups_are_drawn_as_wholes():
    rng = np.random.default_rng(3)
    values = np.repeat(0.5 + 0.1 * rng.standard_normal(8), 20)
    together = mean_against(values, np.zeros(160), np.repeat(np.arange(8), 20), rng)
    apart = mean_against(values, np.zeros(160), np.arange(160), rng)
    assert together.high - together.low > 3 * (apart.high - apart.low)


def test_hits_at_a_rate_of_false_alarms_by_hand():
    others = np.arange(200.0)
    members = np.array([0.0, 150.0, 198.0, 197.0, 500.0])
    found = hits_at(members, others, 0.01)  # two of 200 may be above: the threshold is 197
    assert found.value == 2 / 5
    assert found.control == pytest.approx(binomtest(2, 200).proportion_ci(0.99, "exact").high)
    assert hits_at(members, others, 0.001) is None  # 200 others cannot show one in a thousand
    assert hits_at(members[:0], others, 0.01) is None
