"""A flow of cars or cyclists that the ego has to cross or join at a junction: Signalized- and
NonSignalizedJunctionLeftTurn, ...RightTurn, ...LeftTurnEnterFlow, EnterActorFlow, CrossingBicycleFlow.

flow_speed: m/s. source_dist_interval: m between two of them. start_actor_flow, end_actor_flow: ends of the flow, if the
route gives them; otherwise it goes from arm to arm, from `before` to `beyond` seconds of driving outside the junction.
At lights, the ego's turns green 5 s after the scenario has begun.
"""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *

speed = stage.number("flow_speed", 10)
enters, leaves = geometry.last_junction(road)
if option("source") == "given":
    start, end = stage.params["start_actor_flow"], stage.params["end_actor_flow"]
    line = geometry.given_flow(road, start, end)
    ends, crossed = geometry.given_ends(line, start, end), (0.0, 0.0)
else:
    line = geometry.junction_flow(road, option("source"), option("target"))
    crossed = geometry.mouths(road, line, option("source"), option("target"))
    ends = max(crossed[0] - option("before") * speed, 0.0), min(crossed[1] + option("beyond") * speed, line.length)
if option("end") == "sink":  # 2 m from the end of the flow
    end_s = route.locate(*line.pose(ends[1])[:2])[0] - 2.0
else:  # metres behind the junction
    end_s = leaves + option("end")
if option("kind") == "bicycle":  # to 40 m behind the junction, beside the road on which the ego arrives
    crossed = line.locate(*route.pose(leaves)[:2])[0], line.locate(*route.pose(enters)[:2])[0]
    ends = ends[0], crossed[1] + 40.0
traffic = flows.ActorFlow(stage, line, ends, speed, stage.interval("source_dist_interval", option("gaps")), end_s,
                          populated=crossed if option("populated") else False)

ego = new Car at place(0), facing stage.heading(0)

for rail in traffic.rails:
    new Wheeled at place_on(rail), facing heading_on(rail), with kind option("kind"), with rail rail, \
        with gone True, with behavior InFlow(traffic)
require monitor Conduct(traffic)

monitor Lights():
    """Red for the ego until 5 s after the trigger, then green as for the flow; all others red."""
    stage.hold_signals(route="red", cross="red")
    flows.green_for(stage, line)
    while not stage.reached_trigger:
        wait
    began = stage.time_s
    while stage.time_s < began + 5.0:
        wait
    stage.hold_signals(route="green")
    wait

require monitor Lights()
