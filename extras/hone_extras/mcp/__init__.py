"""`hone mcp`: an assistant refines texts by the Model Context Protocol."""
