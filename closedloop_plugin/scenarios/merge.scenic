"""A flow on the main road that the ego joins or crosses at speed.

Types: MergerIntoSlowTraffic, MergerIntoSlowTrafficV2, HighwayExit, InterurbanActorFlow, InterurbanAdvancedActorFlow.
The flow goes from `start_actor_flow` to `end_actor_flow` at `flow_speed` m/s, with `source_dist_interval` metres
between two cars. direction: side from which it comes, if the route gives it.
"""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *

line = geometry.given_flow(road, stage.params["start_actor_flow"], stage.params["end_actor_flow"],
                           stage.params.get("direction"))
meet = geometry.closest(route, line, stage.trigger_s + 10)
traffic = flows.flow(stage, line, stage.number("flow_speed", 10), stage.interval("source_dist_interval", (5, 7)), meet,
                     early_s=0.2)

ego = new Car at place(0), facing stage.heading(0)

for rail in traffic.rails:
    new Wheeled at place_on(rail), facing heading_on(rail), with rail rail, with gone True, with behavior Flow()
require monitor Conduct(traffic)
