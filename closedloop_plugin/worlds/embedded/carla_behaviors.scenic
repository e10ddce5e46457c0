"""The behaviours of Scenic's CARLA model, for the embedded world."""

from scenic.domains.driving.behaviors import *

from closedloop_plugin.worlds.embedded.carla_actions import *

behavior AutopilotBehavior(enabled=True, **kwargs):
    """Drive as CARLA's autopilot; see SetAutopilotAction."""
    take SetAutopilotAction(enabled=enabled, **kwargs)

behavior WalkForwardBehavior(speed=0.5):
    """Walk straight on at this speed, m/s."""
    take SetWalkingDirectionAction(self.heading), SetWalkingSpeedAction(speed)

behavior WalkBehavior(maxSpeed=1.4):
    """Walk along the pavement; see SetWalkAction."""
    take SetWalkAction(True, maxSpeed)

behavior MoveAhead(speed):
    """One step straight on at this speed, m/s: of a walker or of a vehicle."""
    if isinstance(self, Walks):
        take SetWalkingDirectionAction(self.heading), SetWalkingSpeedAction(speed)
    else:
        take SetSpeedAction(speed)

behavior CrossingBehavior(reference_actor, min_speed=1, threshold=10, final_speed=None):
    """Wait until the reference actor is within `threshold` metres, then cross its way so as to meet it there, at
    `min_speed` m/s at least; once it has passed, go on at `final_speed`."""
    while (distance from self to reference_actor) > threshold:
        wait
    while True:
        apart = (self.position - reference_actor.position).rotatedBy(-reference_actor.heading)
        if apart.y <= 0:  # metres ahead of the reference actor
            break
        # The time that the reference actor needs to this place is the time to cover the distance across its way.
        do MoveAhead(max(apart.x * reference_actor.speed / apart.y, min_speed))
    do MoveAhead(final_speed or min_speed)
