"""Worker processes for untrusted work, and their protocol with the operator.

pool            lends processes, fairly between tenants; backs off from work that had to be stopped
process         one worker process, as the operator sees it
protocol        what the two sides say to each other; `framing` is how it is written
loop            the worker's side: it serves jobs until its input ends
transform       the program of a worker that transforms data and renders texts
build           the program of a worker that decrypts, templates, parses and validates
confinement     what a worker gives up before its first job
"""
