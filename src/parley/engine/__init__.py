"""What happens over time: the operations of A2A on durable tasks, and the runs that work on them.

The engine takes and returns canonical values. It knows stores and programs, but neither HTTP nor dialects nor bytes.
"""
