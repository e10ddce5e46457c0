"""One record of every kind that can be asked."""

from __future__ import annotations

from dataclasses import replace

from lmms_eval_ad2.records import Mark, Option, Record, Step, Text

SIX = ("CAM_FRONT", "CAM_FRONT_LEFT", "CAM_FRONT_RIGHT", "CAM_BACK", "CAM_BACK_LEFT", "CAM_BACK_RIGHT")


def ad2(form: str = "vqa", task: str = "perception_base", **more: object) -> Record:
    base = Record(
        "r1", "ad2_bench", task, "any", form, ("a.png",),  # type: ignore[arg-type]
        Text("What stands at the kerb?", "路边停着什么？"), Text("A van", "一辆面包车"), image_size=(960, 540),
    )  # fmt: skip
    return replace(base, **more)  # type: ignore[arg-type]


def choice(letters: str = "ABCDEF", **more: object) -> Record:
    names = {"A": ("Car", "轿车"), "B": ("Van", "面包车"), "C": ("Bus", "公交车"), "D": ("Tram", "电车"),
             "E": ("None fits", "都不符合"), "F": ("Absent", "不存在")}  # fmt: skip
    options = tuple(Option(k, Text(*names[k])) for k in letters)
    return ad2("mc", options=options, letter="B", **more)


def chain() -> Record:
    rows = [("environment", "天气"), ("key vehicles", "车辆"), ("decision", "决策")]
    steps = tuple(Step(n, Text(f"What about {n}?", f"{zh}如何？"), Text(f"ref {n}", zh)) for n, zh in rows)
    return ad2("chain", task="cot", steps=steps)


def coda(task: str) -> Record:
    mark = Mark("box", ((96.0, 54.0, 480.0, 270.0),)) if task == "region" else Mark()
    return Record("c1", "coda_lm", task, task, "vqa", ("a.png",), Text(), Text("ref", "参考"), mark=mark,
                  image_size=(960, 540))  # fmt: skip


def mcq(views: tuple[str, ...] = (), question: str = "What comes next?") -> Record:
    images = tuple(f"{v}.png" for v in views) or ("a.png",)
    options = tuple(
        Option(k, Text(f"option {k}"), "correct" if k == "C" else "logical_inconsistencies") for k in "ABCD"
    )
    return Record("m1", "autodrive_qa", "prediction", "p", "mc", images, Text(question), Text("option C"), letter="C",
                  options=options, views=views, image_size=(1600, 900))  # fmt: skip
