"""Chinese driving words, translated to the English ones that the other modules read.

A run of Chinese characters is translated if the table covers all of it. A run that gives a reason or a condition
becomes one. A run about others, one that describes the scene (前方道路畅通) and one without a driving word say
nothing. Any other run makes the reply unread: it may deny what it names.
"""

from __future__ import annotations

import re

from closedloop_plugin.driver.interpreters.parsing.chinese_phrases import ACTIONS, PHRASES

_TRADITIONAL = str.maketrans(
    "剎煞門轉減車變換穩駛極輕緩無沒須應該請將為動開關啟現於點後時當則對彎檔"
    "紅綠燈單續維觀讓輛暢況線闊側邊擁給鬆會過礙標誌與來緊離較遠靜馬們間從視",
    "刹刹门转减车变换稳驶极轻缓无没须应该请将为动开关启现于点后时当则对弯档"
    "红绿灯单续维观让辆畅况线阔侧边拥给松会过碍标志与来紧离较远静马们间从视",
)
_KNOWN = re.compile("|".join(sorted(map(re.escape, PHRASES), key=len, reverse=True)))
_RUN = re.compile(r"[\u3400-\u9fff]+")
_REASON = re.compile(r"因为|由于|以便|以免|以避免|避免|为了|从而|原因|理由|考虑到|鉴于|确保")
_CONDITION = re.compile(r"当(?![前下中然])|直到|除非|等到|待|只要|只有|如(?![此下上同何])")
_IF = re.compile(r"如果|若(?!干)|假如|要是|一旦|倘|万一|除非|只要|只有")  # anywhere in a run
# Another road user is the subject. Without a place, "车辆" is our car.
_OTHERS = re.compile(
    r"(?:(?:前方|前面|对面|对向|左侧|右侧|左边|右边|旁边|后方|后面)的?[^停减加左右刹]{0,4}?(?:车辆"
    r"|[公卡货轿客]?交?车(?!道))|前车|后车|行人|骑车人|骑行者|孩子|儿童)"
    r"(?!.*(?:自车|本车|我|请|应|需))"
)
_DRIVING = re.compile(
    r"停|刹|制动|减速|加速|提速|降速|慢行|匀速|车速|速度|左|右|直行|变道|并线|转弯|掉头|倒车|后退|油门|转向"
    r"|方向盘|前进|起步|行驶|等待|让行|不|勿|别|禁止"
)
# What a road user does for others: "wait for the pedestrian", "let the car go first". The others are left out.
_FOR_OTHERS = re.compile(
    r"(?P<act>停车等待|停车等候|等(?=红灯|绿灯)|停车让行|停车礼让|减速让行|等待|等候|礼让|避让|让行"
    r"|让(?=[^,]{0,4}[人者车辆童子](?:先|优先|通过|过)))"
    r"(?:前方|过街|横穿|对向|左侧|右侧|后方|正在过街)?的?(?:行人|骑车人|骑行者|非机动车|前车|来车|其他车辆"
    r"|对向车辆|车辆|公交车|电动车|儿童|孩子|绿灯|红灯|信号灯|红绿灯)(?:们)?"
    r"(?:先行|先走|先过|先通过|优先通行|通过|过去|过街|过马路|亮起|变绿|变为绿灯|结束)?"
)
_ACTS = {"让": "让行", "避让": "让行", "等": "等待"}
# A place or a thing of the scene, and its state. What a lane is for is no action; any other action makes a run unread.
_SCENE = re.compile(
    r"(?:由|从)?(?:当前|目前|现在|此时)?(?:的)?(?:前方|正前方|前面|左侧|右侧|左边|右边|两侧|旁边|后方|后面"
    r"|对向|周围|附近|四周|远处|道路|路面|路段|路况|车道|路口|交通|视野|视线"
    r"|天气|信号灯|红绿灯|交通灯|绿灯|红灯|黄灯|左转|右转|直行|直行车道|距离|间距|车距|限速|障碍物|斑马线"
    r"|人行横道|车速|速度|环境|场景|画面|图中|图片|有|没有|无|未见|看到|存在)"
)
_STATE = re.compile(
    r"停着|停放|停靠|封闭|占用|施工|畅通|通畅|空闲|空旷|清晰|良好|正常|安全|干燥|湿滑|平坦|拥堵|堵塞|繁忙"
    r"|较远|较近|很远|很近|足够|充足|有|无|没有|未|为|是|绿灯|红灯|黄灯|亮|熄灭|绿色|红色|黄色|较[慢快低高]"
    r"|很[慢快低高]"
)
_LANE_FOR = re.compile(
    r"(?:左转|右转|直行|掉头|公交|非机动|停车|应急|加速|减速)(?:专用)?(?:车?道|区|线|位|带|箭头|信号灯?"
    r"|指示灯?|绿灯|红灯|标志)|停止线|停(?:着|放|靠)的?|静止的?|停车(?:标志|让行标志)"
    r"|[左右](?:(?:侧|边|方)(?:车道|道路|路)?|车道)|(?:制动|刹车|转向)灯|(?:障碍|停止)物|(?:当前|现在)?车速|速度"
)
_ORDER = re.compile(r"请|应|需|必须|建议|要(?!素)|将|可以?|自车|本车|我")
# "The light ahead is green: go straight" without a sign between.
_SCENE_FIRST = re.compile(
    r"(?P<scene>[^不没未否若如]{1,10}?(?:红灯|绿灯|黄灯|畅通|通畅|空闲|空旷|拥堵))(?P<rest>.{2,})"
)
_WHEN = re.compile(r"(?:(?<![此同暂当及临按实准小])时(?:候|再)?|的话|(?<![随然前左右身车最落])(?:以|之)?后)\Z")


_AT_SPEED = re.compile(
    r"(?:以|按照?)\s?(?P<number>\d{1,3}(?:\.\d{1,3})?)\s?(?P<unit>[a-z/]{3,4}|(?:公里|千米)(?:每小时|/小时|/时)|米(?:每秒|/秒))"
    r"(?:的?(?:车速|速度))?",
    re.IGNORECASE,
)
_UNIT = re.compile(r"(?<=\d)\s?(?:(?P<kmh>(?:公里|千米)(?:每小时|/小时|/时))|米(?:每秒|/秒))")


class UnknownWords(Exception):
    """A part of the reply has driving words whose meaning is unknown."""


def in_english(text: str) -> str:
    """The text with its Chinese words in English. Raises UnknownWords."""
    if not _RUN.search(text):
        return text
    text = _AT_SPEED.sub(r" drive at \g<number> \g<unit> ", text)
    text = _UNIT.sub(lambda match: " km/h" if match["kmh"] else " m/s", text)
    return _RUN.sub(lambda match: f" {_translated(match.group().translate(_TRADITIONAL))} ", text)


def _translated(run: str) -> str:
    run = _FOR_OTHERS.sub(lambda found: _ACTS.get(found["act"], found["act"]), run)
    if _IF.search(run):
        return "if something"
    if _REASON.match(run):
        return "because something"
    words, position = _known_words(run)
    if position == len(run):
        return " ".join(words)
    first = _SCENE_FIRST.fullmatch(run)
    if first and _describes(first["scene"]) and (rest := _known_words(first["rest"]))[1] == len(first["rest"]):
        return f"something , {' '.join(rest[0])}"
    tail = run[position:]
    if _WHEN.search(run):
        return "if something"
    if _OTHERS.match(run):
        return "something"
    if _REASON.match(tail):
        return " ".join([*words, "because something"])
    if _CONDITION.match(tail):
        return " ".join([*words, "if something"])
    if _DRIVING.search(run) and not _describes(run):
        raise UnknownWords
    return "something"


def _known_words(run: str) -> tuple[list[str], int]:
    """The English words of the known phrases at the head of a run, and where they end."""
    words: list[str] = []
    position = 0
    while position < len(run) and (match := _KNOWN.match(run, position)):
        if match.group() in ("车辆", "汽车") and words and words[-1] in ACTIONS:
            break
        words.append(PHRASES[match.group()])
        position = match.end()
    return [word for word in words if word], position


def _describes(run: str) -> bool:
    """Whether a run says how the scene is, without an action: 前方道路畅通, 右侧车道无车, 左转信号灯为红色."""
    rest = _LANE_FOR.sub("", run)
    return bool(_SCENE.match(run) and _STATE.search(run) and not _DRIVING.search(rest) and not _ORDER.search(rest))
