"""Engines that run the independent tasks of a build."""
