"""One process that simulates workers, the API, the network and time; the store is real."""
