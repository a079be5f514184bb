"""Whether an A2A server keeps the rules, as any stranger can see: cases, the probe they use, and reports."""
