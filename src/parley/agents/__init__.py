"""The author's side: an agent is one function; what it returns or yields becomes artifacts, durably.

`Agent` makes a program of functions, `Turn` is what they are given. Nothing here knows transports or stores.
"""
