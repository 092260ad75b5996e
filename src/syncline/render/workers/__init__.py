"""Worker processes for untrusted work, and their protocol with the operator.

pool            assigns processes to work, fairly between tenants, with backoff for work that was stopped
process         one worker process, on the side of the operator
protocol        the messages between operator and worker; `framing` encodes them
loop            the main loop of a worker: it serves jobs until its input ends
transform       the program of a worker that transforms data and renders texts
build           the program of a worker that decrypts, templates, parses and validates
confinement     the sandbox that a worker enters before its first job
"""
