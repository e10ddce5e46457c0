"""One record of every kind of question."""

from __future__ import annotations

from dataclasses import replace

from lmms_eval_ad2.core.records import AnswerOption, BilingualText, ReasoningStep, Record, VisualPrompt

SIX = ("CAM_FRONT", "CAM_FRONT_LEFT", "CAM_FRONT_RIGHT", "CAM_BACK", "CAM_BACK_LEFT", "CAM_BACK_RIGHT")


def ad2(form: str = "vqa", task: str = "perception_base", **more: object) -> Record:
    base = Record(
        "r1",
        "ad2_bench",
        task,
        "any",
        form,
        ("a.png",),  # type: ignore[arg-type]
        BilingualText("What stands at the kerb?", "路边停着什么？"),
        BilingualText("A van", "一辆面包车"),
        image_size=(960, 540),
    )
    return replace(base, **more)  # type: ignore[arg-type]


def choice(letters: str = "ABCDEF", **more: object) -> Record:
    names = {"A": ("Car", "轿车"), "B": ("Van", "面包车"), "C": ("Bus", "公交车"), "D": ("Tram", "电车"),
             "E": ("None fits", "都不符合"), "F": ("Absent", "不存在")}  # fmt: skip
    options = tuple(AnswerOption(k, BilingualText(*names[k])) for k in letters)
    return ad2("mc", options=options, letter="B", **more)


def chain() -> Record:
    rows = [("environment", "环境"), ("key vehicles", "车辆"), ("decision", "决策")]
    steps = tuple(
        ReasoningStep(
            BilingualText(n, zh), BilingualText(f"What about {n}?", f"{zh}如何？"), BilingualText(f"ref {n}", zh)
        )
        for n, zh in rows
    )
    return ad2("chain", task="cot", steps=steps)


def coda(task: str) -> Record:
    mark = VisualPrompt("box", ((96.0, 54.0, 480.0, 270.0),)) if task == "region" else VisualPrompt()
    return Record(
        "c1",
        "coda_lm",
        task,
        task,
        "vqa",
        ("a.png",),
        BilingualText(),
        BilingualText("ref", "参考"),
        mark=mark,
        image_size=(960, 540),
    )


def mcq(views: tuple[str, ...] = (), question: str = "What comes next?") -> Record:
    images = tuple(f"{v}.png" for v in views) or ("a.png",)
    options = tuple(
        AnswerOption(k, BilingualText(f"option {k}"), "correct" if k == "C" else "logical_inconsistencies")
        for k in "ABCD"
    )
    return Record(
        "m1",
        "autodrive_qa",
        "prediction",
        "p",
        "mc",
        images,
        BilingualText(question),
        BilingualText("option C"),
        letter="C",
        options=options,
        views=views,
        image_size=(1600, 900),
    )
