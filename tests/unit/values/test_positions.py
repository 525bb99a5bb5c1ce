"""Places in files, and in texts inside files."""

from headwater.values import Position, TextPosition


def test_a_block_text_follows_the_lines_of_the_file() -> None:
    text = TextPosition(Position("p.yml", 10, 7), follows_lines=True)
    assert text.at(1) == Position("p.yml", 10, 7)
    assert text.at(3, 4) == Position("p.yml", 12, 10)


def test_other_texts_are_known_on_their_first_line() -> None:
    text = TextPosition(Position("p.yml", 10, 7))
    assert text.at(1, 4) == Position("p.yml", 10, 10)
    assert text.at(2, 4) == Position("p.yml", 10, 7)


def test_an_inexact_text_is_known_by_its_start_only() -> None:
    text = TextPosition(Position("p.py", 10, 7), exact=False)
    assert text.at(1, 4) == Position("p.py", 10, 7)


def test_a_position_prints_as_editors_open_it() -> None:
    assert str(Position("p.yml", 3, 5)) == "p.yml:3:5"
