"""One claimed refinement, from replay to its ending."""
