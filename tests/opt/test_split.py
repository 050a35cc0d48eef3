"""Files of several modules."""

from hypothesis import given
from hypothesis import strategies as st

from shardwright.opt.flags import MARKER
from shardwright.opt.split import near_misses, split
from tests.opt.tool import PROGRAM, Tool


@given(st.lists(st.text("ab\n/ -", max_size=12).filter(lambda text: "// --" not in text), min_size=1, max_size=5))
def test_parts_and_their_lines_are_found_again(parts: list[str]) -> None:
    parts = [part + "\n" for part in parts]
    whole = "// -----\n".join(parts)
    chunks = split(whole.encode(), MARKER)
    assert [chunk.content.decode() for chunk in chunks] == parts
    lines = whole.split("\n")
    for chunk in chunks:
        in_place = chunk.in_place.decode().split("\n")[chunk.lines_before :]
        assert lines[chunk.lines_before :][: len(in_place) - 1] == in_place[:-1]


def test_markers_end_their_line_and_what_resembles_them_is_reported(tool: Tool) -> None:
    content = b"a\n// -----  \nb // -----\nc\n// ------\n// ----\n// ----- d\n// ---- text\n"
    assert [chunk.content for chunk in split(content, MARKER)][:2] == [b"a\n", b"b "]
    assert near_misses(content, MARKER) == [5, 6]
    _, err = tool("-split-input-file", stdin=PROGRAM + "// ----\n")
    assert err == "<stdin>:8:1: warning: near miss with file split marker\n// ----\n^\n"
    assert tool.status == 0
