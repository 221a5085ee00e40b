"""What Hone costs, side by side with its peers."""
