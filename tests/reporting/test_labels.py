from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from delome.reporting.labels import SIDES, _box, _on_page, _overlap, sides_of

POINTS = st.lists(
    st.tuples(st.floats(0, 1e6), st.floats(0, 100), st.text("abc-", max_size=12)), min_size=1, max_size=12
)


@given(POINTS)
def test_names_never_cover_each_other_or_a_point(points: list[tuple[float, float, str]]) -> None:
    sides = sides_of(points, log=True)
    placed = _on_page(points, log=True)
    boxes = [
        _box(x, y, SIDES[side], name)
        for (x, y), side, (_, _, name) in zip(placed, sides, points, strict=True)
        if side in SIDES
    ]
    assert not any(_overlap(one, two) for k, one in enumerate(boxes) for two in boxes[:k])


def test_a_lonely_point_has_its_name_above() -> None:
    assert sides_of([(3.0, 50.0, "delome")], log=True) == ["above"]


def test_points_at_one_place_have_at_most_one_name_on_each_side() -> None:
    sides = sides_of([(1.0, 50.0, "method")] * 6 + [(2.0, 0.0, "x")], log=False)
    named = [side for side in sides[:6] if side != "none"]
    assert len(named) == len({*named}) < 6
