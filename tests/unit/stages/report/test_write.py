"""Charts as SVG are deterministic, have unique ids, and keep their texts."""

import re

from coevolve.stages.report.write import svg


def rects(words: list[str]) -> str:
    import altair as alt

    rows = [{"tool": word, "share": place / 10} for place, word in enumerate(words)]
    return svg(alt.Chart(alt.Data(values=rows)).mark_rect().encode(y="tool:N", color="share:Q"))


def test_charts_have_unique_ids_and_keep_their_texts() -> None:
    one, other = rects(["clip_2", "gradient_7"]), rects(["a", "b"])
    assert one == rects(["clip_2", "gradient_7"])
    assert ">clip_2<" in one and ">gradient_7<" in one
    names = [set(re.findall(r'id="([^"]+)"', text)) for text in (one, other)]
    assert names[0] and names[1] and not names[0] & names[1]
    assert set(re.findall(r"url\(#([^)]+)\)", one)) <= names[0]
