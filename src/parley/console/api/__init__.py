"""The routes below `/console/api`: a module for each topic, gathered by `table`."""
