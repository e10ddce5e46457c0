"""What a reply reports of other persons, or only supposes: no statement of its writer, so that it is left out.

"My colleague thinks it is B", "suppose there is a bus", 有人认为没有. What follows a contrast or a conclusion, and what
the writer says ("but I choose A"), stands.
"""

from __future__ import annotations

import re

_PERSON = (
    r"(?:(?:friend|colleague|co-?worker|teacher|professor|instructor|expert|specialist|student|pupil"
    r"|classmate|user|assistant"
    r"|annotator|labell?er|reviewer|critic|driver|passenger|viewer|observer|reader|witness|bystander|pedestrian|cyclist"
    r"|neighbou?r|wife|husband|mother|father|brother|sister|parent|child|kid|boy|girl|boss|officer|person"
    r"|beginner|novice"
    r"|layman|model|ai|chatbot|gpt|system|author)s?|people|persons|men|women|children|man|woman|majority"
    r"|minority|police)"
)
_SOMEONE = (
    r"(?:he|she|they|you|someone|somebody|anyone|anybody|everyone|everybody|others|some|many|most|few|several|another"
    r"|nobody else|one(?= (?:would|might|could|may)\b))"
)
_ANY = rf"(?:(?:[a-z']+ ){{0,3}}?{_PERSON}(?: (?:of|on|in|from|at|next to|behind) [a-z' ]{{1,30}}?)?|{_SOMEONE})"
_OPINION = (
    r"(?:say|think|believe|claim|argue|insist|answer|reply|tell|reckon|assume|guess|suggest|report|state"
    r"|feel|choose|pick"
    r"|select|vote|object|count|conclude|call|maintain|prefer|expect|mention)"
)
_OPINES = (
    rf"(?:\w+ly |also |even |still |once |first |has |have |had )?(?:(?:would|might|may|could|will|can"
    rf"|should|did|does|do)"
    rf"(?: \w+ly| also| even| well| rather| disagree and)? {_OPINION}"
    r"|says?|said|saying|puts? it|wrote|writes|marked|labell?ed|annotated|noted|remarked|commented|thinks?"
    r"|thought|believes?|believed|claims?|claimed|argues?|argued|insists?|insisted|answers"
    r"|answered|repl(?:ies|ied)|tells|told|reckons?|assumes?|assumed|guess(?:es|ed)|suggests?|suggested"
    r"|reports|reported"
    r"|stated|feels?|felt|chose|chooses?|picks|picked|selects|selected|voted|counts|counted|prefers?"
    r"|is (?:sure|certain|convinced|of the opinion)|are (?:sure|certain|convinced))"
)
_OWN = (
    r"(?:,? ?\b(?:but|however|yet|although|though|nevertheless|whereas|so|therefore|thus|hence|in fact|actually)\b"
    r"|\b(?:i|i'd|i'm|i'll|my answer)\b)"
)
_ZH_PERSON = (
    r"(?:有(?:些|的|一些)?人|别人|他人|旁人|其他人|另一个?人|他们?|她们?|朋友|同事|老师|教师|教练|专家|司机"
    r"|驾驶员|驾驶人|乘客|用户|同学|学生|大家"
    r"|网友|某人|某些人|一些人|许多人|很多人|多数人|大多数人|路人|行人|家人|爸爸|妈妈|父亲|母亲|哥哥|弟弟"
    r"|姐姐|妹妹|妻子|丈夫|老婆|老公|儿子|女儿|邻居|室友|老板|领导|上司|经理|记者|孩子|网上|网络上|媒体|新闻"
    r"|题目|标注员|标注者|标签|助手"
    r"|警察|(?:另一个?|其他|别的)模型|您|你)"
)
_ZH_OPINES = (
    r"[^,.;!?\n所]{0,6}?(?:说(?![的法过])|认为|觉得|表示|声称|以为|相信|主张|坚持|回答|猜|告诉|指出|判断"
    r"|断言|数[了过出到]|选(?:了|的是|择了?)?(?=[A-Ha-h])"
    r")"
)
_ATTRIBUTED = re.compile(
    rf"\b{_ANY} {_OPINES}\b|\b(?:my|his|her|our|your|the other|another) (?:\w+ )?{_PERSON} ?: ?(?=[\"'(]?(?:yes|no|true"
    r"|false|\d|[a-h]\b|the answer|there))"
    rf"|(?P<after>\baccording to {_ANY}\b|\b(?:said|says|claims|claimed|wrote) {_ANY}(?=\s?(?:[.,;!]|\Z)))"
    rf"|\bin (?:the (?:opinion|view|eyes|words) of|(?:his|her|their|your"
    rf"|{_ANY}'s?) (?:opinion|view))\b"
    rf"|\b(?:(?:my |the |a |an |another |some )?{_PERSON}'s?|his|her|their|your) (?:\w+ )?(?:answer|opinion"
    rf"|guess|verdict|reply|vote)\b"
    rf"|\b(?:answer|opinion|guess|reply) of (?:my|the|a|an|another|your|his|her) (?:\w+ )?{_PERSON}\b"
    r"|\b(?:to|for) (?:him|her|them|most people|others)(?=,)|\b(?:in theory|theoretically|in principle)\b"
    r"|(?:\A|(?<=[.;!?\n] ))say (?:there|it|the)\b|\bshould (?:there|it) be\b"
    rf"|\b(?:my|your|our) (?:\w+ )?{_PERSON} (?:sees|saw|spotted|noticed|found|finds|gets|got|counts)\b"
    r"|\bi (?:was|am|have been|'ve been) (?:told|informed)\b|\bi(?:'ve| have)? (?:heard|read) (?:that|from)\b"
    r"|\b(?:it )?(?:is|was) (?:said|rumou?red|claimed|believed|reported)\b|\b(?:reportedly|allegedly"
    r"|supposedly|rumou?r)\b"
    r"|(?P<brief>\b(?:previous|former|prior|other|another|different) (?:\w+ )?(?:answer|reply|question"
    r"|response|guess|case|image|picture|photo|frame"
    r"|model)(?:'s)?\b|\b(?:question|prompt|caption|answer key|title|headline|label) (?:suggests?|implies"
    r"|assumes|says|presupposes)\b"
    r"|\baccording to the (?:caption|title|headline|question|prompt|description|file ?name|metadata|map|news)\b"
    r"|\b(?:you|user|question|prompt)(?:'re| are)? ask(?:s|ed|ing)? (?:me )?(?:about|if|whether|for)\b)"
    r"|\b(?:suppose|supposing|assume|assuming|imagine|imagining|pretend|hypothetically|let us (?:say|assume"
    r"|imagine|suppose)"
    r"|let's (?:say|assume|imagine|suppose))\b|\b(?:had|were) (?:there|it|the \w+|this)(?: \w+)? (?:been|an?"
    r"|to|\w+ing|red|green|night|day)\b"
    rf"|{_ZH_PERSON}{_ZH_OPINES}|{_ZH_PERSON}的?(?:答案|回答|意见|看法|观点|选择|判断|结论"
    rf"|回复)(?:应该)?(?:是|为|:)|(?:据说|据报道|据悉|(?:按照?|根据|照|依){_ZH_PERSON}|听说|传闻|据传"
    rf"|据{_ZH_PERSON})|(?:假设|假定|设想|假如|倘若|假若|试想)",
    re.IGNORECASE,
)
_END = re.compile(
    rf"[.!?;\n](?=\s|\Z)|\n|{_OWN}|但是?|不过|然而|可是|所以|因此|其实|实际上|故|正确|我(?!国|的?(?:朋友"
    rf"|同事|老师|家人))",
    re.IGNORECASE,
)
_BRIEF_END = re.compile(rf",|{_END.pattern}", re.IGNORECASE)  # of what the question or an earlier answer says
_QUOTATION = re.compile(r"[\s,:]{0,3}(?:that )?(?:\"[^\"\n]{1,300}\"|'[^'\n]{1,300}'(?![a-z]))")


def without_attributed(text: str) -> str:
    """Plain text with blanks for what it reports of others or supposes, to the end of that sentence or a contrast."""
    kept, position = [], 0
    for found in _ATTRIBUTED.finditer(text):
        start = found.start()
        if start < position:
            continue
        if found["after"]:  # "Yes, said the driver."
            start = max(position, *(text.rfind(sign, 0, start) + 1 for sign in ".!?;\n"))
        quoted = _QUOTATION.match(text, found.end())
        end = (_BRIEF_END if found["brief"] else _END).search(text, quoted.end() if quoted else found.end())
        stop = end.start() if end else len(text)
        kept += [text[position:start], " " * (stop - start)]
        position = stop
    return "".join([*kept, text[position:]])
