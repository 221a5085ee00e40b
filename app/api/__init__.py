"""The HTTP side: routes, and what lies between them and the network."""
