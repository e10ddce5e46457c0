"""The operations that make a wrong option from annotations, and the error category that follows from each, if any."""

from __future__ import annotations

from lmms_eval_ad2.data.releases.autodrive_qa import ERRORS, UNCATEGORISED

_DOMAIN, _LOGIC, _SENSOR, _OVERSIGHT, _READING = ERRORS
# operation -> (error category or UNCATEGORISED, what it does). A category stands only where the wrong option is what
# this error leads to: a miscount is a computational oversight, a misread colour a misread sensor input, and the answer
# for another object of the scene a misread question. An inverted verdict or another action can come from any error.
OPERATIONS: dict[str, tuple[str, str]] = {
    "changed_count": (_OVERSIGHT, "another count"),
    "changed_box": (_OVERSIGHT, "a shifted or mirrored box"),
    "changed_colour": (_SENSOR, "another colour"),
    "changed_light": (_SENSOR, "another colour or state of a signal"),
    "changed_vehicle": (_SENSOR, "another kind of vehicle"),
    "changed_class": (_SENSOR, "another class"),
    "changed_looks": (_SENSOR, "the looks of no object here"),
    "changed_direction": (_SENSOR, "left and right, or front and back, exchanged"),
    "changed_lane": (_SENSOR, "another lane"),
    "other_object": (_READING, "the looks of another object of the scene"),
    "removed_object": (UNCATEGORISED, "what is annotated, without the objects in question"),
    "changed_list": (UNCATEGORISED, "what is annotated, with one count or class changed"),
    "changed_state": (UNCATEGORISED, "another state of motion"),
    "changed_motion": (UNCATEGORISED, "another motion"),
    "changed_speed": (UNCATEGORISED, "another speed"),
    "changed_action": (UNCATEGORISED, "another action"),
    "swapped_order": (UNCATEGORISED, "the same objects in another order"),
    "changed_value": (UNCATEGORISED, "another answer"),
}


def category_of(operation: str) -> str:
    """The category that all operations in "first+second" lead to; UNCATEGORISED if they differ or have none."""
    found = {OPERATIONS[name][0] for name in operation.split("+") if name}
    return found.pop() if len(found) == 1 else UNCATEGORISED


def reason_of(operation: str, annotated: str) -> str:
    return f"{' and '.join(OPERATIONS[name][1] for name in operation.split('+'))}; annotated is: {annotated}"
