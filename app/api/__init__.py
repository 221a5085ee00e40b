"""The HTTP layer: routes, and everything between them and the network."""
