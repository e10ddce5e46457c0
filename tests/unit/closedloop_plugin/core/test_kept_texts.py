"""Texts of decisions in files: keys before the cut, lengths of what was cut."""

from __future__ import annotations

from closedloop_plugin.core.kept_texts import NAME, TEXT, TEXTS, KeptTexts

KEY = "abcdefgh12345678"


def test_a_long_text_is_cut_and_its_length_is_noted() -> None:
    kept = KeptTexts(())
    assert kept.text("raw", "x" * TEXT) == "x" * TEXT and kept.cut == {}
    assert kept.text("raw", "y" * (TEXT + 3)) == "y" * TEXT and kept.cut == {"raw": TEXT + 3}
    assert kept.optional("error", None) is None and kept.optional("error", "late") == "late"


def test_a_key_at_the_cut_leaves_nothing() -> None:
    assert "abcd" not in KeptTexts((KEY,)).text("raw", "x" * (TEXT - 4) + KEY)


def test_answers_are_bounded_in_number_and_name() -> None:
    kept = KeptTexts((KEY,))
    answers = kept.answers("texts", {"n" * 100: f"see {KEY}", **{str(i): "z" * (TEXT + 1) for i in range(100)}})
    assert len(answers) == TEXTS and answers["n" * NAME] == "see [REDACTED]"
    assert kept.cut["texts.0"] == TEXT + 1
