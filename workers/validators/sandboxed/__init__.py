"""Programs that run in the sandbox, where nothing of Hone can be imported: their text is sent."""
