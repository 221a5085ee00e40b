"""Everything that leaves the machine: addresses, the guarded client, the HTTP transport."""
