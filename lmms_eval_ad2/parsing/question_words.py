"""What a question asks for: its superlatives ("the closest", 最近), what it counts, whether it asks for the worst."""

from __future__ import annotations

import re

_SUPERLATIVE = re.compile(
    r"\b(?:most|least) [a-z]{3,}|\b(?!interest|rest\b|test|west|forest|request|suggest|latest\b|arrest"
    r"|contest|best\b)[a-z]{2,}est\b|\bbest\b|\bfirst\b|\blast\b"
    r"|最(?!终|后|新)不?[\u4e00-\u9fff]"
)
WORST = re.compile(
    r"\b(?:least|worst|most (?:un|in|im)(?!port|min|term|tens|dic)\w+|wrong|incorrect|false|not|except"
    r"|isn't|aren't|doesn't)\b"
    r"|最不|最差|最坏|错误|不(?:正确|合适|恰当|应该?|属于|符合|是|在|存在|需要|可能|会|能)|(?<!有)没有|未(?!来)|有误"
)


_COUNTED = re.compile(
    r"\bhow many (?:different |visible |other )?(?P<en>[a-z][a-z -]{1,40}?)(?= (?:are|is|can|do|does"
    r"|in|on|have|were|ahead|visible|there|you|appear|does|at|of)\b|\?|\Z)|多少(?:个|名|辆|条|位|盏|人"
    r"|只)?(?P<zh>[\u4e00-\u9fff]{1,8}?)(?:\?|？|\Z)|几(?:个|名|辆|条|位|盏"
    r"|只)(?P<zh2>[\u4e00-\u9fff]{1,8}?)(?:\?|？|\Z)"
)


_ZH_DOING = re.compile(r"正在|正|在|可以|能|可|已|被|过")  # what follows restricts what is counted


def counted_noun(question: str) -> str:
    """A pattern of what "How many …?" counts; "" for another question."""
    found = _COUNTED.search(question.lower().strip())
    if not found:
        return ""
    if found["en"] is None:
        return re.escape(_ZH_DOING.split(found["zh"] or found["zh2"])[0] or found["zh"] or found["zh2"])
    words = found["en"].split()
    last = words[-1]
    for ending, singular in (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("xes", "x"), ("buses", "bus"), ("s", "")):
        if last.endswith(ending) and len(last) > 3:
            last = last[: -len(ending)] + singular
            break
    stem = re.escape(" ".join([*words[:-1], last]).rstrip("y"))
    return stem + r"(?:y|ies|es|s)?(?![a-z])"


_COMMON = frozenset(
    ("many", "much", "there", "image", "picture", "scene", "photo", "visible", "does", "what", "which", "this",
     "that", "number", "seen", "with", "have", "from", "total", "count", "front", "side", "your", "vehicle")
)  # fmt: skip
_ZH_COMMON = re.compile(r"图中|图像|图片|画面|几[个名辆条位盏只]|多少|有|的|是|在|吗|一共|总共|请问|哪")


def telling_words(question: str) -> set[str]:
    """Words of a question that tell what it asks about: English words, pairs of Chinese characters."""
    low = question.lower()
    english = {word for word in re.findall(r"[a-z]{4,}", low) if word not in _COMMON}
    runs = re.findall(r"[\u4e00-\u9fff]{2,}", _ZH_COMMON.sub(" ", low))
    return english | {run[i : i + 2] for run in runs for i in range(len(run) - 1)}


# "Detect the bus", "the box of the bus", 请给出公交车的边界框: what is to be located.
_LOCATED = re.compile(
    r"\b(?:detect|locate|find|localize|localise|mark|point (?:to|at|out)|where is|where are|ground|outline"
    r"|(?:bounding )?"
    r"(?:box|bbox|rectangle|point|position|coordinates?|location|centre|center)(?: (?:coordinates?|pixel|point))?"
    r" (?:of|for"
    r"|around|on|enclosing))"
    r" (?:the |an? |this |all )?(?P<en>[a-z][a-z' -]{1,50}?)(?=[?.,:(\n]| (?:in|on|at|with|as|using|by|and"
    r"|that|which|near|next"
    r"|behind|ahead|to|from|within|inside|normali[sz]ed)\b|\Z)"
    r"|(?:给出|框出|标出|定位|找出|检测|指出|输出|标注)(?:图中"
    r"|画面中)?(?:的)?(?P<zh>[\u4e00-\u9fff]{2,10}?)(?:的?(?:边界框|位置|坐标|包围框|检测框|中心|框)|[。.?？,，(]|\Z)",
)


def located_noun(question: str) -> str:
    """The words of what a question for a box or a point locates; "" if it is not found."""
    found = _LOCATED.search(question.lower())
    return (found["en"] or found["zh"] or "").strip(" '-") if found else ""


# Words for one kind of thing each, and words that cover several kinds.
_KINDS = (
    "truck|lorr", "bus|coach", "bicycle|bike|cyclist", "motorcycl|motorbike", "van", "taxi"
    "|cab", "tram", "train", "cone",
    "sign", "light|signal", "lane", "wheelchair", "stroller", "dog", "tree", "pedestrian|people|person"
    "|child", "scooter",
    "ambulance", "barrier",
)  # fmt: skip
_ZH_KINDS = ("公交车|公共汽车|巴士|大巴|客车", "卡车|货车", "轿车|小汽车|小车", "行人|路人|[男女]人|[男女]子",
             "自行车|单车|骑车人|骑行者",
             "摩托车|电动车", "树", "出租车", "三轮车", "建筑")  # fmt: skip
_CALLED_CARS = {"truck|lorr", "van", "taxi|cab", "ambulance"}  # "the car" may be one of these
_KIND = {kind: re.compile(kind) for kind in (*_KINDS, "car", *_ZH_KINDS, "车")}
_ASKED_KIND = {kind: re.compile(rf"\b(?:{kind})") for kind in _KINDS}
_SAID_KIND = {
    **{
        kind: re.compile(
            rf"\b(?:{kind})[a-z]* (?:is|are|was|were|stands?|sits?|lies?)\b"
            rf"|\bthere(?:'s| is| are| was| were) (?:an?|the|two|some|several) (?:[a-z-]+ ){{0,2}}?(?:{kind})"
        )
        for kind in (*_KINDS, "car")
    },
    **{kind: re.compile(rf"(?:{kind})(?:在|位于|停在|站在)|有[^,.;]{{0,4}}(?:{kind})") for kind in _ZH_KINDS},
}
_PRONOUN = re.compile(r"\b(?:it|it's|he|she|they|that|this)\b")
_COUNTED_THING = re.compile(r" (?:[a-z]+ ){0,2}?(?P<word>[a-z]{3,})(?=[\s.,;!]|\Z)")


def counts_another(right: str, noun: str) -> bool:
    """Whether the words after a number name another kind of thing than the pattern `noun`: "3 trucks" for bicycles."""
    found = _COUNTED_THING.match(right)
    asked = [kind for kind in (*_KINDS, "car") if _KIND[kind].search(noun)]
    kinds = _KINDS if set(asked) & _CALLED_CARS else (*_KINDS, "car")
    said = [kind for kind in kinds if found and _KIND[kind].match(found["word"])]
    chinese = re.match(r" ?[\u4e00-\u9fff](?:正在)?(?P<word>[\u4e00-\u9fff]{1,6})", right)
    said += [kind for kind in _ZH_KINDS if chinese and _KIND[kind].search(chinese["word"])]
    asked += [kind for kind in (*_ZH_KINDS, "车") if _KIND[kind].search(noun)]
    if asked == ["车"] and said:  # 两个行人 are no cars, and three lorries may be
        return said[0] == _ZH_KINDS[3]
    return bool(said and asked and said[0] not in asked)


def of_asked_kind(thing: str, question: str) -> bool:
    """Whether an English noun is another word for a kind of thing that the question names: "signal" for a light."""
    return any(_KIND[kind].match(thing) and _ASKED_KIND[kind].search(question.lower()) for kind in _KINDS)


def names_another(low: str, question: str) -> bool:
    """Whether lower-case text names things of other kinds only than the one kind that a question asks for."""
    kinds: tuple[str, ...]
    if question.isascii():
        asked = [kind for kind in _KINDS if _ASKED_KIND[kind].search(question.lower())]
        kinds = _KINDS if set(asked) & _CALLED_CARS else (*_KINDS, "car")
    else:
        asked, kinds = [kind for kind in _ZH_KINDS if _KIND[kind].search(question)], _ZH_KINDS
    if len(asked) != 1 or not any(_SAID_KIND[kind].search(low) for kind in kinds):
        return False
    named = _ASKED_KIND.get(asked[0], _KIND[asked[0]]).search(low)
    return not named and not (question.isascii() and _PRONOUN.search(low))


_SAME = {"nearest": "closest", "furthest": "farthest"}
_SYNONYMS = _SAME | {other: word for word, other in _SAME.items()}


def other_superlatives(low: str, question: str) -> bool:
    """Whether lower-case text has superlatives, and all are others than those of a question that has some."""
    said, asked = ({_SAME.get(word, word) for word in superlatives(text)} for text in (low, question))
    return bool(said and asked and not said & asked)


def superlatives(question: str) -> list[str]:
    """The superlatives of a question, in lower case, each with its synonym."""
    found = [match.group() for match in _SUPERLATIVE.finditer(question.lower())]
    return found + [_SYNONYMS[word] for word in found if word in _SYNONYMS]


_EGO = re.compile(r"\b(?:ego|host|own|our|we|us|you|your|autonomous|current|self|driver)\b|自车|本车|主车|我")
# The subject of a clause: another road user than the ego vehicle, which a reply may call "the car".
_ROAD_USER = re.compile(
    r"\W*(?:and |while |whereas )?(?:the|an?|another|one|this|that|two|three|several) (?:(?:[a-z-]+ ){0,3}?(?:vans?"
    r"|trucks?|lorry|bus|suv|sedan|pickup|taxi|cyclists?|pedestrians?|motorcyclist|motorcycle|motorbike|scooter|tram"
    r"|man|woman|child)|(?:[a-z-]+ ){1,3}?(?:cars?|vehicles?)"
    r"|(?:car|vehicle) (?:ahead|in front|behind|next to|to the))\b"
    r"(?! (?:stop|lane|crossing))"
    r"|[^,.;道]{0,8}(?:前车|对向车辆?|轿车|货车|卡车|公交车|出租车|面包车|皮卡|行人|骑手|摩托车|电动车)(?![道位站的])"
)


_ROAD_USERS = re.compile(
    r"\b(?:van|truck|lorry|bus|suv|sedan|pickup|taxi|cyclist|pedestrian|motorcycl\w+|object|hazard"
    r"|road user|scooter|other"
    r"|(?:car|vehicle)s? (?:ahead|in front))\b|前车|[货卡轿客]车|行人|哪[个辆]|骑"
)


def of_another_road_user(low: str, question: str) -> bool:
    """Whether a lower-case clause is about another road user, where a question asks about the ego vehicle."""
    asked = question.lower()
    of_ego = _EGO.search(asked) and not (_SUPERLATIVE.search(asked) or _ROAD_USERS.search(asked))
    return bool(of_ego and _ROAD_USER.match(low) and not _EGO.search(low))


_OF_EGO = re.compile(
    r"\W*(?:the )?(?:ego(?:[- ](?:vehicle|car))?|our (?:car|vehicle)|you|your (?:car|vehicle))"
    r" (?:is|are|should|must|has|needs?|can|will)\b"
)


def of_the_ego(low: str, question: str) -> bool:
    """Whether a lower-case clause is about the ego vehicle, where a question asks about another road user."""
    return bool(_OF_EGO.match(low) and _ROAD_USERS.search(question.lower()) and not _EGO.search(question.lower()))


def asks_for_the_worst(question: str) -> bool:
    """Whether a question asks for what is wrong or least suitable, so that "B is wrong" is an answer."""
    return bool(WORST.search(question.lower()))
