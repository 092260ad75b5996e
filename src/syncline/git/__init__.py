"""Git repositories as they are now."""
