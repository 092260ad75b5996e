"""Walls around programs that are not ours: git, ssh and gpg, kustomize, helm and sops.

    system_calls    limits, and filters of system calls; for children of ours too (`render/workers/confinement.py`)
    walls           puts up the walls in a new process, which then becomes the program
    launcher        the file that such a process runs
    programs        how programs are called behind walls, and which walls this machine lacks

What it is not: it does not start programs, or read what they print; who calls them does. Nothing but `programs` imports
anything large: a launcher runs before every call of git.
"""
