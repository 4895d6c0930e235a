"""Training objectives: losses, heads, and one file a system."""
