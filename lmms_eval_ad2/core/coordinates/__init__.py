"""Coordinate frames of points and boxes: units of the numbers, and the size of the image that a model sees."""

from lmms_eval_ad2.core.coordinates.frames import FRAMES, Frame, from_pixels, to_pixels
from lmms_eval_ad2.core.coordinates.model_input import InputResizing, Size
from lmms_eval_ad2.core.coordinates.setting import ENV, FrameSetting

__all__ = ["ENV", "FRAMES", "Frame", "FrameSetting", "InputResizing", "Size", "from_pixels", "to_pixels"]
