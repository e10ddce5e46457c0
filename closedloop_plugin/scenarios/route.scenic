"""The ego at the start of its route, and no actor: for a route without a scenario that a program plays, and for one with
several, which are played under this program."""

model scenic.domains.driving.model

stage = globalParameters.stage

ego = new Car at stage.spot(0), facing stage.heading(0)
