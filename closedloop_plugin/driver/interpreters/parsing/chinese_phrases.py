"""The table of Chinese driving words, with the English ones that the other modules read."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

_SIDES = (("左", "left"), ("右", "right"))


def _all(english: str, *chinese: str | Iterable[str]) -> dict[str, str]:
    """The same words for all phrases, which a text separates by blanks."""
    phrases = [phrase for some in chinese for phrase in (some.split() if isinstance(some, str) else some)]
    return dict.fromkeys(phrases, english)


def _joined(*parts: str) -> Iterable[str]:
    """Each combination of one word from each part; "-" stands for no word."""
    return ("".join(words).replace("-", "") for words in product(*(part.split() for part in parts)))


_CONTROLS = {
    **_all("throttle", "油门踏板 油门 节气门"),
    **_all("brake", "刹车踏板 刹车 制动踏板 制动", _joined("踩 踩下 踩住 点", "刹车 刹车踏板 制动 制动踏板")),
    **_all("steering", "方向盘转角 方向盘 转向角 转向"),
    **_all("speed", "目标车速 目标速度 车速 速度"),
    **_all("direction", "行驶方向 方向"),
    **_all("action", "动作 操作"),
    **_all("decision", "决策"),
    **_all(":", "设为 设置为 设定为 调整为 为 是"),
    **_all("release the throttle", "收油 收油门 松油门 松开油门 抬油门 抬起油门 减小油门 减少油门"),
}
_DEGREES = {
    **_all("none", "无 没有 零 关闭 否 松开 不使用"),
    **_all("no need to", "不需要 无需 不用 无须 不必"),
    **_all("do not", "不要 不能 不应 不应该 不可 不可以 不得 禁止 请勿 切勿 勿 别 不"),
    **_all("gently", "轻轻 轻微 稍微 稍稍 稍 略微 略 轻 缓慢 缓缓 缓 平稳 平缓 逐渐 逐步 慢慢 适度 适当"),
    **_all("carefully", "小心 谨慎"),
    **_all("hard", "紧急 急 立即 立刻 马上 迅速 全力 用力 猛"),
}
_PACES = {
    **_all(
        "stop",
        "停车等待 停车等候 停车让行 停车 停下来 停下 停止行驶 停止前进 停止移动 停止 停住 停稳 刹停 停",
        "保持静止 保持停车",
        "保持不动 静止不动 原地等待 原地停车 停在原地 靠边停车 等待 等候",
        _joined("停在", "停止线 停车线 斑马线 人行横道 路口", "前 后 之前 前面"),
    ),
    **_all(
        "slow down",
        "减速慢行 减速行驶 减速 降低车速 降低速度 降低行驶速度 降速 慢行 慢速行驶 低速行驶 低速前进 放慢速度",
        "放慢车速",
        "放慢 减慢速度 减慢车速 减慢 减小车速",
        "慢速前进 低速缓行 缓行 缓慢行驶 慢一点 慢一些 慢点 开慢点 开慢一点",
    ),
    **_all("slow down to", _joined("减速 降速 车速降 速度降 车速降低 速度降低", "至 到")),
    **_all("accelerate to", _joined("加速 提速", "至 到")),
    **_all("coast", "让车辆滑行 车辆滑行 滑行"),
    **_all("prepare to", "随时准备 做好准备 准备"),
    **_all("for example", "例如 比如 譬如"),
    **_all("give way", "减速让行 让行 礼让 让路"),
    **_all(
        "accelerate",
        "加速行驶 加速 提高车速 提高速度 提升车速 提升速度 加快速度 加快车速 加快 提速 增速 给油 补油",
        "加点油门 给点油门 快一点 快一些 快点 开快点 开快一点",
        _joined("踩 踩下 点 加 加大 增大 增加 补 给", "油门 油门踏板"),
    ),
    **_all(
        "keep the speed",
        "匀速行驶 匀速前进 匀速前行 匀速 保持匀速 保持匀速行驶 保持现速 保持原速 定速行驶 定速巡航 车速不变 速度不变",
        "车速保持不变 速度保持不变",
        _joined(
            "保持 维持",
            "- 当前 目前 现有 现在的 当前的 原有 稳定 稳定的",
            "车速 速度 行驶速度",
            "- 行驶 前进 前行 继续行驶 不变",
        ),
        _joined("以 按 按照", "当前 目前 现有 现在的 当前的", "车速 速度", "行驶 前进 前行 继续行驶"),
    ),
    **_all(
        "drive",
        "继续行驶 继续前进 继续前行 继续向前 继续通行 前进 前行 继续 正常行驶 向前行驶 向前开 往前开",
        "往前行驶 行驶 正常通行",
        "通行 起步 通过路口 驶过路口 通过 驾驶",
    ),
    **_all("reverse", "倒车 后退 倒退"),
    **_all("maintain", "保持不变 保持 维持"),
}
_WAYS = {
    "左": "left",
    "右": "right",
    **_all(
        "go straight",
        "继续直行 保持直行 向前直行 一直直行 直行通过 直行前进 直行 直走 直线行驶 直线前进 沿直线行驶 保持直线行驶",
    ),
    **_all(
        "keep the lane",
        "保持车道 车道保持 保持车道行驶 保持在车道内 保持在车道内行驶 保持在车道中央",
        _joined(
            "沿 沿着 保持 保持在 在 留在 停留在",
            "当前 本 原 现有 自己的",
            "车道",
            "- 内 上 行驶 内行驶 上行驶 继续行驶 前进 前行",
        ),
        _joined("沿 沿着", "车道 道路 当前道路 路", "行驶 继续行驶 前进 前行"),
    ),
    # without a side, a lane change is only denied
    **_all("do not change lane", _joined("不 不要 不能 无需 不需要 不必 禁止", "变道 换道 变更车道 超车 掉头")),
}
for _sign, _side in _SIDES:
    _WAYS |= _all(
        f"turn {_side}",
        _joined("向 往 朝 -", _sign, "转弯 转 拐弯 拐"),
        _joined("向", _sign, "转向 侧转弯"),
    )
    _WAYS |= _all(
        f"change lane to the {_side}",
        _joined("向 往", _sign, "- 侧 边 侧车道", "变道 换道 变更车道 并线"),
        _joined("-", _sign, "变道 换道 并线 侧变道"),
        _joined("变道 换道 变更 变更车道 变 换 切换 变换 并线", "至 到", _sign, "侧 侧车道 边车道 车道"),
        _joined("并入 并到", _sign, "侧车道 车道"),
    )
    _WAYS |= _all(
        f"steer slightly to the {_side}",
        _joined("稍 稍微 略微 略 轻微 微", "向", _sign, "- 打方向盘 转向"),
        _joined("向", _sign, "微调 轻打方向盘"),
    )
# Words that only join the others.
_JOINTS = {
    **_all(", ", "并且 并 且 同时 和 以及"),
    **_all(", then", "然后 随后 接着 之后 再"),
    **_all(
        "",
        "自车 本车 主车 车辆 汽车 我们 我 应该 应当 应 需要 需 必须 请 将 把 会 要 可以 可 现在 目前 此时",
        "建议 选择 采取 先 我 也",
        "直接 仍然 仍 的 地 了 吧 进行 一下 一点 一些 即可 就行 所以 因此 故 于是 就 在路口 在前方路口 前方路口 路口",
        _joined("在", "停止线 停车线 斑马线 人行横道", "前"),
        _joined("打 打开 开 开启", "左 右", "转向灯 转灯"),
    ),
}
# What "车辆" can follow only as the road user that is meant: 等待左转车辆.
ACTIONS = frozenset({*_PACES.values(), *_WAYS.values()})
PHRASES: dict[str, str] = {**_CONTROLS, **_DEGREES, **_PACES, **_WAYS, **_JOINTS}
