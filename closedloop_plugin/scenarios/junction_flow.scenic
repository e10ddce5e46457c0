"""A flow of cars or cyclists that the ego has to cross or join at a junction: Signalized- and
NonSignalizedJunctionLeftTurn, ...RightTurn, ...LeftTurnEnterFlow, EnterActorFlow, CrossingBicycleFlow.

flow_speed: m/s. source_dist_interval: free space between two of them, m. start_actor_flow, end_actor_flow: ends of the
flow, if the route gives them; otherwise it goes from arm to arm. The flow has priority and ends after about 20 s.
"""

model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *

if option("source") == "given":
    line = geometry.given_flow(road, stage.params["start_actor_flow"], stage.params["end_actor_flow"])
else:
    line = geometry.junction_flow(road, option("source"), option("target"))
meet = geometry.closest(route, line, stage.trigger_s + 5)
traffic = flows.flow(stage, line, stage.number("flow_speed", 10), stage.interval("source_dist_interval", (5, 7)), meet)

ego = new Car at place(0), facing stage.heading(0)

for rail in traffic.rails:
    new Wheeled at place_on(rail), facing heading_on(rail), with kind option("kind"), with rail rail, \
        with gone True, with behavior Flow()
require monitor Conduct(traffic)

stage.hold_signals(route="green", cross="red")
flows.green_for(stage, line)
