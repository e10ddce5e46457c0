"""Caption metrics: pycocoevalcap's numbers, hand-computed numbers, hostile text, and missing Java."""

from __future__ import annotations

import json
import math
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.java import SPICE_MODELS, fake_java, fake_spice_folder, needs_java, on_path
from support.tiers import examples

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import Unscored
from lmms_eval_ad2.scoring.metrics.caption import (
    CAPTION_METRICS,
    DEFAULT_METRICS,
    CorpusScore,
    caption_scores,
    in_language,
    java,
    spice,
    tokens,
)

REFERENCES = {
    "van": ["A white van turns left at the crossing.", "The van is turning left; it's slow (about 30 km/h)."],
    "light": ["The traffic light ahead is red, so the car should stop."],
    "bike": ["A cyclist rides on the right-hand side of the road.", 'The sign says "no entry".'],
}
CANDIDATES = {
    "van": "A van turns left at the crossing, slowly.",
    "light": "The light is green, so the car should keep going.",
    "bike": "There is a cyclist on the right side of the road.",
}


def value(scores: dict[str, CorpusScore | Unscored], name: str) -> float:
    found = scores[name]
    assert isinstance(found, CorpusScore), found
    return found.value


def reference_tokens(texts: dict[str, list[str]]) -> dict[str, list[str]]:
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    return PTBTokenizer().tokenize({key: [{"caption": text} for text in rows] for key, rows in texts.items()})


def reference_scores(references: dict[str, list[str]], candidates: dict[str, str]) -> dict[str, tuple[float, list]]:
    """pycocoevalcap called directly, as its own evaluation does."""
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    gts = reference_tokens({key: references[key] for key in candidates})
    res = reference_tokens({key: [text] for key, text in candidates.items()})
    bleu, bleu_items = Bleu(4).compute_score(gts, res, verbose=0)
    expected = {f"bleu_{n}": (bleu[n - 1], bleu_items[n - 1]) for n in (1, 2, 3, 4)}
    return expected | {"rouge_l": Rouge().compute_score(gts, res), "cider": Cider().compute_score(gts, res)}


def assert_same(found: dict[str, CorpusScore | Unscored], expected: dict[str, tuple[float, list]]) -> None:
    for name, (corpus, items) in expected.items():
        score = found[name]
        assert isinstance(score, CorpusScore)
        assert score.value == pytest.approx(corpus, rel=1e-12, abs=1e-15), name
        assert list(score.per_item.values()) == pytest.approx(list(items), rel=1e-12, abs=1e-15), name


def drivelm_pairs(data_dir: Path) -> tuple[dict[str, list[str]], dict[str, str]]:
    rows = json.loads((data_dir / "drivelm" / "output.json").read_text("utf-8"))
    return {row["id"]: [row["gt_answer"]] for row in rows}, {row["id"]: row["answer"] for row in rows}


# --- the numbers ---------------------------------------------------------------------------------------------------


@pytest.mark.integration
@needs_java
def test_equal_to_pycocoevalcap() -> None:
    found = caption_scores(REFERENCES, CANDIDATES)
    assert list(found) == list(DEFAULT_METRICS)
    assert_same(found, reference_scores(REFERENCES, CANDIDATES))


@pytest.mark.integration
@needs_java
def test_equal_to_pycocoevalcap_on_real_answers(data_dir: Path) -> None:
    references, candidates = drivelm_pairs(data_dir)
    assert len(candidates) == 66
    assert_same(caption_scores(references, candidates), reference_scores(references, candidates))


@pytest.mark.integration
@needs_java
def test_meteor_equals_pycocoevalcap_and_survives_its_own_separator(capfd: pytest.CaptureFixture[str]) -> None:
    from pycocoevalcap.meteor.meteor import Meteor

    references = REFERENCES | {
        "sep": ["the car ||| stops"],
        "empty": ["the car stops"],
        "wide": ["it stops"],
        "endless": ["a b"],
    }
    hostile = {"sep": "EVAL ||| the car\nSCORE |||||| stops", "empty": "", "wide": "it stops " + "word " * 300}
    hostile["endless"] = "a b " * 20_000  # uncut, this terminates the program for the whole set
    found = caption_scores(references, CANDIDATES | hostile, ["meteor"])["meteor"]
    assert isinstance(found, CorpusScore), found
    assert capfd.readouterr() == ("", "")
    gts, res = reference_tokens(REFERENCES), reference_tokens({key: [text] for key, text in CANDIDATES.items()})
    _, items = Meteor().compute_score(gts, res)
    assert [found.per_item[key] for key in CANDIDATES] == pytest.approx(items, rel=1e-12)
    assert found.per_item["sep"] > 0.3, "its row still holds its own words"
    assert found.per_item["empty"] == 0
    assert 0 < found.per_item["wide"] < 1
    assert found.note == "1 texts were cut to 2000 words"


def test_bleu_worked_by_hand() -> None:
    """Papineni's clipped counts: 5/7 words, 3/6 pairs, 1/5 triples; longer than the reference, so no penalty."""
    found = caption_scores({"a": ["the cat is on the mat"]}, {"a": "the cat the cat on the mat"}, tokenizer="plain")
    assert value(found, "bleu_1") == pytest.approx(5 / 7)
    assert value(found, "bleu_2") == pytest.approx(math.sqrt(5 / 7 * 3 / 6))
    assert value(found, "bleu_3") == pytest.approx((5 / 7 * 3 / 6 * 1 / 5) ** (1 / 3))
    assert value(found, "bleu_4") < 1e-3


def test_bleu_has_a_penalty_for_short_candidates() -> None:
    found = caption_scores({"a": ["the cat is on"]}, {"a": "the cat"}, ["bleu_1"], tokenizer="plain")
    assert value(found, "bleu_1") == pytest.approx(math.exp(1 - 4 / 2))


def test_bleu_pools_counts_over_the_set() -> None:
    """2 of 2 words and 0 of 6: the set has 2/8, the mean of the items would be 1/2."""
    found = caption_scores(
        {"a": ["x y"], "b": ["p q r s t u"]}, {"a": "x y", "b": "g h i j k l"}, ["bleu_1"], tokenizer="plain"
    )["bleu_1"]
    assert isinstance(found, CorpusScore)
    assert found.value == pytest.approx(2 / 8)
    assert found.per_item == pytest.approx({"a": 1.0, "b": 0.0}, abs=1e-6)


def test_rouge_worked_by_hand() -> None:
    """LCS 3: precision 3/4, recall 3/5; with beta 1.2, 2.44*P*R / (R + 1.44*P)."""
    found = caption_scores({"a": ["a c d e f"]}, {"a": "a b c d"}, ["rouge_l"], tokenizer="plain")
    assert value(found, "rouge_l") == pytest.approx(2.44 * 0.75 * 0.6 / (0.6 + 1.44 * 0.75))


def test_cider_of_perfect_and_unrelated_answers() -> None:
    references = {"a": ["one two three four"], "b": ["five six seven eight"]}
    same = caption_scores(references, {k: v[0] for k, v in references.items()}, ["cider"], tokenizer="plain")
    assert value(same, "cider") == pytest.approx(10)
    swapped = {"a": references["b"][0], "b": references["a"][0]}
    assert value(caption_scores(references, swapped, ["cider"], tokenizer="plain"), "cider") == 0


def test_bleu_agrees_with_sacrebleu_and_nltk(data_dir: Path) -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    nltk_bleu = pytest.importorskip("nltk.translate.bleu_score")
    references, candidates = drivelm_pairs(data_dir)
    ids = list(candidates)
    refs = tokens.tokenize([references[key][0] for key in ids], "plain", "en")
    hypotheses = tokens.tokenize([candidates[key] for key in ids], "plain", "en")
    found = caption_scores(references, candidates, ["bleu_4"], tokenizer="plain")
    theirs = sacrebleu.corpus_bleu(hypotheses, [refs], tokenize="none", smooth_method="none").score / 100
    assert value(found, "bleu_4") == pytest.approx(theirs, rel=1e-6)
    assert value(found, "bleu_4") == pytest.approx(
        nltk_bleu.corpus_bleu([[ref.split()] for ref in refs], [text.split() for text in hypotheses]), rel=1e-6
    )
    assert theirs > 0.005, "a comparison of zeros shows nothing"


# --- hostile text --------------------------------------------------------------------------------------------------

HOSTILE = [
    "stop\nhere", "stop\r\nhere", "stop\rhere", "stop\u2028here", "stop\u2029here", "stop\u0085here", "stop\x0bhere",
    "stop\x0chere", "stop\x1chere", "stop\x00here", "stop\ud800here", "\n\n\n", "", " ", "\u200b", "<!-- open",
    "<a href='", "||| stop", "EVAL ||| 1", "(((", '"', "x" * 100_000, "so it goes " * 9_000, "'" * 50_000,
]  # fmt: skip


@pytest.mark.integration
@needs_java
def test_hostile_text_does_not_shift_rows(capfd: pytest.CaptureFixture[str]) -> None:
    """A plain candidate between two hostile ones is still compared with its own reference."""
    references = {f"{i}": ["the light is red"] for i in range(len(HOSTILE))}
    candidates = {f"{i}": text for i, text in enumerate(HOSTILE)}
    for i in range(len(HOSTILE)):
        references[f"mark{i}"] = [f"the car number {i} turns left"]
        candidates[f"mark{i}"] = f"the car number {i} turns left"
    order = [key for i in range(len(HOSTILE)) for key in (f"{i}", f"mark{i}")]
    found = caption_scores(references, {key: candidates[key] for key in order}, ["rouge_l", "bleu_4", "cider"])
    rouge = found["rouge_l"]
    assert isinstance(rouge, CorpusScore)
    assert {rouge.per_item[f"mark{i}"] for i in range(len(HOSTILE))} == {1.0}
    assert rouge.per_item["12"] == 0
    assert capfd.readouterr() == ("", "")


@pytest.mark.integration
@needs_java
@settings(max_examples=examples(12), deadline=None)
@given(st.lists(st.text(alphabet=st.characters(), max_size=40), min_size=1, max_size=40))
def test_tokenizer_keeps_the_rows_of_any_texts(texts: list[str]) -> None:
    marked = [row for i, text in enumerate(texts) for row in (text, f"mark{i}")]
    assert tokens.tokenize(marked, "ptb", "en")[1::2] == [f"mark{i}" for i in range(len(texts))]


@given(st.text(alphabet=st.characters()))
def test_one_line_has_no_line_breaks_and_can_be_encoded(text: str) -> None:
    line = tokens.one_line(text)
    assert len(line.splitlines()) <= 1
    assert len(line) == len(text)
    line.encode()


def test_two_long_texts_fit_into_memory() -> None:
    """pycocoevalcap's own table would have 400 million numbers here."""
    long = "red green blue amber " * 5_000
    assert value(caption_scores({"a": [long]}, {"a": long}, ["rouge_l"], tokenizer="plain"), "rouge_l") == 1


@pytest.mark.integration
@needs_java
def test_scores_of_ten_thousand_pairs() -> None:
    references = {str(i): [f"the {i} car turns left"] for i in range(10_000)}
    candidates = {key: refs[0] if int(key) % 2 else "nothing there" for key, refs in references.items()}
    found = caption_scores(references, candidates)
    assert value(found, "rouge_l") == pytest.approx(0.5)
    cider = found["cider"]
    assert isinstance(cider, CorpusScore)
    assert cider.per_item["9999"] == pytest.approx(10)
    assert cider.per_item["9998"] == 0


@pytest.mark.integration
@needs_java
def test_empty_candidates_score_as_in_pycocoevalcap() -> None:
    references = {"a": ["the car stops"], "b": ["the light is red"], "c": [""]}
    candidates = {"a": "", "b": "the light is red", "c": ""}
    found = caption_scores(references, candidates)
    assert_same(found, reference_scores(references, candidates))
    rouge = found["rouge_l"]
    assert isinstance(rouge, CorpusScore)
    assert (rouge.per_item["a"], rouge.per_item["c"]) == (0, 1), "two empty texts are equal, as there"


# --- tokenizers and languages --------------------------------------------------------------------------------------


def test_plain_tokenizer() -> None:
    texts = ["It's 3.5 m to <c1,CAM_BACK,1088.3,497.5>!", "No-entry_sign; 1,000 cars."]
    assert tokens.tokenize(texts, "plain", "en") == [
        "it's 3.5 m to c 1 cam _ back 1088.3,497.5",
        "no entry _ sign 1,000 cars",
    ]


@pytest.mark.integration
@pytest.mark.parametrize("name", ["plain", pytest.param("ptb", marks=needs_java)])
def test_chinese_is_split_into_characters(name: tokens.TokenizerName) -> None:
    assert tokens.tokenize(["前车正在左转，速度30公里。", "一辆car"], name, "zh") == [
        "前 车 正 在 左 转 速 度 30 公 里",
        "一 辆 car",
    ]


@pytest.mark.integration
@needs_java
def test_chinese_scores_by_characters() -> None:
    references, candidates = {"a": ["前车正在左转。"]}, {"a": "前车正在右转。"}
    assert value(caption_scores(references, candidates, ["bleu_1"], lang="zh"), "bleu_1") == pytest.approx(5 / 6)
    assert value(caption_scores(references, candidates, ["bleu_1"]), "bleu_1") < 0.6, "uncut, only the stop is equal"


@pytest.mark.integration
@needs_java
def test_meteor_of_chinese_worked_by_hand() -> None:
    """Language "other", with METEOR's language-independent parameters alpha 0.75, beta 1.4, gamma 0.7: of 9 and 12
    characters 8 match, in 2 chunks. P = 8/9, R = 8/12, F = P R / (0.75 P + 0.25 R), score = F (1 - 0.7 (2/8)^1.4)."""
    references, candidates = {"a": ["自车前方有一辆红色公交车。"]}, {"a": "前方有一辆红色卡车"}
    found = caption_scores(references, candidates, ["meteor"], lang="zh")["meteor"]
    assert isinstance(found, CorpusScore)
    precision, recall = 8 / 9, 8 / 12
    mean = precision * recall / (0.75 * precision + 0.25 * recall)
    assert found.value == pytest.approx(mean * (1 - 0.7 * (2 / 8) ** 1.4), abs=1e-6)
    assert found.note.startswith('language "other" for Chinese')
    assert found.per_item == {"a": pytest.approx(found.value)}


def test_spice_is_not_computed_for_chinese() -> None:
    found = caption_scores({"a": ["前车"]}, {"a": "前车"}, ["spice"], lang="zh")["spice"]
    assert isinstance(found, Unscored) and found.reason == "english_only"


def test_pairs_in_another_language_do_not_belong_to_a_chinese_set() -> None:
    references = {key: ["前车正在左转"] for key in "abcde"} | {"e": ["A car turns left."]}
    candidates = {"a": "前车", "b": "A car.", "c": "", "d": "一辆SUV", "e": "前车"}
    assert in_language(references, candidates, "zh") == {"a", "c", "d"}, "an empty answer is in no language"
    assert in_language(references, candidates, "en") == set("abcde")


def test_the_tokenizer_is_named_in_the_result() -> None:
    found = caption_scores({"a": ["x y"]}, {"a": "x y"}, ["rouge_l"], tokenizer="plain")["rouge_l"]
    assert isinstance(found, CorpusScore)
    assert found.tokenizer == "plain"


# --- Java missing or failing ---------------------------------------------------------------------------------------


def test_without_java_every_metric_is_unscored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    on_path(monkeypatch, tmp_path)
    found = caption_scores(REFERENCES, CANDIDATES, CAPTION_METRICS)
    assert list(found) == list(CAPTION_METRICS)
    for name, score in found.items():
        assert isinstance(score, Unscored), name
        assert (score.metric, score.reason) == (name, "java_missing")
        assert "Install a Java runtime" in score.detail
    assert 'tokenizer="plain"' in found["bleu_1"].detail  # type: ignore[union-attr]


def test_without_java_plain_tokenizer_still_scores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    on_path(monkeypatch, tmp_path)
    found = caption_scores(REFERENCES, CANDIDATES, ["bleu_1", "meteor", "cider"], tokenizer="plain")
    assert isinstance(found["bleu_1"], CorpusScore)
    assert isinstance(found["cider"], CorpusScore)
    assert isinstance(found["meteor"], Unscored)


@pytest.mark.integration
def test_old_java_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_java(tmp_path, "sys.exit(1)", version="1.7.0_80")
    on_path(monkeypatch, tmp_path)
    found = caption_scores(REFERENCES, CANDIDATES, ["bleu_1"])["bleu_1"]
    assert isinstance(found, Unscored)
    assert found.reason == "java_missing"
    assert "Java 7, too old" in found.detail


@pytest.mark.integration
@pytest.mark.parametrize(
    ("body", "reason", "words"),
    [
        ("print('out of memory', file=sys.stderr); sys.exit(3)", "java_failed", "status 3: out of memory"),
        ("print('one line too few')", "tokenizer_misaligned", "1 lines for"),
        ("time.sleep(60)", "java_failed", "within 0.5 s"),
    ],
)
def test_failing_tokenizer_is_unscored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str, reason: str, words: str
) -> None:
    fake_java(tmp_path, body)
    on_path(monkeypatch, tmp_path)
    found = caption_scores(REFERENCES, CANDIDATES, ["bleu_1"], timeout_s=0.5 if "sleep" in body else 600)["bleu_1"]
    assert isinstance(found, Unscored)
    assert found.reason == reason
    assert words in found.detail


@pytest.mark.integration
@pytest.mark.parametrize(
    ("body", "words"),
    [("sys.exit(1)", "broke its protocol"), ("print('x', flush=True); time.sleep(60)", "within 1 s")],
)
def test_meteor_process_is_closed_after_exit_or_timeout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str, words: str
) -> None:
    started: list[subprocess.Popen] = []

    class Watched(subprocess.Popen):
        def __init__(self, *args: object, **kwargs: object) -> None:
            super().__init__(*args, **kwargs)  # type: ignore[call-overload]
            started.append(self)

    fake_java(tmp_path, body)
    on_path(monkeypatch, tmp_path)
    java.find()
    monkeypatch.setattr(subprocess, "Popen", Watched)
    limit_s = 1 if "sleep" in body else 600
    found = caption_scores(REFERENCES, CANDIDATES, ["meteor"], tokenizer="plain", timeout_s=limit_s)["meteor"]
    assert isinstance(found, Unscored)
    assert found.reason == "java_failed"
    assert words in found.detail
    assert [process.poll() is not None for process in started] == [True]
    pipes = (started[0].stdin, started[0].stdout, started[0].stderr)
    assert [pipe.closed for pipe in pipes if pipe] == [True, True, True]


@needs_java
def test_spice_scores_or_reports_missing_models() -> None:
    found = caption_scores(REFERENCES, CANDIDATES, ["spice"])["spice"]
    if not spice.missing_models():
        assert isinstance(found, CorpusScore)
        assert 0 < found.value < 1
    else:
        assert isinstance(found, Unscored)
        assert found.reason == "spice_models_missing"
        assert "stanford-corenlp-3.6.0-models.jar" in found.detail
        assert "get_stanford_models" in found.detail


SPICE_BODY = """
source, target = args[args.index('-jar') + 2], args[args.index('-out') + 1]
rows = json.load(open(source))
assert '--add-opens=java.base/java.lang=ALL-UNNAMED' in args
out = [{'image_id': r['image_id'], 'scores': {'All': {'f': 0.5 if 'van' in r['test'] else FIRST}}} for r in rows]
json.dump(out[::-1], open(target, 'w'))
"""


@pytest.mark.integration
@pytest.mark.parametrize(("given_f", "reason"), [("0.25", None), ("float('nan')", "spice_failed")])
def test_spice_reads_its_result_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given_f: str, reason: str | None
) -> None:
    """With a fake program: rows in another order, a row without a number."""
    fake_spice_folder(monkeypatch, tmp_path, SPICE_MODELS)
    fake_java(tmp_path, SPICE_BODY.replace("FIRST", given_f))
    on_path(monkeypatch, tmp_path)
    found = caption_scores(REFERENCES, CANDIDATES, ["spice"])["spice"]
    if reason:
        assert isinstance(found, Unscored)
        assert found.reason == reason
    else:
        assert isinstance(found, CorpusScore)
        assert found.per_item == {"van": 0.5, "light": 0.25, "bike": 0.25}
        assert found.value == pytest.approx(1 / 3)
        assert found.tokenizer == "spice"


def test_pycocoevalcaps_download_is_named_only_if_it_would_fetch_a_jar(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It looks for the first jar only."""
    fake_spice_folder(monkeypatch, tmp_path, ())
    assert spice.missing_models() == [tmp_path / "lib" / name for name in SPICE_MODELS]
    assert f"cd {tmp_path} && python get_stanford_models.py" in spice.faults()[-1]
    (tmp_path / "lib" / SPICE_MODELS[0]).touch()
    fault = spice.faults()[-1]
    assert f"put {SPICE_MODELS[1]} into {tmp_path / 'lib'}" in fault and "get_stanford_models" not in fault


@pytest.mark.integration
@needs_java
def test_parallel_calls_are_independent() -> None:
    alone = caption_scores(REFERENCES, CANDIDATES)
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda _: caption_scores(REFERENCES, CANDIDATES), range(3))) == [alone] * 3


# --- invalid input -------------------------------------------------------------------------------------------------


def test_no_pairs_is_unscored() -> None:
    found = caption_scores({}, {}, ["bleu_1"])["bleu_1"]
    assert isinstance(found, Unscored)
    assert found.reason == "no_items"


def test_cider_without_reference_words_is_unscored() -> None:
    found = caption_scores({"a": ["..."]}, {"a": "word"}, ["cider", "bleu_1"], tokenizer="plain")
    assert isinstance(found["cider"], Unscored)
    assert found["cider"].reason == "no_reference_words"
    assert isinstance(found["bleu_1"], CorpusScore)


@pytest.mark.parametrize(
    ("references", "candidates"),
    [
        ({"a": ["x"]}, {}),
        ({}, {"a": "x"}),
        ({"a": []}, {"a": "x"}),
        ({"a": "x"}, {"a": "x"}),
        ({"a": ["x"]}, {"a": None}),
        ({"a": [3]}, {"a": "x"}),
    ],
)
def test_mismatched_pairs_are_rejected(references: dict, candidates: dict) -> None:
    with pytest.raises(DataError):
        caption_scores(references, candidates)


def test_unknown_metric_and_tokenizer_are_rejected() -> None:
    with pytest.raises(Ad2Error, match="unknown caption metric 'bleu'"):
        caption_scores({"a": ["x"]}, {"a": "x"}, ["bleu"])
    with pytest.raises(Ad2Error, match="unknown tokenizer"):
        caption_scores({"a": ["x"]}, {"a": "x"}, tokenizer="nltk")  # type: ignore[arg-type]
