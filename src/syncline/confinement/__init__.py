"""The sandbox for external programs: git, ssh and gpg, kustomize, helm and sops.

    system_calls    limits, and filters of system calls; also for worker processes (`render/workers/confinement.py`)
    walls           confines a new process, which then executes the program
    launcher        the script of such a process
    programs        the command of a confined program, and the features that this machine lacks

This package does not start programs and does not read their output: the caller does. Only `programs` imports large
modules, because a launcher runs before every call of git.
"""
