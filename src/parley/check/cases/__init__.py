"""What is tried for each rule, by what it is about."""
