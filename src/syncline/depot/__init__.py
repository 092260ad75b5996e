"""The endpoint from which agents get their files, and to which they report. Every replica serves it.

It authenticates a pod by its token, and serves the plan of that pod only. `controllers/gateways` composes the plans.
"""
