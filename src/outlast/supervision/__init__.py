"""The client's machine: tells busy from gone, and decides when a connection is probed, kept, replaced or waited for.

`step` takes the state of one server's link, what has happened and the time, and returns the next state and what is to
be done. Nothing here waits: when time itself is to be told next stands in `link.deadline`.
"""
