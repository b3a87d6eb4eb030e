"""Hints from the machine that a link may need looking at: its network changed, or it slept.

`watch.watching` is the one entry. A hint is a trigger, never the truth: what becomes of a link is decided in
`outlast.supervision`, and everything works without any of this, only later.
"""
