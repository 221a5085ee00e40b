"""How the store speaks to Redis: connections, commits, scripts, keys, and what values look like."""
