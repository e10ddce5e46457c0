"""Chance, majority and oracle, against cases computed by hand, the parser, and the scorer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders import boxed, chain, record

from lmms_eval_ad2.core.coordinates import FRAMES
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import Answer, AnswerOption, BilingualText, ReasoningStep, Record
from lmms_eval_ad2.harness.models import manifests
from lmms_eval_ad2.parsing import failure_reason, parse
from lmms_eval_ad2.scoring.reference_answers import written
from lmms_eval_ad2.scoring.sample import score_sample
from lmms_eval_ad2.scoring.variant import TaskVariant

if TYPE_CHECKING:
    from lmms_eval.api.instance import Instance

AD2 = {"benchmark": "ad2_bench", "part": "perception_base"}


@pytest.fixture(scope="module")
def baselines() -> Any:
    """Imported by the first test: it loads lmms-eval."""
    from lmms_eval_ad2.harness.models import baselines

    return baselines


def no_images(doc: Any) -> Any:
    raise AssertionError("a baseline opened an image")


def request(number: int, settings: dict[str, Any], metadata: dict[str, Any]) -> Instance:
    from lmms_eval.api.instance import Instance

    arguments = ("prompt", settings, no_images, number, "t", "test")
    return Instance(
        "generate_until", arguments, 0, {"task": "t", "doc_id": number, "repeats": 1, "split": "test", **metadata}
    )


def ask(
    model: Any, records: Sequence[Record], *, only: Sequence[int] | None = None, step: int | None = None,
    settings: dict[str, Any] | None = None, **ad2: Any,
) -> list[str]:  # fmt: skip
    """The answers to `records` under the settings in `metadata: ad2:`; `only`: these rows, in this order."""
    model.task_dict = {"t": {"test": [{"record": r.to_json()} for r in records]}}
    metadata: dict[str, Any] = {"version": 1, "ad2": {**AD2, **ad2}}
    if step is not None:
        metadata["ad2_step"] = step
    rows = range(len(records)) if only is None else only
    return list(model.generate_until([request(i, settings or {}, metadata) for i in rows]))


def texts(n: int, **changes: Any) -> list[Record]:
    return [record(f"r{i}", "vqa", answer=BilingualText(f"text {i}", f"文本 {i}"), **changes) for i in range(n)]


# --- chance ---


def test_chance_depends_only_on_record_and_seed(baselines: Any) -> None:
    records = [*[record(f"m{i}") for i in range(20)], *texts(20)]
    expected = ask(baselines.ChanceModel(), records)
    order = list(reversed(range(40)))
    assert ask(baselines.ChanceModel(), records, only=order) == [expected[i] for i in order]
    halves = [
        ask(baselines.ChanceModel(), records, only=range(start, 40, 2)) for start in (0, 1)
    ]  # as divided between two ranks
    assert [halves[i % 2][i // 2] for i in range(40)] == expected
    assert ask(baselines.ChanceModel(), list(reversed(records))) == list(reversed(expected))
    assert ask(baselines.ChanceModel(seed=1), records) != expected


def test_chance_is_uniform_over_the_offered_letters(baselines: Any) -> None:
    counts = Counter(ask(baselines.ChanceModel(), [record(f"m{i}") for i in range(3000)]))
    assert counts.keys() == set("ABCDEF")
    chi2 = sum((n - 500) ** 2 / 500 for n in counts.values())
    assert chi2 < 20.5  # the 0.1 % point at five degrees of freedom
    fewer = [record(f"m{i}", options=record().options[:2]) for i in range(50)]
    assert set(ask(baselines.ChanceModel(), fewer)) == {"A", "B"}


def test_chance_answers_yes_no_and_counts_in_both_languages(baselines: Any) -> None:
    assert set(ask(baselines.ChanceModel(), [record(f"y{i}", "yesno") for i in range(50)])) == {"yes", "no"}
    assert set(ask(baselines.ChanceModel(), [record(f"y{i}", "yesno") for i in range(50)], lang="zh")) == {"是", "否"}
    counts = ask(baselines.ChanceModel(), [record(f"c{i}", "count", answer=BilingualText("2")) for i in range(400)])
    assert set(counts) == {str(n) for n in range(11)}


def test_chance_never_gives_the_reference_of_the_record_itself(baselines: Any) -> None:
    records = [
        *texts(6),
        *[replace(r, id=f"o{r.id}", subtask="other", answer=BilingualText("foreign")) for r in texts(6)],
    ]
    sampled: set[str] = set()
    for seed in range(40):
        answers = ask(baselines.ChanceModel(seed=seed), records)[:6]
        assert all(answer != r.answer.en for answer, r in zip(answers, records, strict=False))
        sampled |= set(answers)
    assert sampled == {f"text {i}" for i in range(6)}  # all others of its sub-task, none of other sub-tasks
    assert all(a.startswith("文本") for a in ask(baselines.ChanceModel(), texts(4), lang="zh"))


def test_chance_uses_other_sub_tasks_for_a_lone_record_and_leaves_a_dataset_of_one_unscored(baselines: Any) -> None:
    records = [*texts(3), record("x", "vqa", subtask="alone", answer=BilingualText("mine"))]
    assert ask(baselines.ChanceModel(), records)[3] in {"text 0", "text 1", "text 2"}
    (reply,) = ask(baselines.ChanceModel(), texts(1))
    assert failure_reason(reply) == "no_other_reference"
    assert "r0: no other record has a reference of form vqa" in reply


def test_chance_samples_points_and_boxes_inside_the_image(baselines: Any) -> None:
    points = [record(f"p{i}", "point", answer=BilingualText("<7,7>")) for i in range(300)]
    read = [parse(a, "point", image_size=(100, 50)) for a in ask(baselines.ChanceModel(), points)]
    assert all(isinstance(r, Answer) and r.note == "" for r in read)
    values = [r.value for r in read if isinstance(r, Answer)]
    assert all(0 <= x < 100 and 0 <= y < 50 for x, y in values)
    assert math.isclose(sum(x for x, _ in values) / 300, 50, abs_tol=6)
    boxes = [replace(boxed(f"b{i}"), image_size=(100, 50)) for i in range(300)]
    for answer in ask(baselines.ChanceModel(), boxes):
        assert answer.startswith("<OUTPUT START>[")
        got = parse(answer, "box", image_size=(100, 50))
        assert isinstance(got, Answer)
        x1, y1, x2, y2 = got.value
        assert 0 <= x1 < x2 <= 100
        assert 0 <= y1 < y2 <= 50


def test_chance_takes_an_unknown_image_size_from_the_references(baselines: Any) -> None:
    records = [record(f"p{i}", "point", image_size=None, answer=BilingualText("<20,5>")) for i in range(100)]
    values = [parse(a, "point").value for a in ask(baselines.ChanceModel(), records)]
    assert all(0 <= x <= 20 and 0 <= y <= 5 for x, y in values)
    assert len({x for x, _ in values}) > 10


def test_chance_answers_each_step_from_another_chain(baselines: Any) -> None:
    records = [chain(f"c{i}", steps=2 + i % 2) for i in range(4)]
    records = [
        replace(
            r, steps=tuple(ReasoningStep(s.name, s.question, BilingualText(f"{r.id} {s.name.en}")) for s in r.steps)
        )
        for r in records
    ]
    for r, answer in zip(records, ask(baselines.ChanceModel(), records, part="cot"), strict=True):
        got = parse(answer, "chain", n_steps=len(r.steps))
        assert isinstance(got, Answer)
        assert not got.note
        for reply, step in zip(got.value, r.steps, strict=True):
            assert reply.split()[1] == step.name.en
            assert reply.split()[0] != r.id


# --- majority ---


def lettered(*letters: str, **changes: Any) -> list[Record]:
    return [record(f"m{i}", letter=letter, **changes) for i, letter in enumerate(letters)]


def test_majority_gives_the_most_frequent_offered_letter(baselines: Any) -> None:
    assert (
        ask(baselines.MajorityModel(), lettered("B", "C", "B", "C", "A")) == ["B"] * 5
    )  # a tie: the first in the alphabet
    records = [*lettered("F", "F", "B"), record("few", letter="A", options=record().options[:2])]
    assert ask(baselines.MajorityModel(), records) == ["F", "F", "F", "A"]  # F is not offered to the last; A and B tie
    other = [replace(r, id=f"o{r.id}", subtask="counting", letter="D") for r in records]
    assert ask(baselines.MajorityModel(), [*records, *other])[:3] == ["F", "F", "F"]


def test_majority_counts_answers_as_parsed(baselines: Any) -> None:
    def typed(form: str, *answers: str) -> list[Record]:
        return [record(f"t{i}", form, answer=BilingualText(a)) for i, a in enumerate(answers)]

    assert ask(baselines.MajorityModel(), typed("count", "10", "3", "3 cars", "10", "four?")) == ["3"] * 5
    assert ask(baselines.MajorityModel(), typed("yesno", "Yes", "yes.", "no")) == ["yes"] * 3
    assert ask(baselines.MajorityModel(), typed("yesno", "yes", "no"), lang="zh") == ["否"] * 2
    assert ask(baselines.MajorityModel(), typed("ocr", "STOP", "EXIT", "STOP", "EXIT")) == ["EXIT"] * 4


def test_majority_of_texts_and_of_each_step(baselines: Any) -> None:
    reply = [record(f"v{i}", "vqa", answer=BilingualText(t)) for i, t in enumerate(("wet", "dry", "dry"))]
    assert ask(baselines.MajorityModel(), reply) == ["dry"] * 3
    chains = [chain(f"c{i}", steps=2) for i in range(2)]
    chains.append(
        replace(
            chain("c2", steps=2),
            steps=(ReasoningStep(BilingualText("s1"), BilingualText("q"), BilingualText("aaa")), chains[0].steps[1]),
        )
    )
    assert ask(baselines.MajorityModel(), chains, part="cot") == ["<start1>truth 1<end>\n<start2>truth 2<end>"] * 3


def test_majority_of_points_and_boxes_is_the_median_relative_to_the_image(baselines: Any) -> None:
    points = (("<10,10>", (100, 50)), ("<20,20>", (100, 50)), ("<90,60>", (200, 100)))
    records = [record(f"p{i}", "point", answer=BilingualText(t), image_size=s) for i, (t, s) in enumerate(points)]
    # x: 0.10 0.20 0.45, y: 0.2 0.4 0.6
    assert ask(baselines.MajorityModel(), records) == ["<20,20>", "<20,20>", "<40,40>"]
    unsized = [*records[:2], replace(records[2], image_size=None)]
    assert ask(baselines.MajorityModel(), unsized) == ["<20,20>"] * 3
    assert (
        ask(baselines.MajorityModel(), [boxed("b1"), boxed("b2")]) == ["<OUTPUT START>[10, 10, 30, 30]<OUTPUT END>"] * 2
    )


def test_majority_without_a_readable_reference_is_an_error(baselines: Any) -> None:
    with pytest.raises(Ad2Error, match="t0: no record of the dataset has a readable count reference"):
        ask(baselines.MajorityModel(), [record("t0", "count", answer=BilingualText("many"))])


# --- oracle ---

TYPED = [
    record("mc", "mc"),
    record("yn", "yesno", answer=BilingualText("no", "否")),
    record("ct", "count", answer=BilingualText("3", "3")),
    record("pt", "point", answer=BilingualText("<12.5,30>")),
    boxed("bx"),
    record("oc", "ocr", subtask="ocr", answer=BilingualText("STOP 让行", "STOP 让行")),
]


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("asked", TYPED, ids=lambda r: r.form)
def test_the_oracle_scores_100(baselines: Any, asked: Record, frame: Any, lang: Any) -> None:
    (answer,) = ask(baselines.OracleModel(), [asked], lang=lang, frame=frame)
    variant = TaskVariant(**AD2, lang=lang, frame=frame)
    sample = score_sample(asked, answer, variant, "t", resizing=baselines.OracleModel.input_resizing)
    assert sample.status == "ok"
    assert sample.score == pytest.approx(100, abs=1e-4)


def test_the_oracle_writes_references_and_steps(baselines: Any) -> None:
    assert ask(baselines.OracleModel(), texts(1), lang="zh") == ["文本 0"]
    open_mc = record("m", answer=BilingualText())
    assert ask(baselines.OracleModel(), [open_mc], form="vqa") == ["option A"]
    assert ask(baselines.OracleModel(), [chain(steps=2)], part="cot") == ["<start1>truth 1<end>\n<start2>truth 2<end>"]
    stepped = replace(record("v", "vqa"), steps=chain(steps=2).steps)
    assert ask(baselines.OracleModel(), [stepped], style="chain")[0].startswith("<start1>truth 1<end>")


def test_rounds_are_answered_step_by_step(baselines: Any) -> None:
    records = [chain("c1"), chain("c2")]
    for model in (baselines.OracleModel(), baselines.ChanceModel(), baselines.MajorityModel()):
        assert ask(model, records, step=1, part="cot", rounds=True) == ["truth 2", "truth 2"]
    assert ask(baselines.OracleModel(), records, settings={"ad2_step": 2}, part="cot", rounds=True) == ["truth 3"] * 2
    with pytest.raises(Ad2Error, match="ad2_step"):
        ask(baselines.OracleModel(), records, part="cot", rounds=True)


def test_a_task_without_settings_uses_the_form_of_the_record(baselines: Any) -> None:
    model = baselines.OracleModel()
    model.task_dict = {"t": {"test": [{"record": record("m").to_json()}]}}
    assert model.generate_until([request(0, {}, {})]) == ["A"]


# --- written values, arguments, registration ---


@given(
    st.tuples(*[st.floats(0, 1, allow_nan=False)] * 4),
    st.tuples(st.integers(16, 8000), st.integers(16, 8000)),
    st.sampled_from(["pixel", "unit", "percent", "thousand", "thousand_yx", "model_input"]),
)
def test_written_points_and_boxes_parse_to_the_same_values(
    corners: tuple[float, ...], size: tuple[int, int], frame: Any
) -> None:
    (x1, x2), (y1, y2) = sorted(corners[:2]), sorted(corners[2:])
    value = (x1 * size[0], y1 * size[1], x2 * size[0], y2 * size[1])
    for form, expected in (("box", value), ("point", value[:2])):
        text = written(expected, form, "en", frame, size, (1400, 700))
        got = parse(text, form, image_size=size, frame=frame, model_input=(1400, 700))
        if isinstance(got, Answer):
            assert got.value == pytest.approx(expected, abs=1e-3)
        else:  # a box without area is not a box
            assert min(x2 - x1, y2 - y1) < 1e-6


def test_unknown_arguments_and_foreign_tasks_are_refused(baselines: Any) -> None:
    with pytest.raises(Ad2Error, match="ad2_chance: unknown model argument 'sed'; did you mean 'seed'"):
        baselines.ChanceModel.create_from_arg_string(
            "sed=3", {"batch_size": 1, "max_batch_size": None, "device": "cpu"}
        )
    with pytest.raises(Ad2Error, match="seed must be a whole number"):
        baselines.ChanceModel(seed="x")  # type: ignore[arg-type]
    assert baselines.ChanceModel.create_from_arg_string("seed=3", {"batch_size": "4", "device": "cpu"}).seed == 3
    model = baselines.OracleModel()
    model.task_dict = {"t": {"test": [{"question": "2+2?"}]}}
    with pytest.raises(Ad2Error, match="this package's tasks; t has none"):
        model.generate_until([request(0, {}, {})])
    with pytest.raises(DataError, match="options"):
        ask(baselines.ChanceModel(), [record("m", options=())])


@pytest.mark.parametrize("kind", ["ChanceModel", "MajorityModel", "OracleModel"])
def test_unsupported_requests_raise_not_implemented(baselines: Any, kind: str) -> None:
    model = getattr(baselines, kind)()
    assert (model.rank, model.world_size, str(model.device)) == (0, 1, "cpu")
    with pytest.raises(NotImplementedError, match="likelihoods"):
        model.loglikelihood([])
    with pytest.raises(NotImplementedError, match="agentic"):
        model.generate_until_multi_round([])


def test_every_manifest_has_a_model_class() -> None:
    from lmms_eval.models.registry_v2 import ModelRegistryV2

    registry = ModelRegistryV2()
    for manifest in manifests():
        registry.register_manifest(manifest)
    names = registry.list_canonical_model_ids()
    assert names == ["ad2_chance", "ad2_hf", "ad2_majority", "ad2_oracle", "ad2_swift"]
    assert all(registry.get_model_class(name).is_simple for name in names)


def test_baselines_ignore_the_kind_of_an_option(baselines: Any) -> None:
    """Baselines must not use the kind of an option, which identifies the correct one."""
    plain = tuple(AnswerOption(o.letter, o.text, "distractor") for o in record().options)
    records = [record(f"m{i}") for i in range(30)]
    bare = [replace(r, options=plain) for r in records]
    for kind in (baselines.ChanceModel, baselines.MajorityModel):
        assert ask(kind(), records) == ask(kind(), bare)
