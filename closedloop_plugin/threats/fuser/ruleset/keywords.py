"""Keyword extraction from interview answers: topics mentioned, topics denied, and intended actions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from closedloop_plugin.agents.model_backend import harmless
from closedloop_plugin.threats.spec_parsing import short

QUOTE = 140  # maximum length of a quotation


class AnswerTopic(StrEnum):
    """Topics. A value completes the sentence "the answer says nothing of ..."."""

    VEHICLES = "vehicles"
    TWO_WHEELERS = "cyclists or motorcyclists"
    WALKERS = "pedestrians"
    ANIMALS = "animals"
    THINGS = "things on the road"
    SERVICES = "emergency vehicles"
    LIGHTS = "traffic lights"
    SKY = "weather or darkness"
    HIDDEN = "places that it cannot see into"
    PARKED = "parked vehicles"
    ONCOMING = "oncoming traffic"
    BEHIND = "traffic from behind"
    JUNCTION = "crossing traffic"
    CUT_IN = "somebody moving into its lane"
    BRAKE = "somebody braking"
    SLOW = "somebody going slowly"
    CROSS = "somebody crossing"
    DOOR = "doors that open"
    TURN = "somebody turning across its way"
    STANDING = "somebody standing in its lane"


class DrivingIntent(StrEnum):
    """Intentions. A value completes the sentence "it means to ..."."""

    KEEP = "keep its speed"
    ACCELERATE = "accelerate"
    SLOW = "slow down"
    STOP = "stop"
    OVERTAKE = "overtake"
    CHANGE = "change lanes"
    LEFT = "turn left"
    RIGHT = "turn right"


_TOPICS: Mapping[AnswerTopic, str] = {
    AnswerTopic.VEHICLES: r"cars?|vehicles?|trucks?|lorr(?:y|ies)|vans?|bus(?:es)?|suvs?|sedans?|tax(?:i|is)"
    r"|traffic(?! (?:light|sign))",
    AnswerTopic.TWO_WHEELERS: r"cycl\w+|bicycl\w*|bikes?|bikers?|motorcycl\w*|motorbikes?|scooters?|mopeds?|"
    r"two-wheelers?",
    AnswerTopic.WALKERS: r"pedestrians?|walkers?|people|persons?|child(?:ren)?|kids?|jaywalk\w*|(?:wo)?m[ae]n",
    AnswerTopic.ANIMALS: r"animals?|dogs?|deer|cats?",
    AnswerTopic.THINGS: r"debris|obstacles?|objects?|cones?|barriers?|construction|roadworks?|boxes|tyres?|"
    r"tires?|things?",
    AnswerTopic.SERVICES: r"emergency|ambulances?|police|fire ?(?:trucks?|engines?)|sirens?",
    AnswerTopic.LIGHTS: r"(?:traffic|red|green|yellow|amber)[- ](?:lights?|signals?)|signals?|lights? (?:is|are|"
    r"turns?)",
    AnswerTopic.SKY: r"weather|rain\w*|fog\w*|mist\w*|wet|snow\w*|sun\w*|cloud\w*|night|dark\w*|dusk|glare|visibility"
    r"|overcast",
    AnswerTopic.HIDDEN: r"occlu\w+|hidden|hid(?:es?|ing)|blind spots?|out of sight|obscur\w+|behind (?:the |a |an )?"
    r"(?:parked|van|truck|bus|car|corner)|cannot see|can't see|blocked view",
    AnswerTopic.PARKED: r"parked|parking|kerb|curb|roadside",
    AnswerTopic.ONCOMING: r"oncoming|opposite (?:lane|direction|side)|head-on|towards (?:us|me|the car)|opposing",
    AnswerTopic.BEHIND: r"behind (?:us|me|my|the (?:ego|car))|rear\b|mirrors?|tailgat\w+|follow(?:s|ing) (?:us|"
    r"me|closely)"
    r"|(?:from|close) behind",
    AnswerTopic.JUNCTION: r"junctions?|intersections?|crossroads?|cross(?:ing)? traffic|side roads?|right of way",
    AnswerTopic.CUT_IN: r"cut(?:s|ting)?[- ]in|merg\w+|lane changes?|chang(?:e|es|ing) lanes?|pull(?:s|"
    r"ing)? out|swerv\w+"
    r"|mov(?:es?|ing) (?:over|into)|into (?:our|my|its|the ego's|the car's) lane",
    AnswerTopic.BRAKE: r"brak\w+|decelerat\w+|(?:sudden|hard|emergency) stops?|stops? suddenly",
    AnswerTopic.SLOW: r"slow(?:er|ly|s)?\b|crawl\w*|slow-moving",
    AnswerTopic.CROSS: r"cross(?:es|ing)?\b(?! traffic)|step(?:s|ping)? (?:out|into|onto|off)|runs? (?:out|into|onto)"
    r"|enter(?:s|ing)? the road|walks? into",
    AnswerTopic.DOOR: r"doors?",
    AnswerTopic.TURN: r"turn(?:s|ing)? (?:across|left in front|in front)|left[- ]turning|turning (?:cars?|"
    r"vehicles?|traffic)",
    AnswerTopic.STANDING: r"stationary|standing|stopped|stalled|broken[- ]down|stands|block(?:s|ed|ing)?",
}
_INTENTS: Mapping[DrivingIntent, str] = {
    DrivingIntent.KEEP: r"(?:keep|maintain|hold)\w*\b[^.;]{0,30}\b(?:speed|pace|going|straight)|continu\w+|"
    r"carr(?:y|ies) on"
    r"|proceed\w*|(?:drive|go|goes|move)s? (?:on|straight|forward)|same speed|steady speed|constant speed",
    DrivingIntent.ACCELERATE: r"accelerat\w+|speed(?:s|ing)? up|faster|increase\w* (?:the |my |its )?speed",
    DrivingIntent.SLOW: r"slow(?:s|ing)?(?: down)?|decelerat\w+|reduce\w* (?:the |my |its )?speed|brak\w+",
    DrivingIntent.STOP: r"stop(?:s|ping)?\b|halt\w*|wait\w*|yield\w*|stand still|stays? where",
    DrivingIntent.OVERTAKE: r"overtak\w+|pass(?:es|ing)? (?:it|him|them|the|a)|go(?:es)? (?:a)?round",
    DrivingIntent.CHANGE: r"(?:chang\w+|switch\w*) (?:the )?lanes?|lane change|move (?:in)?to the (?:left|right) lane",
    DrivingIntent.LEFT: r"turn(?:s|ing)? left|left turn",
    DrivingIntent.RIGHT: r"turn(?:s|ing)? right|right turn",
}
_FOUND = {topic: re.compile(rf"(?i)\b(?:{words})\b") for topic, words in _TOPICS.items()}
_MEANT = {intent: re.compile(rf"(?i)\b(?:{words})\b") for intent, words in _INTENTS.items()}
_CLAUSES = re.compile(r"(?<=[.;!?])\s+|\n+|,?\s+\b(?:but|however|although|whereas|while)\b")
_DENIES = re.compile(
    r"(?i)\b(?:no|not|nor|none|nobody|nothing|no one|without|never|neither|ignor\w+|blind|cannot|unaware|clear of"
    r"|free of|(?:do|does|did|is|are|was|were|can|will|would|could)n['’]t)\b(?! only)"
)
_DENIES_AFTER = re.compile(
    r"(?i)^\W*(?:\w+\W+){0,3}?(?:(?:is|are) not|isn['’]t|aren['’]t|absent|nowhere|not (?:visible|present))"
)


@dataclass(frozen=True)
class AnswerKeywords:
    """Keywords of an answer. `mentioned`, `denied`, `intended`: topic or intention -> the clause with it."""

    text: str
    mentioned: Mapping[AnswerTopic, str]
    denied: Mapping[AnswerTopic, str]
    intended: Mapping[DrivingIntent, str]

    def quote(self, topic: AnswerTopic | DrivingIntent | None = None) -> str:
        """The clause with the topic, else the beginning of the answer; on one line."""
        for found in (self.denied, self.mentioned, self.intended):
            if topic in found:
                return short(found[topic], QUOTE)  # type: ignore[index]
        return short(self.text, QUOTE)


def read_keywords(text: str) -> AnswerKeywords:
    """Extract keywords clause by clause. A topic that is both mentioned and denied counts as mentioned."""
    text = harmless(text)
    mentioned: dict[AnswerTopic, str] = {}
    denied: dict[AnswerTopic, str] = {}
    intended: dict[DrivingIntent, str] = {}
    for clause in filter(None, (part.strip() for part in _CLAUSES.split(text))):
        for topic, pattern in _FOUND.items():
            match = pattern.search(clause)
            if match:
                (denied if _is_denied(clause, match) else mentioned).setdefault(topic, clause)
        for intent, pattern in _MEANT.items():
            match = pattern.search(clause)
            if match and not _is_denied(clause, match):
                intended.setdefault(intent, clause)
    return AnswerKeywords(text, mentioned, {t: c for t, c in denied.items() if t not in mentioned}, intended)


def joined(parts: Sequence[AnswerKeywords]) -> AnswerKeywords:
    """Keywords of several answers of one stage. What is mentioned in one and denied in another counts as mentioned."""
    mentioned: dict[AnswerTopic, str] = {}
    denied: dict[AnswerTopic, str] = {}
    intended: dict[DrivingIntent, str] = {}
    for part in reversed(parts):  # the clause of the first answer is quoted
        mentioned |= part.mentioned
        denied |= part.denied
        intended |= part.intended
    text = " ".join(part.text for part in parts)
    return AnswerKeywords(text, mentioned, {t: c for t, c in denied.items() if t not in mentioned}, intended)


def _is_denied(clause: str, match: re.Match[str]) -> bool:
    """Whether a negation is within the 12 words before the match, or follows it."""
    before = " ".join(clause[: match.start()].split()[-12:])
    return bool(_DENIES.search(before) or _DENIES_AFTER.search(clause[match.end() :]))
