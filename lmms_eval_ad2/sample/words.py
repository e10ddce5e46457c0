"""The words of the sample's questions and answers, English and Chinese, made from what stands in a scene."""

from __future__ import annotations

from lmms_eval_ad2.records import Text
from lmms_eval_ad2.sample.scene import EGO_LEFT, EGO_RIGHT, VEHICLES, Scene, Thing

KINDS: dict[str, Text] = {
    "car": Text("car", "轿车"), "van": Text("van", "面包车"), "truck": Text("truck", "卡车"), "bus": Text("bus", "公交车"),
    "pedestrian": Text("pedestrian", "行人"), "child": Text("child", "儿童"), "worker": Text("road worker", "施工人员"),
    "cyclist": Text("cyclist", "骑行者"), "traffic_cone": Text("traffic cone", "交通锥"),
    "barrier": Text("works barrier", "施工护栏"), "traffic_light": Text("traffic light", "交通信号灯"),
    "speed_sign": Text("speed limit sign", "限速标志"), "stop_sign": Text("stop sign", "停车让行标志"),
    "warning_sign": Text("warning sign", "警告标志"), "direction_sign": Text("direction sign", "指路标志"),
    "dog": Text("dog", "狗"), "carton": Text("cardboard box", "纸箱"),
}  # fmt: skip
COLORS: dict[str, Text] = {
    "white": Text("white", "白色"), "black": Text("black", "黑色"), "silver": Text("silver", "银色"),
    "red": Text("red", "红色"), "blue": Text("blue", "蓝色"), "yellow": Text("yellow", "黄色"),
    "green": Text("green", "绿色"), "orange": Text("orange", "橙色"),
}  # fmt: skip
WEATHERS: dict[str, Text] = {
    "clear": Text("clear daylight", "晴朗的白天"), "overcast": Text("an overcast day", "阴天"),
    "dawn": Text("dawn, with the sun low", "黎明，太阳很低"), "rainy": Text("rain", "雨天"), "snowy": Text("snowfall", "雪天"),
    "fog": Text("fog", "雾天"), "night": Text("night", "夜晚"), "sand": Text("a sandstorm", "沙尘天气"),
}  # fmt: skip
LEVELS: dict[str, Text] = {"light": Text("light", "轻度"), "moderate": Text("moderate", "中度"), "severe": Text("severe", "重度")}
HAZARDS: dict[str, Text] = {
    "clear": Text("visibility is good and the road is dry", "能见度良好，路面干燥"),
    "overcast": Text("the light is flat and contrast is low", "光线平淡，对比度低"),
    "dawn": Text("the low sun dazzles and shadows are long", "低角度的阳光造成眩光，阴影较长"),
    "rainy": Text("the road is wet, braking distances grow and rain hides detail", "路面湿滑，制动距离变长，雨水遮挡细节"),
    "snowy": Text("snow covers the markings and tyres grip badly", "积雪覆盖标线，轮胎附着力差"),
    "fog": Text("fog hides everything that is not near", "雾气使远处的目标难以看清"),
    "night": Text("it is dark and only headlights and lamps give light", "光线昏暗，只有车灯和路灯照明"),
    "sand": Text("dust hides distant objects and sand on the road takes grip", "沙尘遮挡远处目标，路面积沙降低附着力"),
}  # fmt: skip
ADVICE: dict[str, Text] = {
    "clear": Text("keep to the speed limit and stay alert", "遵守限速并保持警觉"),
    "overcast": Text("keep a normal distance and watch for objects of low contrast", "保持正常车距，留意对比度低的目标"),
    "dawn": Text("lower the sun visor, keep more distance and expect to see others late", "放下遮阳板，加大车距，并预料会较晚才看到他人"),
    "rainy": Text("slow down, double the distance and brake gently with the lights on", "开灯、减速，车距加倍，并轻柔制动"),
    "snowy": Text("drive slowly, steer and brake gently and follow the tracks", "低速行驶，轻打方向、轻踩制动，沿车辙行驶"),
    "fog": Text("slow down to what can be seen, use fog lights and do not overtake", "按可见距离减速，使用雾灯，不要超车"),
    "night": Text("drive within the reach of the headlights and watch the dark roadside", "在车灯照射范围内行驶，留意黑暗的路边"),
    "sand": Text("slow down, turn the lights on and keep a large distance", "减速、开灯并保持较大车距"),
}  # fmt: skip
EFFECTS: dict[str, Text] = {
    "car": Text("the ego car must keep its distance and be ready to react", "自车需保持车距并随时准备反应"),
    "van": Text("it limits the view ahead, so the ego car must keep its distance", "它遮挡前方视线，自车需保持车距"),
    "truck": Text("it is large and hides the road ahead, so the ego car must stay well behind", "它体积大并遮挡前方道路，自车需拉开距离"),
    "bus": Text("people may get on or off, so the ego car must pass slowly", "可能有人上下车，自车需低速通过"),
    "pedestrian": Text("the ego car must give way and be ready to stop", "自车需让行并准备停车"),
    "child": Text("a child may run without warning, so the ego car must be ready to stop", "儿童可能突然跑动，自车需准备停车"),
    "worker": Text("the ego car must slow down and keep clear of the workers", "自车需减速并避让施工人员"),
    "cyclist": Text("the ego car must leave at least 1.5 m when passing", "自车超越时需留出至少1.5米"),
    "traffic_cone": Text("it closes part of the road, so the ego car must keep to the left of it", "它封闭了部分道路，自车需靠左绕行"),
    "barrier": Text("it closes the road edge, so the ego car must drive around it", "它封闭了道路边缘，自车需绕行"),
    "traffic_light": Text("the ego car must obey its signal", "自车需服从其信号"),
    "speed_sign": Text("the ego car must not drive faster than it says", "自车不得超过其规定的速度"),
    "stop_sign": Text("the ego car must stop before the junction", "自车需在路口前停车"),
    "warning_sign": Text("it warns of danger ahead, so the ego car must slow down", "它提示前方有危险，自车需减速"),
    "direction_sign": Text("it tells the way and asks for no reaction", "它用于指路，无需自车反应"),
    "dog": Text("it may run in any direction, so the ego car must brake", "它可能向任意方向跑动，自车需制动"),
    "carton": Text("it blocks the lane, so the ego car must slow down and steer around it", "它挡住车道，自车需减速绕行"),
}  # fmt: skip
STATES: dict[str, Text] = {
    "moving": Text("driving on", "正常行驶"), "braking": Text("braking", "正在制动"), "parked": Text("parked", "停放"),
    "crossing": Text("crossing the road", "正在横穿道路"), "waiting": Text("waiting at the roadside", "在路边等待"),
    "working": Text("working", "正在施工"), "lying": Text("lying on the road", "落在路面上"),
    "red": Text("red", "红灯"), "yellow": Text("yellow", "黄灯"), "green": Text("green", "绿灯"),
}  # fmt: skip


def name(t: Thing) -> Text:
    """The thing by colour and kind: "red car", "pedestrian in green", "speed limit sign"."""
    kind, color = KINDS[t.kind], COLORS.get(t.color, Text())
    if t.kind in VEHICLES:
        return Text(f"{color.en} {kind.en}", color.zh + kind.zh)
    if t.kind in ("pedestrian", "child", "cyclist"):
        return Text(f"{kind.en} in {color.en}", f"穿{color.zh}上衣的{kind.zh}")
    return kind


def side(t: Thing) -> str:
    """Where a thing stands seen from our lane: left, ahead or right."""
    return "left" if t.x < EGO_LEFT else "right" if t.x > EGO_RIGHT else "ahead"


def place(t: Thing, scene: Scene) -> Text:
    """Where it is, in words."""
    meters = round(abs(t.z))
    if t.kind == "traffic_light":
        where = Text("above and beside the road", "道路上方和路侧")
    elif side(t) == "ahead":
        where = Text("ahead in the ego lane", "自车道前方")
    elif side(t) == "left":
        lane = t.x > scene.road[0] and t.heading == 180
        where = Text("in the oncoming lane on the left", "左侧对向车道") if lane else Text("on the left", "左侧")
    else:
        where = Text("on the right", "右侧")
    return Text(f"{where.en}, about {meters} m away", f"{where.zh}约{meters}米处")


def state(t: Thing) -> Text:
    """What it does; empty for what only stands there."""
    return STATES.get(t.state, Text())


def describe(t: Thing, scene: Scene) -> Text:
    """A sentence about one thing: what, where, what it does or says."""
    n, p, s = name(t), place(t, scene), state(t)
    en, zh = f"a {n.en} {p.en}" if n.en[0] not in "aeo" else f"an {n.en} {p.en}", f"{p.zh}有{n.zh}"
    if t.kind == "traffic_light":
        en, zh = en + f", showing {s.en}", zh + f"，显示{s.zh}"
    elif s:
        en, zh = en + f", {s.en}", zh + f"，{s.zh}"
    if t.kind in ("speed_sign", "direction_sign", "stop_sign"):
        words = t.text.replace("/", ", ")
        en, zh = en + f", reading {words}", zh + f"，内容为{words}"
    return Text(en, zh)


def listing(things: list[Thing], scene: Scene) -> Text:
    """Several things in one sentence; "nothing" where there is none."""
    if not things:
        return Text("none", "没有")
    rows = [describe(t, scene) for t in things]
    return Text("; ".join(r.en for r in rows), "；".join(r.zh for r in rows))


def conditions(scene: Scene) -> Text:
    """Weather and severity: "severe rain"."""
    w, level = WEATHERS[scene.weather], LEVELS[scene.severity]
    if scene.weather in ("rainy", "snowy", "fog"):
        return Text(f"{level.en} {w.en}", level.zh + w.zh)
    return w


def sentence(text: Text) -> Text:
    """With a capital and a full stop."""
    return Text(text.en[:1].upper() + text.en[1:] + ".", text.zh + "。")
