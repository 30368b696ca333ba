"""The shipped compose files in containers: `python -m tests.containers`, or `make test-containers`.

Not a part of `make test`: it needs root, podman, runc and debootstrap, and takes minutes. No
registry is asked. The images of others are stand-ins: the same programs on a Debian made by
debootstrap. Everything runs in a network namespace of its own, with which all of its networks go.
"""
