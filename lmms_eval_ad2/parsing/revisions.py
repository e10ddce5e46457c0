"""Words with which a text takes back what it said before."""

from __future__ import annotations

import re

REVISION = re.compile(
    r"\bwait(?=\s?[,.!;:…-]|\s(?:no|actually|a (?:second|minute|moment|sec)|let|i)\b)"
    r"|\b(?:scratch that|scrap that|correction|oops|on second thoughts?|on reflection|upon reflection"
    r"|reconsider\w*|i mean|i meant|i take that back"
    r"|let me correct|correcting|revis\w+|chang\w+ (?:my|the|it|that)|no,? actually|actually,? no"
    r"|my mistake|i was wrong|i misread|corrected (?:answer|count|box|point|reading|text)"
    r"|(?:let me|let's|i'll|i should|i need to) re-?(?:check|count|examine|read|think|evaluate|assess)"
    r"|looking (?:again|closer|more closely)|(?:up)?on (?:a )?closer (?:look|inspection|examination)"
    r"|(?<=[.!?;\n] )actually,? (?:yes|no)\b|after all|hold on|hang on|never ?mind|strike that"
    r"|instead, i|better:|edit:|no,? sorry|sorry, (?:on|at|the|my)|(?:\.\.\.|…) ?no|i (?:overlooked"
    r"|missed)|sorry,? (?:i|no|it|there|yes|that))\b|\bhm+,? no\b"
    r"|更正|纠正|修正|等等|等一下|不对|重新(?:看|考虑|检查|核对|判断)|仔细(?:看|想|核对|一看)|再(?:看|想"
    r"|核对|仔细|一看)|改(?:为|成|选|口)|哦不|说错|看错|应该说|准确地说"
    r"|抱歉,(?!我)|收回|实际上"
)
