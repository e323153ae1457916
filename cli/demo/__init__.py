"""The story of one killed agent."""
