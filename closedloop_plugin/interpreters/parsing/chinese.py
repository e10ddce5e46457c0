"""Chinese driving words, translated to the English ones that the other modules read.

A run of Chinese characters is translated if the table covers all of it. A run that gives a reason or a condition
becomes one, a run about others or without a driving word says nothing, and any other run makes the reply unread: it may
deny what it names.
"""

from __future__ import annotations

import re

_TRADITIONAL = str.maketrans(
    "剎煞門轉減車變換穩駛極輕緩無沒須應該請將為動開關啟現於點後時當則對彎檔紅綠燈單續維觀讓",
    "刹刹门转减车变换稳驶极轻缓无没须应该请将为动开关启现于点后时当则对弯档红绿灯单续维观让",
)
# Longest first. Words that only join the others are empty.
_PHRASES: dict[str, str] = {
    # controls
    **dict.fromkeys(("油门踏板", "油门", "节气门"), "throttle"),
    **dict.fromkeys(("刹车踏板", "踩刹车", "刹车", "制动踏板", "制动"), "brake"),
    **dict.fromkeys(("方向盘转角", "方向盘", "转向角", "转向"), "steering"),
    **dict.fromkeys(("目标车速", "目标速度", "车速", "速度"), "speed"),
    "行驶方向": "direction", "方向": "direction", "动作": "action", "操作": "action", "决策": "decision",
    **dict.fromkeys(("设为", "设置为", "设定为", "调整为", "为", "是"), ":"),
    # denials and degrees
    **dict.fromkeys(("无", "没有", "零", "关闭", "否", "松开", "不使用"), "none"),
    **dict.fromkeys(("不需要", "无需", "不用", "无须", "不必"), "no need to"),
    **dict.fromkeys(("不要", "不能", "不应", "不得", "禁止", "请勿", "切勿", "勿", "别", "不"), "do not"),
    **dict.fromkeys(("轻轻", "轻微", "稍微", "略微", "略", "轻", "缓慢", "缓缓", "平稳", "逐渐", "慢慢"), "gently"),
    **dict.fromkeys(("紧急", "急", "立即", "立刻", "马上", "全力"), "hard"),
    # paces
    **dict.fromkeys(
        ("停车等待", "停车", "停下来", "停下", "停止", "停住", "停", "保持静止", "保持停车", "等待"),
        "stop",
    ),
    **dict.fromkeys(("减速慢行", "减速行驶", "减速", "降低车速", "降低速度", "降速", "慢行", "放慢速度"), "slow down"),
    **dict.fromkeys(("加速行驶", "加速", "提高车速", "提高速度", "提速"), "accelerate"),
    **dict.fromkeys(
        ("保持当前车速", "保持当前速度", "保持车速", "保持速度", "维持车速", "维持速度", "维持当前速度",
         "匀速行驶", "匀速", "保持匀速"),
        "keep the speed",
    ),
    **dict.fromkeys(("继续行驶", "继续前进", "前进", "继续", "行驶", "通行", "起步", "通过"), "drive"),
    **dict.fromkeys(("倒车", "后退"), "reverse"),
    **dict.fromkeys(("保持不变", "保持", "维持"), "maintain"),
    # ways
    **dict.fromkeys(("向左转弯", "向左转", "左转弯", "左转"), "turn left"),
    **dict.fromkeys(("向右转弯", "向右转", "右转弯", "右转"), "turn right"),
    **dict.fromkeys(("向左变道", "变道至左侧", "变道到左侧车道", "向左并线", "左变道"), "change lane to the left"),
    **dict.fromkeys(("向右变道", "变道至右侧", "变道到右侧车道", "向右并线", "右变道"), "change lane to the right"),
    **dict.fromkeys(("稍向左", "略微向左", "轻微向左", "向左微调", "微向左"), "steer slightly to the left"),
    **dict.fromkeys(("稍向右", "略微向右", "轻微向右", "向右微调", "微向右"), "steer slightly to the right"),
    **dict.fromkeys(("继续直行", "保持直行", "向前直行", "直行", "直走", "直线行驶"), "go straight"),
    **dict.fromkeys(("保持车道", "保持在车道内", "沿车道行驶", "保持当前车道", "车道保持"), "keep the lane"),
    "左": "left", "右": "right",
    # joints
    **dict.fromkeys(("并且", "并", "且", "同时", "和", "以及"), ", "),
    **dict.fromkeys(("然后", "随后", "接着", "再"), ", then"),
    **dict.fromkeys(
        ("自车", "本车", "车辆", "我", "应该", "应当", "应", "需要", "需", "必须", "请", "将", "把",
         "可以", "现在", "建议", "选择",
         "的", "了", "吧", "进行", "一下", "所以", "因此", "故", "就", "在路口", "在前方路口", "路口"),
        "",
    ),
}  # fmt: skip
_KNOWN = re.compile("|".join(sorted(map(re.escape, _PHRASES), key=len, reverse=True)))
_RUN = re.compile(r"[\u3400-\u9fff]+")
_REASON = re.compile(r"因为|由于|以便|以免|以避免|避免|为了|从而|原因|理由|考虑到|鉴于|确保")
_CONDITION = re.compile(r"如果|若|假如|要是|一旦|当|直到|除非|等到|待")
# Another road user is the subject. Without a place, "车辆" is our car.
_OTHERS = re.compile(
    r"(?:(?:前方|前面|对面|对向|左侧|右侧|左边|右边|旁边|后方|后面)的?[^停减加左右刹]{0,4}?(?:车辆|[公卡货轿客]?交?车(?!道))|前车|后车|行人|骑车人|骑行者|孩子|儿童)"
    r"(?!.*(?:自车|本车|我|请|应|需))"
)
_DRIVING = re.compile(
    r"停|刹|制动|减速|加速|提速|降速|慢行|匀速|车速|速度|左|右|直行|变道|并线|转弯|掉头|倒车|后退|油门|转向|方向盘|前进|起步|行驶|等待|让行|不|勿|别|禁止"
)


class UnknownWords(Exception):
    """A part of the reply has driving words whose meaning is unknown."""


def in_english(text: str) -> str:
    """The text with its Chinese words in English. Raises UnknownWords."""
    return (
        _RUN.sub(lambda match: f" {_translated(match.group().translate(_TRADITIONAL))} ", text)
        if _RUN.search(text)
        else text
    )


def _translated(run: str) -> str:
    words, position = [], 0
    while position < len(run) and (match := _KNOWN.match(run, position)):
        words.append(_PHRASES[match.group()])
        position = match.end()
    if position == len(run):
        return " ".join(filter(None, words))
    tail = run[position:]
    if _OTHERS.match(run):
        return "something"
    if _REASON.match(tail):
        return " ".join([*filter(None, words), "because something"])
    if _CONDITION.match(tail):
        return " ".join([*filter(None, words), "if something"])
    if _DRIVING.search(run):
        raise UnknownWords
    return "something"
