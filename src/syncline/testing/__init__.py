"""Public helpers for tests, of this project and of projects that use it.

`fixtures` gives pytest a real control plane, `operator` runs the operator as users do, `faults` and `proxy` put a bad
network between the two. None of it is part of the running operator, and nothing of the operator imports it.
"""
