"""A flow on the main road that the ego joins or crosses at speed.

Types: MergerIntoSlowTraffic, MergerIntoSlowTrafficV2, HighwayExit, InterurbanActorFlow, InterurbanAdvancedActorFlow.
The flow goes from `start_actor_flow` to `end_actor_flow` at `flow_speed` m/s, with `source_dist_interval` metres
between two cars. direction: side from which it comes, if the route gives it. It ends when the ego has left the junction
("exit") or is 2 m from the flow's end ("sink").
"""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *

start, end = stage.params["start_actor_flow"], stage.params["end_actor_flow"]
line = geometry.given_flow(road, start, end, stage.params.get("direction"))
ends = geometry.given_ends(line, start, end)
sink_s = route.locate(*line.pose(ends[1])[:2])[0] - 2.0
traffic = flows.ActorFlow(stage, line, ends, stage.number("flow_speed", 10),
                          stage.interval("source_dist_interval", (20, 50)),
                          sink_s if option("end") == "sink" else geometry.last_junction(road)[1],
                          populated=option("populated"))

ego = new Car at place(0), facing stage.heading(0)

for rail in traffic.rails:
    new Wheeled at place_on(rail), facing heading_on(rail), with rail rail, with gone True, \
        with behavior InFlow(traffic)
require monitor Conduct(traffic)
