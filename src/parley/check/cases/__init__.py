"""The cases of a check: what is tried for each rule."""
